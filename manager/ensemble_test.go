// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// These tests run on real ensembles of three servers. The leader of one ends a
// session when it has not heard of it for the session timeout, but what a
// client hears comes from the server that it is connected to. Where these two
// are apart, the connection looks healthy while the lock is given away.

// openAt opens a manager that knows some servers only.
func openAt(t *testing.T, label string, timeout time.Duration, servers ...*realzk.Server) *Manager {
	t.Helper()
	return openReal(t, "", label, func(cfg *Config) {
		cfg.Servers, cfg.SessionTimeout = realzk.Addrs(servers...), timeout
		cfg.Tenure = -1 // newcomers enter a held lock, however long another process has waited
	})
}

// longTimeout is the session timeout of processes that are to lose nothing. Half
// of it is their lease, which has to outlast whatever an ensemble does on a
// machine that is too busy for it.
const longTimeout = 2 * time.Minute

// startEnsemble starts three servers that grant such timeouts.
func startEnsemble(t *testing.T, opts ...realzk.Option) *realzk.Ensemble {
	t.Helper()
	return realzk.StartEnsemble(t, 3, append(opts, realzk.SessionTimeouts(time.Second, longTimeout))...)
}

// isolationTimeout is the session timeout of a holder whose server is isolated:
// less than the 10 s after which an isolated server notices that it is.
const isolationTimeout = 4 * time.Second

// An isolation is what happens when the server that a holder is connected to is
// cut off from the others.
type isolation struct {
	e       *realzk.Ensemble
	lock    *Lock
	hold    Hold
	next    Hold       // the waiter's, in another process, which is connected to the others
	inside  *nodeProbe // asks the isolated server
	outside *nodeProbe // asks the others
	cut     time.Time
}

// isolate has a process take a lock through victim, and another wait for it,
// and isolates victim. It returns when the holder has been told of its loss and
// the other process has the lock, and after checking that it was in this order.
func isolate(t *testing.T, e *realzk.Ensemble, victim *realzk.Server, synced bool) *isolation {
	t.Helper()
	i := &isolation{e: e, lock: exclusive(t, openAt(t, "holder", isolationTimeout, victim), "jobs")}
	i.hold = mustLock(t, i.lock)
	first := grantOf(t, i.hold)
	i.next = exclusive(t, openAt(t, "next", longTimeout, e.Others(victim)...), "jobs").Acquire(t.Context())
	within(t, "the waiter is queued", ioOf(i.next).whereabouts().known().Done())
	i.inside, i.outside = newNodeProbe(t, synced, victim), newNodeProbe(t, false, e.Others(victim)...)
	i.inside.watch(t, first.Path)
	i.outside.watch(t, first.Path)
	wantErr(t, "before", i.hold.Err(), nil)

	e.Isolate(victim)
	i.cut = time.Now()
	told := untilTold(t, i.hold, lossOf(i.hold), i.cut, i.cut.Add(isolationTimeout/2))
	n := i.lock.m.client.Session().Connection()
	expect(t, n == 1, "the holder is on connection %d: it was told by a broken one", n)
	there, gone := i.outside.misses(t)
	t.Logf("told %v after the cut; margin: the node was there for another %v, and gone after %v",
		ms(told.Sub(i.cut)), ms(there.Sub(told)), ms(gone.Sub(told)))
	expect(t, there.Sub(told) >= isolationTimeout/12,
		"the margin is %v, less than what is kept free for clocks, %v", there.Sub(told), isolationTimeout/12)
	granted(t, "the next process", i.next, time.Minute)
	expect(t, grantOf(t, i.next).Token > first.Token,
		"token %d after %d", grantOf(t, i.next).Token, first.Token)
	wantErr(t, "the holder, later", i.hold.Err(), ErrLost)
	return i
}

// recover ends the isolation: the process that had lost the lock gets it again.
func (i *isolation) recover(t *testing.T) {
	t.Helper()
	token := grantOf(t, i.next).Token
	i.e.Heal()
	wantErr(t, "unlock", i.hold.Unlock(t.Context()), ErrLost)
	again := i.lock.Acquire(t.Context())
	wantErr(t, "the next process", i.next.Err(), nil)
	mustRelease(t, i.next)
	granted(t, "the first process, again", again, time.Minute)
	expect(t, grantOf(t, again).Token > token, "token %d after %d", grantOf(t, again).Token, token)
	mustRelease(t, again)
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// oneWriteStopsAll reports whether a server that waits for the outcome of a write answers no
// client at all. So it was before ZooKeeper 3.6 (ZOOKEEPER-2024), and a server that is cut off
// hardly answers anything there.
func oneWriteStopsAll(t *testing.T) bool { return realzk.Before(t, "3.6") }

// A healthy-looking connection does not prove that the lock is held (K1). The
// holder is connected to a follower that is cut off from its leader. The
// follower goes on answering pings and reads, and says that the lock's node
// exists, when the leader has ended the session and deleted the node. The
// holder is told before that.
func TestF042_IsolatedFollower(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t)
	i := isolate(t, e, e.Follower(), false)
	if _, gone := i.outside.misses(t); !oneWriteStopsAll(t) {
		i.inside.sees(t, gone.Add(time.Second))
		t.Logf("the follower still says that the node exists, %v after it was deleted", ms(i.inside.lastSeen().Sub(gone)))
	}
	i.recover(t)
}

