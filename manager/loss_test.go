// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// scene is a lock of process a in some phase when something happens, and
// another process b that wants the same lock.
type scene struct {
	*cluster
	a, b  *Lock
	h     Hold  // a's
	stop  *stop // before the request that is under way; nil if none is
	ahead Hold  // b's, if a waits behind it
}

// phases bring a scene's lock into each phase.
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

// losses are the ways in which a request and its answer get lost: before or
// after it was carried out, with the connection or, as far as the client can
// tell, some time before it.
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

// thenCut cuts the session's connection one second after f has acted.
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

// Every request that the lock makes is lost: in the end the lock is held once,
// and nothing is left.
func TestF001_EveryRequestLost(t *testing.T) {
	for name, loss := range losses {
		hits := 0
		for _, plain := range []bool{false, true} {
			for _, contended := range []bool{false, true} {
				for nth := 1; nth <= 6; nth++ {
					t.Run(fmt.Sprintf("%s/plain=%t/contended=%t/%d", name, plain, contended, nth), func(t *testing.T) {
						bubble(t, func(c *cluster) {
							if plain {
								if err := c.srv.CreateAll(dir, []byte("somebody's")); err != nil {
									c.t.Fatal(err)
								}
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
							// The lease may have run out while an answer was waited
							// for; then the lock was lost, and is to be had again.
							if err := h.Err(); errors.Is(err, ErrLost) {
								h.Release()
								h = mustLock(c.t, a)
							}
							c.wantNodes(1)
							if err := h.Unlock(c.t.Context()); err != nil && !errors.Is(err, ErrLost) {
								c.t.Errorf("unlock: %v", err)
							}
							c.wantNodes(0)
							f.Remove()
							hits += f.Hits()
							mustRelease(c.t, mustLock(c.t, b))
							mustRelease(c.t, mustLock(c.t, a))
							c.wantNodes(0)
						})
					})
				}
			}
		}
		if hits < 15 {
			t.Errorf("%s: it happened %d times only", name, hits)
		}
	}
}

// The holder is cut off in silence: it is told of its loss before the server
// gives the lock to anybody else, and not long before it has to be.
func TestF041_SilentPartition(t *testing.T) {
	for _, test := range []struct{ timeout, tick, margin time.Duration }{
		{4 * time.Second, 2 * time.Second, 0},
		{10 * time.Second, 2 * time.Second, 0},
		{10 * time.Second, 2 * time.Second, 2 * time.Second},
		{30 * time.Second, 2 * time.Second, 0},
		{4 * time.Second, 500 * time.Millisecond, 0},
		{1 * time.Second, 500 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("timeout=%v/tick=%v/margin=%v", test.timeout, test.tick, test.margin), func(t *testing.T) {
			// The partition begins at different points of the client's rhythm.
			for step := range 8 {
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
					if d := told.Sub(start); d < test.timeout/4-test.margin || d > test.timeout/2-test.margin {
						t.Errorf("told of the loss after %v", d)
					}
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
						t.Errorf("told only %v before the server expired the session", left)
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

// A release at the very moment at which the lease ends: whoever notices first,
// the holder is not told that all was well.
func TestReleaseAtTheEndOfTheLease(t *testing.T) {
	for range 30 {
		bubble(t, func(c *cluster) {
			l := c.lock("a")
			h := mustLock(c.t, l)
			later(time.Minute)
			hole := c.srv.Faults().Blackhole(session(l.m))
			lease := h.round.trip().lease
			later(4 * time.Second)
			for lease.Remaining() > 0 { // whose clock is the last to tick
				time.Sleep(lease.Remaining())
			}
			end := h.Release()
			later(30 * time.Second)
			hole.Remove()
			_, err := end.Wait(c.t.Context())
			wantErr(c.t, "release", err, ErrLost)
		})
	}
}

// removeAll deletes the directory of the lock called "jobs", with all nodes in it.
func (c *cluster) removeAll() {
	c.t.Helper()
	if err := c.srv.DeleteAll(dir); err != nil {
		c.t.Fatal(err)
	}
}

// The round ends by force between the grant and the waiter's look: never a
// hold without a lock.
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
				// In the new session, or in the old one, whose end nobody could
				// foresee: then it is lost as soon as we hear of it.
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
