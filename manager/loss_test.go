// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A scene is a lock that process a has brought into some phase, and a process b
// that competes for it.
type scene struct {
	*cluster
	a, b  *Lock
	h     Hold  // a's
	stop  *stop // before a request of a's; nil if none is under way
	ahead Hold  // b's, if a waits behind it
}

// phases bring a scene's lock into each of its phases.
var phases = []struct {
	name  string
	enter func(s *scene)
}{
	{"free", func(*scene) {}},
	{"creating", func(s *scene) {
		s.stop = s.stopBefore(s.a.m, createNode)
		s.h = s.a.Acquire(s.t.Context())
		s.stop.reached()
	}},
	{"queued", func(s *scene) {
		s.ahead = mustLock(s.t, s.b)
		s.h = s.a.Acquire(s.t.Context())
		synctest.Wait()
		wantErr(s.t, "in the queue", s.h.Err(), ErrNotGranted)
	}},
	{"retained", func(s *scene) { s.h = mustLock(s.t, s.a) }},
	{"releasing", func(s *scene) {
		s.h = mustLock(s.t, s.a)
		s.stop = s.stopBefore(s.a.m, deleteNode)
		s.h.Release()
		s.stop.reached()
		wantState(s.t, s.a, state.Releasing, 0)
	}},
}

// losses are the ways to lose a request: before or after its execution, together
// with the connection or a second before the connection breaks.
var losses = map[string]func(*cluster, zktest.Match) *zktest.Fault{
	"reply dropped":   func(c *cluster, m zktest.Match) *zktest.Fault { return c.srv.Faults().DropReply(m) },
	"request dropped": func(c *cluster, m zktest.Match) *zktest.Fault { return c.srv.Faults().DropRequest(m) },
	"reply swallowed": func(c *cluster, m zktest.Match) *zktest.Fault {
		return c.thenCut(c.srv.Faults().SwallowReply(m), m.Session)
	},
	"request swallowed": func(c *cluster, m zktest.Match) *zktest.Fault {
		return c.thenCut(c.srv.Faults().SwallowRequest(m), m.Session)
	},
}

// thenCut cuts the session's connection one second after f has struck.
func (c *cluster) thenCut(f *zktest.Fault, session int64) *zktest.Fault {
	go func() {
		select {
		case <-f.Hit():
			time.AfterFunc(time.Second, func() { c.srv.Faults().Cut(session) })
		case <-c.t.Context().Done():
		}
	}()
	return f
}

// Each request of a lock is lost in turn. In the end the lock is held once, and no
// node is left.
func TestF001_EveryRequestLost(t *testing.T) {
	for name, loss := range losses {
		hits := 0
		for _, plain := range []bool{false, true} {
			for _, contended := range []bool{false, true} {
				for nth := 1; nth <= 6; nth++ {
					subtest(t, fmt.Sprintf("%s/plain=%t/contended=%t/%d", name, plain, contended, nth), func(c *cluster) {
						if plain {
							wantErr(c.t, "create", c.srv.CreateAll(dir, []byte("data")), nil)
						}
						a, b := c.lock("a"), c.lock("b")
						var ahead Hold
						if contended {
							ahead = mustLock(c.t, b)
						}
						f := loss(c, zktest.Match{Session: session(a.m), Path: dir, Nth: nth})
						h := a.Acquire(c.t.Context())
						if contended {
							later(time.Second)
							ahead.Release()
						}
						_, err := h.Granted().Wait(c.t.Context())
						wantErr(c.t, "grant", err, nil)
						// The lease may have ended during the wait for an
						// answer. Then the lock was lost, and can be acquired
						// again.
						if err := h.Err(); errors.Is(err, ErrLost) {
							h.Release()
							h = mustLock(c.t, a)
						}
						c.wantNodes(1)
						err = h.Unlock(c.t.Context())
						expect(c.t, err == nil || errors.Is(err, ErrLost), "unlock: %v", err)
						c.wantNodes(0)
						f.Remove()
						hits += f.Hits()
						mustRelease(c.t, mustLock(c.t, b))
						mustRelease(c.t, mustLock(c.t, a))
						c.wantNodes(0)
					})
				}
			}
		}
		expect(t, hits >= 15, "%s: only %d requests were lost", name, hits)
	}
}

