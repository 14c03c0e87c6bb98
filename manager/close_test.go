// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// refusesNewcomers checks what a manager that is closed, or is closing, says to
// newcomers.
func refusesNewcomers(t *testing.T, l *Lock) {
	t.Helper()
	h := l.Acquire(t.Context())
	wantErr(t, "acquire", settled(t, "grant", h.Granted()), ErrClosed)
	wantErr(t, "its release", settled(t, "release", h.Release()), ErrClosed)
	_, err := l.Lock(t.Context())
	wantErr(t, "lock", err, ErrClosed)
	_, err = l.TryLock(t.Context())
	wantErr(t, "trylock", err, ErrClosed)
	wantErr(t, "do", l.Do(t.Context(), func(context.Context, Hold) error { t.Error("do ran"); return nil }), ErrClosed)
	_, err = l.m.Exclusive("another")
	wantErr(t, "exclusive", err, ErrClosed)
}

// Close in each phase, with the request under way or not: who waits or holds is
// told, newcomers are refused, the nodes go, and the goroutines end.
func TestF085_CloseInEveryPhase(t *testing.T) {
	for _, phase := range phases {
		for _, shut := range []string{"Close", "Shutdown"} {
			t.Run(phase.name+"/"+shut, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					s := &scene{cluster: c, a: c.lock("a"), b: c.lock("b")}
					mustRelease(c.t, mustLock(c.t, s.a))
					phase.enter(s)
					h := s.h
					var lost <-chan struct{}
					var ctx context.Context
					var next Hold
					if h != (Hold{}) {
						lost = h.Lost()
						var cancel context.CancelFunc
						ctx, cancel = h.Context(c.t.Context())
						defer cancel()
						if phase.name == "releasing" {
							next = s.a.Acquire(c.t.Context())
						}
					}
					closed := make(chan error, 1)
					start := time.Now()
					go func() {
						if shut == "Close" {
							closed <- s.a.m.Close()
							return
						}
						ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errGaveUp)
						defer cancel()
						closed <- s.a.m.Shutdown(ctx)
					}()
					synctest.Wait()
					refusesNewcomers(c.t, s.a)

					if phase.name == "retained" && shut == "Shutdown" {
						// Holders go on, and reenter, and share.
						later(30 * time.Second)
						wantErr(c.t, "the holder", h.Err(), nil)
						n, err := s.a.Lock(ctx)
						wantErr(c.t, "reentered by context", err, nil)
						more, err := h.Share()
						wantErr(c.t, "shared", err, nil)
						for _, h := range []Hold{n, more} {
							wantErr(c.t, "unlock", h.Unlock(c.t.Context()), nil)
						}
						select {
						case err := <-closed:
							c.t.Fatalf("Shutdown did not wait for the holder: %v", err)
						default:
						}
						wantErr(c.t, "unlock", h.Unlock(c.t.Context()), nil)
						lost = nil
					}
					if s.stop != nil {
						s.stop.goOn()
					}
					wantErr(c.t, shut, <-closed, nil)
					if d := time.Since(start); shut == "Close" && d > 5*time.Second {
						c.t.Errorf("Close took %v", d)
					}

					switch {
					case h == (Hold{}):
					case phase.name == "releasing":
						wantErr(c.t, "the release", settled(c.t, "release", h.Released()), nil)
						wantErr(c.t, "the next round", settled(c.t, "grant", next.Granted()), ErrClosed)
						wantErr(c.t, "the next round's end", settled(c.t, "release", next.Release()), ErrClosed)
					case lost != nil:
						synctest.Wait()
						if !isClosed(lost) {
							c.t.Error("lost is not closed")
						}
						wantErr(c.t, "err", h.Err(), ErrClosed)
						wantErr(c.t, "the context", context.Cause(ctx), ErrClosed)
						if phase.name == "retained" {
							wantErr(c.t, "the grant", settled(c.t, "grant", h.Granted()), nil)
						} else {
							wantErr(c.t, "the grant", settled(c.t, "grant", h.Granted()), ErrClosed)
						}
						wantErr(c.t, "the round's end", settled(c.t, "release", h.Release()), ErrClosed)
					}
					for _, info := range c.srv.Sessions() {
						if info.ID != session(s.b.m) {
							c.t.Errorf("session %#x is alive", info.ID)
						}
					}
					// Everything again.
					wantErr(c.t, "second Close", s.a.m.Close(), nil)
					wantErr(c.t, "Shutdown after Close", s.a.m.Shutdown(c.t.Context()), nil)
					refusesNewcomers(c.t, s.a)
					if s.ahead != (Hold{}) {
						wantErr(c.t, "the other process", s.ahead.Err(), nil)
						mustRelease(c.t, s.ahead)
					}
					mustRelease(c.t, mustLock(c.t, s.b)) // at once
					c.wantNodes(0)
				})
			})
		}
	}
}

// moment is what a bounded wait may take longer than its bound.
const moment = 100 * time.Millisecond

// With the server at hand, Close takes a round trip, however old the session is.
func TestCloseIsQuick(t *testing.T) {
	for _, age := range []time.Duration{0, time.Second, time.Minute, time.Hour} {
		bubble(t, func(c *cluster) {
			l := c.lock("a")
			mustLock(c.t, l)
			later(age)
			start := time.Now()
			wantErr(c.t, "close", l.m.Close(), nil)
			if d := time.Since(start); d > moment {
				c.t.Errorf("after %v: Close took %v", age, d)
			}
		})
	}
}

