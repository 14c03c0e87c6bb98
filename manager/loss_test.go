// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// What becomes of a lock, in each phase, when something happens to the
// connection or the session.
func TestTroubleInEveryPhase(t *testing.T) {
	const (
		granted  = "granted"  // the wait goes on, and ends well
		held     = "held"     // nothing was lost
		lost     = "lost"     // ErrLost, at once or by the clock
		released = "released" // the release ends well
		nothing  = ""
	)
	for _, trouble := range []struct {
		name   string
		happen func(s *scene)
		want   map[string]string
	}{
		{"the session expires", func(s *scene) {
			s.srv.ExpireSession(session(s.a.m))
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": lost, "releasing": released}},
		{"the connection is cut", func(s *scene) {
			s.srv.Faults().Cut(session(s.a.m))
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": held, "releasing": released}},
		{"the connection is cut ten times", func(s *scene) {
			for range 10 {
				s.srv.Faults().Cut(session(s.a.m))
				later(time.Second)
			}
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": held, "releasing": released}},
		{"the servers are away, shortly", func(s *scene) {
			s.away("a", 2*time.Second)
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": held, "releasing": released}},
		{"the servers are away, longer than the lease", func(s *scene) {
			s.away("a", 6*time.Second)
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": lost, "releasing": released}},
		{"the servers are away, longer than the session lives", func(s *scene) {
			s.away("a", 30*time.Second)
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": lost, "releasing": released}},
		{"silence, longer than the session lives", func(s *scene) {
			hole := s.srv.Faults().Blackhole(session(s.a.m))
			time.AfterFunc(30*time.Second, hole.Remove)
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": lost, "releasing": released}},
		{"the present connection falls silent", func(s *scene) {
			s.srv.Faults().BlackholeConnection(session(s.a.m))
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": lost, "releasing": released}},
		{"answers are slow", func(s *scene) {
			s.srv.Faults().DelayReply(zktest.Match{Session: session(s.a.m), Times: 5}, time.Second)
		}, map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": held, "releasing": released}},
		{"nothing happens", func(*scene) {},
			map[string]string{"free": nothing, "creating": granted, "queued": granted, "retained": held, "releasing": released}},
	} {
		for _, phase := range phases {
			t.Run(trouble.name+"/"+phase.name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					s := &scene{cluster: c, a: c.lock("a"), b: c.lock("b")}
					mustRelease(c.t, mustLock(c.t, s.a))
					phase.enter(s)
					trouble.happen(s)
					if s.stop != nil {
						s.stop.goOn()
					}
					r := newReferee(c.t)
					switch trouble.want[phase.name] {
					case granted:
						if s.ahead != (Hold{}) {
							later(time.Minute)
							pending(c.t, "grant, while b holds", s.h.Granted())
							mustRelease(c.t, s.ahead)
						}
						<-s.h.Granted().Done()
						wantErr(c.t, "granted", s.h.Err(), nil)
						r.enter(s.a.m, s.h)
						r.leave(s.h)
						mustRelease(c.t, s.h)
					case held:
						later(time.Minute)
						wantErr(c.t, "held", s.h.Err(), nil)
						if isClosed(s.h.Lost()) {
							c.t.Error("lost is closed")
						}
						_, err := s.b.TryLock(c.t.Context())
						wantErr(c.t, "b's trylock", err, ErrLocked)
						mustRelease(c.t, s.h)
					case lost:
						ctx, cancel := s.h.Context(c.t.Context())
						defer cancel()
						<-s.h.Lost()
						<-ctx.Done()
						wantErr(c.t, "lost", s.h.Err(), ErrLost)
						wantErr(c.t, "the context", context.Cause(ctx), ErrLost)
						_, err := s.h.Released().Wait(c.t.Context())
						wantErr(c.t, "released", err, ErrLost)
						wantErr(c.t, "release", settled(c.t, "release", s.h.Release()), ErrLost)
					case released:
						_, err := s.h.Released().Wait(c.t.Context())
						wantErr(c.t, "released", err, nil)
					}
					// Whatever it was: both can have the lock again, and nothing
					// is left behind.
					for _, l := range []*Lock{s.b, s.a, s.b} {
						h := mustLock(c.t, l)
						r.enter(l.m, h)
						c.wantNodes(1)
						r.leave(h)
						mustRelease(c.t, h)
					}
					c.wantNodes(0)
					wantState(c.t, s.a, state.Free, 0)
					if n := s.a.m.client.Stats().Watches; n != 0 {
						c.t.Errorf("%d watches are left", n)
					}
				})
			})
		}
	}
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

// The reply to the creation is lost, and nobody wants the lock any more: the
// node that nobody knows of is found and deleted.
func TestF033_LostCreateAndCancel(t *testing.T) {
	for _, name := range []string{"reply dropped", "reply swallowed"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a"), c.lock("b")
				mustRelease(c.t, mustLock(c.t, a))
				f := losses[name](c, zktest.Match{Session: session(a.m), Path: dir + "/_c_"})
				refused := c.srv.Faults().Refuse() // or it might be found and deleted before we look
				h := a.Acquire(c.t.Context())
				<-f.Hit()
				h.Release()
				synctest.Wait() // the fault strikes before the request is carried out
				// It is there, and nobody has been told.
				if n := len(c.nodes()); n != 1 {
					c.t.Errorf("%d nodes: the fault did not do what this test is about", n)
				}
				refused.Remove()
				mustRelease(c.t, mustLock(c.t, b))
				_, err := h.Released().Wait(c.t.Context())
				wantErr(c.t, "release", err, ErrNotGranted)
				wantState(c.t, a, state.Free, 0)
				c.wantNodes(0)
			})
		})
	}
}

// The reply to a deletion is lost: the release ends well when the node is known
// to be gone, and not before.
func TestF081_LostDelete(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		refused := c.srv.Faults().Refuse()
		f := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpDelete, Session: session(l.m)})
		end := h.Release()
		<-f.Hit()
		later(time.Second)
		c.wantNodes(0)
		pending(c.t, "the release", end) // the node is gone, but nobody knows
		wantState(c.t, l, state.Releasing, 0)
		next := l.Acquire(c.t.Context())
		later(time.Second)
		pending(c.t, "the next grant", next.Granted())
		refused.Remove()
		_, err := end.Wait(c.t.Context())
		wantErr(c.t, "the release", err, nil)
		_, err = next.Granted().Wait(c.t.Context())
		wantErr(c.t, "the next grant", err, nil)
		mustRelease(c.t, next)
	})
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

// With a LostMargin, holders are told that long before another process can have
// the lock, even if ours could give it away at once.
func TestLostMargin(t *testing.T) {
	const margin = 2 * time.Second
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", func(cfg *Config) { cfg.LostMargin = margin }), c.lock("b")
		for _, how := range []string{"the lease ends", "the node is deleted", "Close"} {
			h := mustLock(c.t, a)
			next := b.Acquire(c.t.Context())
			later(time.Minute)
			closed := make(chan error, 1)
			start := time.Now()
			switch how {
			case "the lease ends":
				hole := c.srv.Faults().Blackhole(session(a.m))
				<-h.Lost()
				if d := time.Since(start); d > 3*time.Second || d < 500*time.Millisecond {
					c.t.Errorf("told after %v, want a margin of 2 s before half the session timeout", d)
				}
				start = time.Now()
				hole.Remove() // the session lives: the node could be deleted now
			case "the node is deleted":
				if err := c.srv.Delete(grantOf(c.t, h).Path); err != nil {
					c.t.Fatal(err)
				}
			case "Close":
				go func() { closed <- a.m.Close() }()
			}
			<-next.Granted().Done()
			d := time.Since(start)
			if wait := how == "the lease ends"; wait != (d >= margin) || d > margin+time.Second {
				c.t.Errorf("%s: the other process got the lock %v after the holder was told", how, d)
			}
			mustRelease(c.t, next)
			h.Release()
			if how == "Close" {
				wantErr(c.t, "close", <-closed, nil)
			}
		}
	})
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

// The lease ends but the session lives: the lock is lost, the node is deleted
// as soon as the server can be reached, and the next one gets it then.
func TestLeaseEndsSessionLives(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		next := b.Acquire(c.t.Context())
		later(time.Minute)
		id := session(a.m)
		hole := c.srv.Faults().Blackhole(id)
		<-h.Lost()
		if !strings.Contains(fmt.Sprint(h.Err()), "lease") {
			c.t.Errorf("the error does not name the lease: %v", h.Err())
		}
		again := a.Acquire(c.t.Context())
		later(time.Second)
		pending(c.t, "the release", h.Released())
		c.wantNodes(2)
		hole.Remove()
		_, err := h.Released().Wait(c.t.Context())
		wantErr(c.t, "the release", err, ErrLost)
		_, err = next.Granted().Wait(c.t.Context())
		wantErr(c.t, "the other's grant", err, nil)
		if session(a.m) != id || len(c.srv.Expired()) != 0 {
			c.t.Error("the session has ended: this test is about one that lives")
		}
		later(time.Second)
		wantErr(c.t, "our next round", again.Err(), ErrNotGranted) // behind
		mustRelease(c.t, next)
		_, err = again.Granted().Wait(c.t.Context()) // when the new lease is worth it
		wantErr(c.t, "our next grant", err, nil)
		// Granted under a new lease; the old hold stays lost.
		wantErr(c.t, "our next round", again.Err(), nil)
		wantErr(c.t, "the old hold", h.Err(), ErrLost)
		h.Release()
		wantErr(c.t, "our next round", again.Err(), nil)
		mustRelease(c.t, again)
	})
}

// The same, and the waiter hears of it only from a server that does not know the
// session any more.
func TestF029_ExpiryUnheard(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		old := a.m.client.Session()
		c.srv.Faults().BlackholeConnection(old.ID())
		c.srv.ExpireSession(old.ID())
		waitUntil(c.t, "there is another session", func() bool { return a.m.client.Session() != old })
		synctest.Wait()
		c.wantNodes(2) // at once: the rotation would come some seconds later
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		mustRelease(c.t, w)
	})
}

// A waiter whose session ends after everybody has given up does not come back.
func TestExpiredAndCancelled(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		ctx, cancel := context.WithCancel(c.t.Context())
		a.Acquire(ctx)
		synctest.Wait()
		refused := c.srv.Faults().Refuse()
		c.srv.ExpireSession(session(a.m))
		cancel()
		later(time.Second)
		refused.Remove()
		waitUntil(c.t, "the lock is free", func() bool { p, _ := a.State(); return p == state.Free })
		later(time.Minute)
		c.wantNodes(1)
		mustRelease(c.t, h)
	})
}

// Somebody deletes a holder's node: the holder is told at once.
func TestF048_NodeDeletedBySomebody(t *testing.T) {
	holderIsDeleted(t, func(c *cluster, node string) { c.remove(node) })
}

// Somebody deletes a holder's whole directory: the same. The numbers of the
// queue begin at 0 again, the tokens do not.
func TestF049_DirectoryDeletedBySomebody(t *testing.T) {
	holderIsDeleted(t, func(c *cluster, _ string) { c.removeAll() })
}

// removeAll deletes the directory of the lock called "jobs", with all nodes in it.
func (c *cluster) removeAll() {
	c.t.Helper()
	if err := c.srv.DeleteAll(dir); err != nil {
		c.t.Fatal(err)
	}
}

func holderIsDeleted(t *testing.T, gone func(c *cluster, node string)) {
	t.Helper()
	for _, quiet := range []bool{false, true} { // was the grant long ago?
		t.Run(fmt.Sprintf("quiet=%t", quiet), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a"), c.lock("b")
				h := mustLock(c.t, a)
				if quiet {
					later(time.Minute)
				}
				start := time.Now()
				old := grantOf(c.t, h)
				gone(c, old.Path)
				<-h.Lost()
				// A fresh grant has no watch yet; the next proof finds out.
				if d := time.Since(start); quiet && d > time.Second || d > 2*time.Second {
					c.t.Errorf("told after %v", d)
				}
				wantErr(c.t, "the holder", h.Err(), ErrLost)
				if !strings.Contains(fmt.Sprint(h.Err()), "deleted") {
					c.t.Errorf("the error does not say what happened: %v", h.Err())
				}
				_, err := h.Released().Wait(c.t.Context())
				wantErr(c.t, "the release", err, ErrLost)
				wantErr(c.t, "release", h.Unlock(c.t.Context()), ErrLost)
				next := mustLock(c.t, b)
				if g := grantOf(c.t, next); g.Token <= old.Token {
					c.t.Errorf("token %d after %d", g.Token, old.Token)
				}
				mustRelease(c.t, next)
				synctest.Wait()
				c.wantNodes(0)
			})
		})
	}
}

