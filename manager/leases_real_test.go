// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// These tests measure, on real servers, how long before ZooKeeper deletes a
// holder's node the holder is told of its loss. A lease has two bounds: half the
// session timeout after an answered write, and eleven twelfths of it after a
// request that the leader has certainly heard of. Each kind of trouble brings one
// of the two close to the server's own deadline.

// leaseTimeout is the session timeout of these holders: two ticks of ZooKeeper's
// usual tickTime, the minimum.
const leaseTimeout = 4 * time.Second

// tellTime allows for late timers and goroutines on a busy machine. The margin has
// no such allowance.
const tellTime = time.Second

// A leaseTrial is a process that acquires a lock, is cut off from the leader, and
// loses the lock.
type leaseTrial struct {
	relay  *realzk.Relay // between the process and its server
	lock   *Lock
	margin time.Duration // its LostMargin
	next   *Lock         // another process's
	probe  *nodeProbe

	hold   Hold
	heard  time.Time // if set, requests that the process sent later were answered …
	mended time.Time // … after this time only, on the same connection
	cut    time.Time
	told   <-chan time.Time
}

// newLeaseTrial opens the holder's manager at one server, and those of the other
// process and of the probe at others.
func newLeaseTrial(t *testing.T, at *realzk.Server, margin time.Duration, others ...*realzk.Server) *leaseTrial {
	t.Helper()
	x := &leaseTrial{margin: margin, relay: realzk.NewRelay(t, at.Addr()), probe: newNodeProbe(t, false, others...)}
	x.next = exclusive(t, openAt(t, "next", time.Minute, others...), "jobs")
	x.lock = exclusive(t, openReal(t, x.relay.Addr(), "holder", func(cfg *Config) {
		cfg.SessionTimeout, cfg.LostMargin, cfg.CloseTimeout = leaseTimeout, margin, time.Second
	}), "jobs")
	return x
}

// take acquires the lock for the process.
func (x *leaseTrial) take(t *testing.T) {
	t.Helper()
	x.hold = mustLock(t, x.lock)
	x.told = lossOf(x.hold)
}

// wasCut records that the process has been cut off.
func (x *leaseTrial) wasCut() { x.cut = time.Now() }

// bound is the latest time at which the lease may end.
func (x *leaseTrial) bound() time.Time {
	bound := x.cut.Add(leaseTimeout / 2)
	// Answers that come after a silence count a quarter of the timeout later. That does not
	// matter on a new connection, of which a busy machine may think that it needs one.
	if !x.heard.IsZero() && x.cut.Sub(x.mended) < leaseTimeout/4 && x.lock.m.Stats().Reconnects == 0 {
		bound = earlier(bound, x.heard.Add(leaseTimeout*11/12))
	}
	return bound.Add(-x.margin)
}

// untilTold waits until the holder is told of its loss, and checks meanwhile that
// its lease never exceeds the bound. Unlike the notification, this needs no
// allowance for a busy machine.
func untilTold(t *testing.T, h Hold, told <-chan time.Time, cut, bound time.Time) time.Time {
	t.Helper()
	lease := h.share.promises().tenure.lease
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over, deadline := false, time.After(time.Minute); ; {
		if end := time.Now().Add(lease.Remaining()); !over && !lease.Lapsed() && end.After(bound) {
			t.Errorf("the lease ends %v too late: %v after the cut instead of at most %v", end.Sub(bound), end.Sub(cut), bound.Sub(cut))
			over = true // report it once
		}
		select {
		case at := <-told:
			wantErr(t, "the holder", h.Err(), ErrLost)
			expect(t, at.Sub(bound) <= tellTime,
				"told %v after the cut, %v after the latest end of the lease", at.Sub(cut), at.Sub(bound))
			return at
		case <-tick.C:
		case <-deadline:
			t.Fatal("the loss is not reported")
		}
	}
}