// The other half of K1. The holder is connected to a leader that is cut off from its
// followers. It goes on answering even sync for longer than the session
// timeout, but no write, while the followers elect another, which does not hear
// of the session. The holder is told by the lack of an answered write.
func TestF043_IsolatedLeader(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t)
	i := isolate(t, e, e.Leader(), true)
	answered := i.inside.lastSeen().Sub(i.cut)
	t.Logf("the deposed leader answered sync and said that the node exists for %v after the cut", ms(answered))
	expect(t, answered >= isolationTimeout || oneWriteStopsAll(t), "less than the session timeout, so this test shows nothing")
	i.recover(t)
}

// kept is a lock that is to be kept while an ensemble's servers come and go:
// held by one process, waited for by another, both connected to whichever
// server they find.
type kept struct {
	hold, next   Hold
	grant        Grant
	other, after *Lock // another lock of either process
}

// outlast takes such a lock.
func outlast(t *testing.T, e *realzk.Ensemble) *kept {
	t.Helper()
	a, b := openAt(t, "holder", longTimeout, e.Servers()...), openAt(t, "next", longTimeout, e.Servers()...)
	k := &kept{hold: mustLock(t, exclusive(t, a, "jobs")), other: exclusive(t, a, "other"), after: exclusive(t, b, "after")}
	k.grant = grantOf(t, k.hold)
	k.next = exclusive(t, b, "jobs").Acquire(t.Context())
	within(t, "the waiter is queued", ioOf(k.next).whereabouts().known().Done())
	return k
}

// writes returns when both processes have had writes answered, and checks that
// the lock is held, by the same node of the same session as at first.
func (k *kept) writes(t *testing.T) {
	t.Helper()
	for _, l := range []*Lock{k.other, k.after} {
		h := l.Acquire(t.Context())
		granted(t, "another lock", h, time.Minute)
		mustRelease(t, h)
	}
	expect(t, !isClosed(k.hold.Lost()), "Lost has closed")
	wantErr(t, "the holder", k.hold.Err(), nil)
	expect(t, grantOf(t, k.hold) == k.grant && grantOf(t, k.hold).Session == session(k.other.m),
		"the grant is %+v, was %+v", grantOf(t, k.hold), k.grant)
	wantErr(t, "the waiter", k.next.Err(), ErrNotGranted)
}

// done releases the lock: the waiter, whose watch has survived, gets it.
func (k *kept) done(t *testing.T) {
	t.Helper()
	expect(t, k.other.m.client.Session().Connection() != 1,
		"the holder's connection never broke, so this test shows nothing")
	mustRelease(t, k.hold)
	granted(t, "the waiter", k.next, time.Minute)
	expect(t, grantOf(t, k.next).Token > k.grant.Token,
		"token %d after %d", grantOf(t, k.next).Token, k.grant.Token)
	mustRelease(t, k.next)
}

// The leader is killed and another elected within the lease: nothing is lost.
func TestF053_LeaderFailover(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t)
	k := outlast(t, e)
	e.Leader().Kill()
	killed := time.Now()
	inside := mustLock(t, k.hold.Lock()) // a newcomer enters meanwhile
	k.writes(t)
	t.Logf("the lock was kept; writes were answered again %v after the leader was killed", ms(time.Since(killed)))
	mustRelease(t, inside)
	k.done(t)
}

// The servers are restarted one after the other, the leader last: nothing is lost.
func TestF053_RollingRestart(t *testing.T) {
	t.Parallel()
	e := startEnsemble(t)
	k := outlast(t, e)
	leader := e.Leader()
	for _, s := range append(e.Others(leader), leader) {
		began := time.Now()
		s.Kill()
		s.Restart()
		e.Settled()
		k.writes(t)
		t.Logf("restarted one server in %v; the lock was kept", ms(time.Since(began)))
	}
	k.done(t)
}