// Somebody deletes the node of a process that waits, or the whole directory: it
// queues again, and does not wait for ever behind those who are left.
func TestF028_WaiterIsDeleted(t *testing.T) {
	for _, what := range []string{"node", "directory"} {
		for _, quiet := range []bool{false, true} { // has it waited for long?
			t.Run(fmt.Sprintf("%s/quiet=%t", what, quiet), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b := c.lock("a"), c.lock("b")
					h := mustLock(c.t, b)
					w := a.Acquire(c.t.Context())
					if quiet {
						later(time.Minute)
					}
					synctest.Wait()
					if what == "directory" {
						c.removeAll()
						later(time.Second)
						wantErr(c.t, "the holder", h.Err(), ErrLost)
						h.Release()
					} else {
						c.remove(c.nodeOf(a.m))
						later(time.Second)
						wantErr(c.t, "the waiter", w.Err(), ErrNotGranted)
						c.wantNodes(2)
						mustRelease(c.t, h)
					}
					<-w.Granted().Done()
					// The waiter's node goes a moment after the holder's. If the
					// waiter hears of the one before the other, it is granted, and
					// loses the lock at once; else it queues again.
					if err := w.Err(); what == "directory" && errors.Is(err, ErrLost) {
						w.Release()
					} else {
						wantErr(c.t, "the waiter", err, nil)
						mustRelease(c.t, w)
					}
					synctest.Wait()
					c.wantNodes(0)
				})
			})
		}
	}
}