// loses waits for the loss and measures the margin.
func (x *leaseTrial) loses(t *testing.T) {
	t.Helper()
	next := x.next.Acquire(t.Context())
	x.probe.watch(t, grantOf(t, x.hold).Path)
	told := untilTold(t, x.hold, x.told, x.cut, x.bound())
	there, gone := x.probe.misses(t)
	margin, least := there.Sub(told), x.margin+leaseTimeout/12
	expect(t, margin >= least, "the margin is %v, want at least %v", margin, least)
	t.Logf("told %v after the cut; margin: the node was there for another %v, and gone after %v",
		ms(told.Sub(x.cut)), ms(there.Sub(told)), ms(gone.Sub(told)))
	granted(t, "the next process", next, time.Minute)
	first, second := x.hold.share.promises().tenure.token, grantOf(t, next).Token
	expect(t, second > first, "token %d after %d", second, first)
	mustRelease(t, next)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// silence delays everything that the process sends, before it acquires the lock,
// for half the session timeout. That is too short for the client to give up its
// connection.
func (x *leaseTrial) silence() {
	x.relay.Cut()
	x.heard = time.Now()
	<-time.After(leaseTimeout / 2)
	x.mended = time.Now()
	x.relay.Mend()
}

// The holder's server becomes unreachable, or stops answering, at different points
// between heartbeats and of the session's life.
func TestF041_RealLeases(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	wait := func(d time.Duration) func(*testing.T, *leaseTrial) {
		return func(*testing.T, *leaseTrial) { <-time.After(d) }
	}
	const step = leaseTimeout / 24
	take := func(t *testing.T, x *leaseTrial) { t.Helper(); x.take(t) }
	then := func(steps ...func(*testing.T, *leaseTrial)) []func(*testing.T, *leaseTrial) { return steps }
	var all sync.WaitGroup
	for _, test := range []struct {
		name   string
		margin time.Duration
		steps  []func(*testing.T, *leaseTrial) // before it is cut off
		closed bool                            // the connection is closed and others are refused; else silence
	}{
		{"silence/1", 0, then(take, wait(20*step)), false},
		{"silence/2", 0, then(take, wait(21*step)), false},
		{"silence/3", 0, then(take, wait(22*step)), false},
		{"silence/4", 0, then(take, wait(23*step)), false},
		{"silence with a LostMargin", leaseTimeout / 5, then(take, wait(20*step)), false},
		{"closed connection", 0, then(take, wait(20*step)), true},
		{"late answers", 0, then(take, func(t *testing.T, x *leaseTrial) {
			t.Helper()
			for range 8 { // requests and answers wait for up to an eighth of the timeout
				x.relay.Cut()
				<-time.After(leaseTimeout / 8)
				x.relay.Mend()
				<-time.After(leaseTimeout / 16)
			}
			wantErr(t, "after late answers", x.hold.Err(), nil)
		}), false},
		{"young session", 0, then(take), false},
		{"young session with a LostMargin", leaseTimeout / 5, then(take), false},
		{"session without a write", 0, then(wait(30*step), take), false},
		{"after a silence", 0, then(wait(9*step), func(_ *testing.T, x *leaseTrial) { x.silence() }, take), false},
	} {
		all.Go(func() {
			t.Run(test.name, func(t *testing.T) {
				x := newLeaseTrial(t, zk, test.margin, zk)
				for _, do := range test.steps {
					do(t, x)
				}
				if test.closed {
					x.relay.Close()
				} else {
					x.relay.Cut()
				}
				x.wasCut()
				x.loses(t)
				x.relay.Mend() // lets its next session end
			})
		})
	}
	all.Wait()
}

// The hardest case: a follower, which reports the sessions that it has heard to
// its leader only every half tick, and the minimum session timeout, two ticks. The
// follower is isolated just after sessions with different pasts have acquired
// their locks.
func TestF042_RealLeasesOnAFollower(t *testing.T) {
	t.Parallel()
	const tick = leaseTimeout / 2
	e := startEnsemble(t, realzk.TickTime(tick), realzk.ConfigLine("syncLimit=5"), realzk.ConfigLine("initLimit=5"))
	for round := range 2 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			leader := e.Settled()
			follower := e.Follower()
			var ready, taken, cut, lost, healed, done sync.WaitGroup
			cut.Add(1)
			healed.Add(1)
			for name, before := range map[string]func(*testing.T, *leaseTrial){
				"steady":                  func(t *testing.T, x *leaseTrial) { t.Helper(); x.take(t) },
				"session without a write": func(*testing.T, *leaseTrial) { <-time.After(leaseTimeout / 4) },
				"after a silence":         func(_ *testing.T, x *leaseTrial) { x.silence() },
				"young session":           nil,
			} {
				ready.Add(1)
				taken.Add(1)
				lost.Add(1)
				done.Go(func() {
					t.Run(name, func(t *testing.T) {
						// The other trials do not wait for a failed one.
						isReady, isTaken, isLost := sync.OnceFunc(ready.Done), sync.OnceFunc(taken.Done), sync.OnceFunc(lost.Done)
						defer healed.Wait()
						defer func() { isReady(); isTaken(); isLost() }()
						var x *leaseTrial
						if before != nil {
							x = newLeaseTrial(t, follower, 0, leader)
							before(t, x)
						}
						isReady()
						ready.Wait()
						if x == nil {
							x = newLeaseTrial(t, follower, 0, leader)
						}
						if x.hold == (Hold{}) {
							x.take(t)
						}
						isTaken()
						cut.Wait()
						x.wasCut()
						x.loses(t)
					})
				})
			}
			taken.Wait()
			e.Isolate(follower)
			cut.Done()
			lost.Wait()
			e.Heal()
			healed.Done()
			done.Wait()
		})
	}
}