// Shutdown's context ends while somebody holds: it closes then, and says so.
func TestShutdownRunsOut(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errGaveUp)
		defer cancel()
		start := time.Now()
		err := l.m.Shutdown(ctx)
		wantErr(c.t, "shutdown", err, context.DeadlineExceeded)
		wantErr(c.t, "shutdown", err, errGaveUp)
		if d := time.Since(start); d < time.Minute || d > time.Minute+moment {
			c.t.Errorf("it took %v", d)
		}
		if !strings.Contains(err.Error(), "jobs") {
			c.t.Errorf("the error does not name the lock: %v", err)
		}
		wantErr(c.t, "the holder", h.Err(), ErrClosed)
		c.wantNodes(0)
	})
}

// Close cannot reach the server: it ends in time, says that the locks stay
// taken for a while, and settles everything.
func TestCloseWithoutServer(t *testing.T) {
	for what, cut := range map[string]func(*cluster, *Manager){
		"refused": func(c *cluster, _ *Manager) { c.away("a", time.Hour) },
		"silence": func(c *cluster, m *Manager) { c.srv.Faults().Blackhole(session(m)) },
	} {
		for _, phase := range phases {
			if phase.name == "creating" {
				continue // it is like queued, but for a request that is under way
			}
			t.Run(what+"/"+phase.name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					s := &scene{cluster: c, a: c.lock("a", func(cfg *Config) { cfg.CloseTimeout = 3 * time.Second }), b: c.lock("b")}
					phase.enter(s)
					cut(c, s.a.m)
					if s.stop != nil {
						close(s.stop.resume) // its answer does not get through
					}
					var next Hold
					if phase.name == "releasing" {
						next = s.a.Acquire(c.t.Context())
					}
					start := time.Now()
					err := s.a.m.Close()
					if d := time.Since(start); d > 3*time.Second+moment {
						c.t.Errorf("Close took %v", d)
					}
					var e *Error
					if !errors.As(err, &e) || e.Op != "close" || !strings.Contains(err.Error(), "10s") {
						c.t.Errorf("Close does not say that the nodes may stay for the session's timeout: %v", err)
					}
					if again := s.a.m.Close(); again != err {
						c.t.Errorf("the second Close says %v, the first %v", again, err)
					}
					if s.h != (Hold{}) {
						synctest.Wait()
						switch _, rerr, ok := s.h.Released().Poll(); {
						case !ok:
							c.t.Error("the release is pending")
						case rerr == nil:
							c.t.Error("the release says that the node is gone, which nobody can know")
						}
						_, _, ok := s.h.Granted().Poll()
						if !ok {
							c.t.Error("the grant is pending")
						}
					}
					if next != (Hold{}) {
						wantErr(c.t, "the next round", settled(c.t, "grant", next.Granted()), ErrClosed)
						settled(c.t, "end", next.Released())
					}
					if s.ahead != (Hold{}) {
						mustRelease(c.t, s.ahead)
					}
					mustRelease(c.t, mustLock(c.t, s.b)) // when the session has timed out
					c.wantNodes(0)
				})
			})
		}
	}
}

// Close comes while a grant is on its way, at every moment: the holder hears
// ErrClosed, and no lock is held after Close.
func TestCloseAtTheGrant(t *testing.T) {
	for _, before := range []verb{lookAtDir, makeDir, createNode, list, lookAtNode} {
		t.Run(string(before), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a"), c.lock("b")
				var ahead Hold
				if before == list || before == lookAtNode {
					ahead = mustLock(c.t, b)
				}
				stop := c.stopBefore(a.m, before)
				h := a.Acquire(c.t.Context())
				stop.reached()
				closed := make(chan error, 1)
				go func() { closed <- a.m.Close() }()
				synctest.Wait()
				wantErr(c.t, "the waiter", settled(c.t, "grant", h.Granted()), ErrClosed)
				stop.goOn()
				wantErr(c.t, "close", <-closed, nil)
				wantErr(c.t, "the round's end", settled(c.t, "release", h.Release()), ErrClosed)
				if ahead != (Hold{}) {
					mustRelease(c.t, ahead)
				}
				c.wantNodes(0)
			})
		})
	}
}

// Everybody closes, at the same time, while everything goes on.
func TestCloseUnderLoad(t *testing.T) {
	for _, shut := range []string{"Close", "Shutdown"} {
		t.Run(shut, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a")
				b := c.lock("b")
				var wg sync.WaitGroup
				for range 8 {
					for _, l := range []*Lock{l, b} {
						wg.Go(func() {
							for {
								h, err := l.Lock(c.t.Context())
								if err == nil {
									time.Sleep(time.Millisecond)
									err = h.Unlock(c.t.Context())
								}
								if errors.Is(err, ErrClosed) {
									return
								} else if err != nil {
									c.t.Errorf("got %v", err)
								}
							}
						})
					}
				}
				later(100 * time.Millisecond)
				for _, m := range []*Manager{l.m, b.m} {
					for range 3 {
						wg.Go(func() {
							if shut == "Close" {
								wantErr(c.t, "close", m.Close(), nil)
							} else {
								wantErr(c.t, "shutdown", m.Shutdown(c.t.Context()), nil)
							}
						})
					}
				}
				wg.Wait()
				c.wantNodes(0)
				if n := len(c.srv.Sessions()); n != 0 {
					c.t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

// Close may be called from a callback, which runs on none of our goroutines
// that Close waits for.
func TestF086_CloseInACallback(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		done := make(chan error, 1)
		l.Acquire(c.t.Context()).Granted().OnDone(func(Grant, error) { done <- l.m.Close() })
		wantErr(c.t, "close", <-done, nil)
	})
}