// The contender ahead goes between the list that showed it and the look at it.
func TestF021_ContenderAheadGoesUnseen(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		for range 3 {
			h := mustLock(c.t, b)
			stop := c.stopBefore(a.m, lookAtNode)
			w := a.Acquire(c.t.Context())
			stop.reached()
			mustRelease(c.t, h)
			stop.goOn()
			wantErr(c.t, "the waiter", w.Err(), nil)
			mustRelease(c.t, w)
		}
		// One of two ahead, and then the other.
		h := mustLock(c.t, b)
		d := c.lock("d")
		middle := d.Acquire(c.t.Context())
		synctest.Wait()
		stop := c.stopBefore(a.m, lookAtNode)
		w := a.Acquire(c.t.Context())
		stop.reached()
		middle.Release()
		synctest.Wait()
		stop.goOn()
		wantErr(c.t, "the waiter", w.Err(), ErrNotGranted)
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		mustRelease(c.t, w)
	})
}

// The contender ahead goes while the waiter's connection is down: the reconnect
// sets the watch again, and the server tells what was missed.
func TestF024_ContenderAheadGoesMeanwhile(t *testing.T) { contenderAheadGoesMeanwhile(t, false) }

// The same, and the request that sets the watch again gets lost: the waiter looks
// by itself once in a while.
func TestF025_WatchIsLost(t *testing.T) { contenderAheadGoesMeanwhile(t, true) }