// An administrator deletes the holder's node. The holder is told at once, and the
// next process gets the lock.
func TestF048_RealNodeIsDeleted(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	a, b := exclusive(t, openAt(t, "holder", time.Minute, zk), "jobs"), exclusive(t, openAt(t, "next", time.Minute, zk), "jobs")
	h := mustLock(t, a)
	g := grantOf(t, h)
	next := b.Acquire(t.Context())
	within(t, "the waiter is queued", ioOf(next).whereabouts().known().Done())
	told, admin := lossOf(h), newNodeProbe(t, false, zk).client.Session()
	<-time.After(3 * defaultTenure) // its own node is watched when a round outlives the tenure
	began := time.Now()
	wantErr(t, "delete", admin.Delete(g.Path, -1), nil)
	took := within(t, "the holder is told", told).Sub(began)
	t.Logf("told %v after the deletion was asked for", ms(took))
	if took > 5*time.Second { // the heartbeat would notice after 10 s, the lease end after 20 s to 30 s
		t.Error("the loss was reported late")
	}
	wantErr(t, "the holder", h.Err(), ErrLost)
	granted(t, "the next process", next, time.Minute)
	expect(t, grantOf(t, next).Token > g.Token, "token %d after %d", grantOf(t, next).Token, g.Token)
	again := a.Acquire(t.Context())
	wantErr(t, "unlock", h.Unlock(t.Context()), ErrLost)
	mustRelease(t, next)
	granted(t, "the first process, again", again, time.Minute)
	mustRelease(t, again)
}

// The server loses all its data, and another process gets the lock, before the
// holder reconnects within its lease. The holder is told as soon as the server
// answers that the session is unknown. Its old holds stay lost in the new session.
func TestF050_RealServerForgets(t *testing.T) {
	t.Parallel()
	zk := realzk.Start(t)
	relay := realzk.NewRelay(t, zk.Addr())
	const timeout = time.Minute
	a := exclusive(t, openReal(t, relay.Addr(), "holder", func(cfg *Config) { cfg.SessionTimeout = timeout }), "jobs")
	h := mustLock(t, a)
	g := grantOf(t, h)
	told := lossOf(h)

	relay.Cut()
	zk.Wipe()
	zk.Restart()
	b := exclusive(t, openAt(t, "next", timeout, zk), "jobs")
	// A server refuses clients that have seen a later zxid than its own.
	for {
		x := mustLock(t, b)
		token := grantOf(t, x).Token
		mustRelease(t, x)
		if token > g.Token+10 {
			break
		}
	}
	next := mustLock(t, b)
	wantErr(t, "the holder, cut off", h.Err(), nil) // the lease is in force
	mended := time.Now()
	relay.Mend()
	took := within(t, "the holder is told", told).Sub(mended)
	t.Logf("told %v after the server could be reached", ms(took))
	if took > 10*time.Second { // the lease would have lasted longer than that
		t.Error("the loss was reported late")
	}
	wantErr(t, "the holder", h.Err(), ErrLost)
	again := a.Acquire(t.Context())
	within(t, "it queues again", ioOf(again).whereabouts().known().Done())
	wantErr(t, "the next process", next.Err(), nil)
	_, err := h.Reenter()
	expect(t, brief(err) == "lost", "reenter: %v, want ErrLost", err)
	mustRelease(t, next)
	granted(t, "the first process, again", again, time.Minute)
	expect(t, grantOf(t, again).Session != g.Session, "it is the same session")
	wantErr(t, "the old hold", h.Err(), ErrLost)
	wantErr(t, "unlock", h.Unlock(t.Context()), ErrLost)
	mustRelease(t, again)
}