// The holder's packets are lost silently. It is told of its loss before the server
// gives the lock to another process, but not much earlier than necessary.
func TestF041_SilentPartition(t *testing.T) {
	cases := 0
	for _, test := range []struct{ timeout, tick, margin time.Duration }{
		{4 * time.Second, 2 * time.Second, 0},
		{10 * time.Second, 2 * time.Second, 0},
		{10 * time.Second, 2 * time.Second, 2 * time.Second},
		{30 * time.Second, 2 * time.Second, 0},
		{4 * time.Second, 500 * time.Millisecond, 0},
		{1 * time.Second, 500 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("timeout=%v/tick=%v/margin=%v", test.timeout, test.tick, test.margin), func(t *testing.T) {
			// The partition begins at different points between two heartbeats.
			for step := range 8 {
				if cases++; !racing.Some(cases) {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, zktest.Config{TickTime: test.tick, MinSessionTimeout: time.Second, MaxSessionTimeout: time.Hour})
					with := func(cfg *Config) { cfg.SessionTimeout, cfg.LostMargin = test.timeout, test.margin }
					a, b := c.lock("a", with), c.lock("b", with)
					h := mustLock(t, a)
					next := b.Acquire(t.Context())
					later(time.Minute + time.Duration(step)*test.timeout/24)
					wantErr(t, "before", h.Err(), nil)

					id := session(a.m)
					hole := c.srv.Faults().Blackhole(id)
					start := time.Now()
					<-h.Lost()
					told := time.Now()
					wantErr(t, "err", h.Err(), ErrLost)
					pending(t, "the other's grant", next.Granted())
					expect(t, told.Sub(start) >= test.timeout/4-test.margin && told.Sub(start) <= test.timeout/2-test.margin,
						"told of the loss after %v", told.Sub(start))
					<-next.Granted().Done()
					var expired time.Time
					for _, e := range c.srv.Expired() {
						if e.Session == id {
							expired = e.At
						}
					}
					if expired.IsZero() {
						t.Fatal("the session has not expired")
					}
					if left := expired.Sub(told); left < test.timeout/3+test.margin {
						t.Errorf("told only %v before the session expired", left)
					} else if step == 0 {
						t.Logf("told %v after the cut, %v before the server expired the session", told.Sub(start), left)
					}
					hole.Remove()
					waitUntil(t, "a has noticed", func() bool { return session(a.m) != id })
					h.Release()
					mustRelease(t, next)
					mustRelease(t, mustLock(t, a))
				})
			}
		})
	}
}

// A release at the very moment when the lease ends reports the loss, whichever
// goroutine notices it first.
func TestReleaseAtTheEndOfTheLease(t *testing.T) {
	for range 30 {
		bubble(t, func(c *cluster) {
			l := c.lock("a")
			h := mustLock(c.t, l)
			later(time.Minute)
			hole := c.srv.Faults().Blackhole(session(l.m))
			lease := h.share.promises().tenure.lease
			later(4 * time.Second)
			for lease.Remaining() > 0 { // timers may fire a little early
				time.Sleep(lease.Remaining())
			}
			end := h.Release()
			later(30 * time.Second)
			hole.Remove()
			wantErr(c.t, "release", wait(c.t, end), ErrLost)
		})
	}
}

// removeAll deletes the directory of the lock "jobs" with all its nodes.
func (c *cluster) removeAll() {
	c.t.Helper()
	if err := c.srv.DeleteAll(dir); err != nil {
		c.t.Fatal(err)
	}
}

// The session expires between the grant and the waiter's first check: a hold is
// never without a lock for longer than its lease.
func TestF030_LossAtTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		for range 20 {
			stop := c.stopBefore(a.m, createNode)
			w := a.Acquire(c.t.Context())
			stop.reached()
			done := make(chan struct{})
			go func() { c.srv.ExpireSession(session(a.m)); close(done) }()
			stop.goOn()
			<-done
			<-w.Granted().Done()
			if err := w.Err(); err == nil {
				// Granted in the new session; or in the old one, and then it is
				// lost as soon as its process hears of the expiry.
				if g := grantOf(c.t, w); !c.srv.Exists(g.Path) {
					<-w.Lost()
				}
			} else {
				wantErr(c.t, "the waiter", err, ErrLost)
			}
			w.Release()
			waitUntil(c.t, "the lock is free", func() bool { p, _ := a.State(); return p == state.Free })
		}
	})
}

// The answers to a holder's writes arrive late. A lease counts from the time at
// which the request was sent, so it ends correspondingly early.
func TestF041_LateAnswers(t *testing.T) {
	const (
		timeout = 12 * time.Second
		late    = timeout / 6
	)
	// The holder is cut off at different points between two heartbeats.
	for step := range 8 {
		bubble(t, func(c *cluster) {
			l := c.lock("a", func(cfg *Config) { cfg.SessionTimeout = timeout })
			h := mustLock(c.t, l)
			later(time.Minute)
			id := session(l.m)
			delay := c.srv.Faults().DelayReply(zktest.Match{Op: zktest.OpMulti, Session: id, Times: zktest.Every}, late)
			later(time.Minute + time.Duration(step)*late/8)
			wantErr(c.t, "while answers are late", h.Err(), nil)
			hole := c.srv.Faults().Blackhole(id)
			start := time.Now()
			<-h.Lost()
			// The last proof that was answered had been sent that much earlier.
			d, most := time.Since(start), timeout/2-late
			expect(c.t, d <= most, "told %v after the cut, want at most %v", d, most)
			delay.Remove()
			hole.Remove()
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		})
	}
}