func contenderAheadGoesMeanwhile(t *testing.T, lostWatch bool) {
	t.Helper()
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		id := session(a.m)
		if lostWatch {
			lost := c.srv.Faults().SwallowRequest(zktest.Match{Op: zktest.OpSetWatches, Session: id})
			defer func() {
				if lost.Hits() != 1 {
					c.t.Error("no watch was lost")
				}
			}()
		}
		hole := c.srv.Faults().BlackholeConnection(id)
		c.srv.Faults().Cut(id)
		mustRelease(c.t, h)
		start := time.Now()
		hole.Remove()
		<-w.Granted().Done()
		wantErr(c.t, "the waiter", w.Err(), nil)
		if d := time.Since(start); !lostWatch && d > time.Second || d > 20*time.Second {
			c.t.Errorf("it took %v", d)
		}
		mustRelease(c.t, w)
	})
}

// An event of another kind at the contender ahead is no grant.
func TestF026_ContenderAheadIsTouched(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		synctest.Wait()
		for range 5 {
			if err := c.srv.Set(grantOf(c.t, h).Path, []byte("touched")); err != nil {
				c.t.Fatal(err)
			}
			later(time.Second)
			wantErr(c.t, "the waiter", w.Err(), ErrNotGranted)
		}
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		if err := c.srv.Set(grantOf(c.t, w).Path, []byte("touched")); err != nil {
			c.t.Fatal(err)
		}
		later(time.Second)
		wantErr(c.t, "the holder whose node is touched", w.Err(), nil)
		mustRelease(c.t, w)
	})
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
