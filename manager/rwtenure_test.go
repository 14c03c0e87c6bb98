// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A stream is the goroutines of a process that keep arriving at a lock: each is
// inside for a while, and the next comes before the last has left. Without a
// tenure they would share the lock for ever.
type stream struct {
	lock *Lock
	stop context.CancelFunc
	done chan struct{}
}

// newStream has l held until a round does not take the next goroutine any more.
func newStream(c *cluster, l *Lock) *stream {
	c.t.Helper()
	h := mustLock(c.t, l)
	ctx, stop := context.WithCancel(c.t.Context())
	s := &stream{lock: l, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			next := l.Acquire(ctx)
			time.Sleep(5 * time.Millisecond)
			h.Release()
			if _, err := next.Granted().Wait(ctx); err != nil {
				return
			}
			h = next
		}
		h.Release()
	}()
	return s
}

func (s *stream) end() {
	s.stop()
	<-s.done
	synctest.Wait()
}

// contenders are pairs of locks of two processes that exclude each other.
var contenders = []struct {
	what string
	take func(c *cluster, with ...func(*Config)) (inside, waits *Lock)
}{
	{"mutexes", func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.lock("a", with...), c.lock("b")
	}},
	{"writers", func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Writer(), c.rw("b").Writer()
	}},
	{"readers and a writer", func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Reader(), c.rw("b").Writer()
	}},
	{"writers and a reader", func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Writer(), c.rw("b").Reader()
	}},
	{"readers and a mutex", func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Reader(), c.lock("b")
	}},
}

// A process that is never without a holder gives way to one that waits for it,
// one tenure after it has seen it first; and queues behind it.
func TestF038_Tenure(t *testing.T) {
	const tenure = 200 * time.Millisecond
	for _, test := range contenders {
		for _, before := range []time.Duration{0, 30 * time.Millisecond, time.Minute} {
			t.Run(fmt.Sprintf("%s/after %v", test.what, before), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					inside, waits := test.take(c, func(cfg *Config) { cfg.Tenure = tenure })
					s := newStream(c, inside)
					time.Sleep(before)
					start := time.Now()
					h := mustLock(c.t, waits)
					waited := time.Since(start)
					// It may take a tenure to see it first, and a moment to leave.
					if most := 2*tenure + 10*time.Millisecond; waited < tenure || waited > most {
						c.t.Errorf("waited %v, want %v to %v", waited, tenure, most)
					}
					later(time.Second)
					wantState(c.t, inside, state.Fetching, 1) // who came to the closed gate
					if got := inside.Stats().Grants; got != 1 {
						c.t.Errorf("%d rounds were granted to those who share the lock, want 1", got)
					}
					mustRelease(c.t, h)
					synctest.Wait()
					wantPhase(c.t, inside, state.Retained)
					s.end()
				})
			})
		}
	}
}

// With a negative tenure others wait for as long as it takes.
func TestNegativeTenure(t *testing.T) {
	for _, test := range contenders {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				inside, waits := test.take(c, func(cfg *Config) { cfg.Tenure = -1 })
				s := newStream(c, inside)
				h := waits.Acquire(c.t.Context())
				later(time.Minute)
				pending(c.t, "who waits", h.Granted())
				if got := inside.Stats().Rounds; got != 1 {
					c.t.Errorf("%d rounds, want 1", got)
				}
				s.end()
				wantHeld(c.t, "who waits", h)
				mustRelease(c.t, h)
			})
		})
	}
}

// Those who pass by do not close the gate, however many there are: TryLock that
// does not wait, and waits that are given up sooner than a tenure. Nor do those
// who would share the lock.
func TestGateStaysOpen(t *testing.T) {
	const tenure = 100 * time.Millisecond
	try := func(c *cluster, l *Lock) {
		h, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		h.Release()
	}
	for _, test := range []struct {
		what   string
		inside func(*cluster) *Lock
		passes func(*cluster, *Lock)
		other  func(*cluster) *Lock
	}{
		{"a mutex is tried", func(c *cluster) *Lock { return c.lock("a") }, try, func(c *cluster) *Lock { return c.lock("b") }},
		{"a writer is tried", func(c *cluster) *Lock { return c.rw("a").Reader() }, try, func(c *cluster) *Lock { return c.rw("b").Writer() }},
		{"a writer gives up", func(c *cluster) *Lock { return c.rw("a").Reader() }, func(c *cluster, l *Lock) {
			ctx, cancel := context.WithTimeout(c.t.Context(), tenure*9/10)
			defer cancel()
			_, err := l.Lock(ctx)
			wantErr(c.t, "lock", err, context.DeadlineExceeded)
		}, func(c *cluster) *Lock { return c.rw("b").Writer() }},
		{"a reader comes to readers", func(c *cluster) *Lock { return c.rw("a").Reader() }, func(c *cluster, l *Lock) {
			h := mustLock(c.t, l)
			time.Sleep(10 * tenure)
			mustRelease(c.t, h)
		}, func(c *cluster) *Lock { return c.rw("b").Reader() }},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				inside, other := test.inside(c), test.other(c)
				s := newStream(c, inside)
				for range 200 {
					test.passes(c, other)
					time.Sleep(7 * time.Millisecond)
				}
				if got := inside.Stats().Rounds; got != 1 {
					c.t.Errorf("%d rounds, want 1", got)
				}
				s.end()
			})
		})
	}
}

// The gate that closes is one for newcomers: those inside stay as long as they
// like, reenter, and share. TryLock does not wait for them.
func TestClosedGateDisturbsNobodyInside(t *testing.T) {
	for _, test := range contenders {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				inside, waits := test.take(c)
				h := mustLock(c.t, inside)
				ctx, cancel := h.Context(c.t.Context())
				defer cancel()
				next := waits.Acquire(c.t.Context())
				later(time.Second)

				newcomer := inside.Acquire(c.t.Context())
				wantWaiting(c.t, "a newcomer", newcomer)
				count := c.countRequests("/")
				_, err := inside.TryLock(c.t.Context())
				wantErr(c.t, "trylock", err, ErrLocked)
				if got := count.take(); len(got) != 0 {
					c.t.Errorf("requests for trylock at a closed gate: %v", got)
				}
				later(time.Hour)
				wantHeld(c.t, "the holder", h)
				if isClosed(h.Lost()) || ctx.Err() != nil {
					c.t.Error("the holder was disturbed")
				}
				again, err := h.Reenter()
				wantErr(c.t, "reenter", err, nil)
				byContext, err := inside.Lock(ctx)
				wantErr(c.t, "lock with the holder's context", err, nil)
				shared, err := h.Share()
				wantErr(c.t, "share", err, nil)
				wantState(c.t, inside, state.Retained, 2)
				for _, h := range []Hold{h, again, byContext, shared} {
					wantWaiting(c.t, "who waits", next)
					mustRelease(c.t, h)
				}
				synctest.Wait()
				wantHeld(c.t, "who waits", next)
				wantWaiting(c.t, "the newcomer", newcomer)
				mustRelease(c.t, next)
				synctest.Wait()
				wantHeld(c.t, "the newcomer", newcomer)
				mustRelease(c.t, newcomer)
			})
		})
	}
}

// Rounds that are shorter than the tenure cost nothing for it, and a longer one
// a read of its own node and a list, once.
func TestTenureCostsShortRoundsNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", func(cfg *Config) { cfg.Tenure = 100 * time.Millisecond })
		mustRelease(c.t, mustLock(c.t, l))
		later(time.Second)
		count := c.countRequests(dir)
		for range 50 {
			h := mustLock(c.t, l)
			time.Sleep(99 * time.Millisecond)
			mustRelease(c.t, h)
		}
		later(time.Second)
		if got := count.take(); len(got) != 2 || got["multi"] != 50 || got["delete"] != 50 {
			c.t.Errorf("requests for 50 short rounds: %v", got)
		}
		h := mustLock(c.t, l)
		// The heartbeat proves the lease by empty transactions in the meantime.
		later(time.Second)
		mustRelease(c.t, h)
		if got := count.take(); got["getData"] != 1 || got["getChildren2"] != 1 || got["delete"] != 1 || len(got) != 4 {
			c.t.Errorf("requests for a round of ten tenures: %v", got)
		}
	})
}

// However many come and go behind a lock that is held for long, its process
// looks at the queue twice a tenure at most.
func TestLooksAreBounded(t *testing.T) {
	const tenure = 100 * time.Millisecond
	for _, test := range []struct {
		what  string
		other func(c *cluster) *Lock
		err   error
	}{
		{"those who share it", func(c *cluster) *Lock { return c.rw("b").Reader() }, nil},
		{"those who do not", func(c *cluster) *Lock { return c.rw("b").Writer() }, context.DeadlineExceeded},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				rw, other := c.rw("a"), test.other(c)
				h := mustLock(c.t, rw.Reader())
				later(time.Second)
				before := rw.reader.m.client.Stats().Sent["getChildren2"]
				for range 500 {
					ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Millisecond)
					g, err := other.Lock(ctx)
					wantErr(c.t, "lock", err, test.err)
					<-ctx.Done()
					cancel()
					g.Release()
					time.Sleep(time.Millisecond)
				}
				looks := rw.reader.m.client.Stats().Sent["getChildren2"] - before
				if most := uint64(2*2*time.Second/tenure) + 2; looks > most {
					c.t.Errorf("%d looks in 2 s, want at most %d", looks, most)
				}
				if looks < 2 {
					c.t.Errorf("%d looks in 2 s: nobody would be seen", looks)
				}
				mustRelease(c.t, h)
			})
		})
	}
}

// Three processes that all want the lock all the time, each with several
// goroutines that overlap: every one of them gets its turn, over and over.
func TestTenureIsFairAmongProcesses(t *testing.T) {
	for _, test := range []struct {
		what string
		lock func(c *cluster, i int) *Lock
	}{
		{"mutexes", func(c *cluster, i int) *Lock { return c.lock(fmt.Sprint(i)) }},
		{"two readers and a writer", func(c *cluster, i int) *Lock { return pick(c.rw(fmt.Sprint(i)), i == 2) }},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
				defer cancel()
				var locks []*Lock
				done := make(chan struct{})
				const goroutines = 4
				for i := range 3 {
					l := test.lock(c, i)
					locks = append(locks, l)
					for g := range goroutines {
						go func() {
							time.Sleep(time.Duration(g) * time.Millisecond)
							for {
								h, err := l.Lock(ctx)
								if err != nil {
									if !errors.Is(err, context.DeadlineExceeded) {
										c.t.Errorf("lock: %v", err)
									}
									done <- struct{}{}
									return
								}
								time.Sleep(time.Duration(5+g) * time.Millisecond)
								h.Release()
							}
						}()
					}
				}
				for range 3 * goroutines {
					<-done
				}
				for _, l := range locks {
					s := l.Stats()
					if s.Grants < 20 || s.Entries+s.Joins < 10*s.Grants {
						c.t.Errorf("%s: %d grants, %d entries, %d joins in 20 s", l.m.cfg.Label, s.Grants, s.Entries, s.Joins)
					}
				}
			})
		})
	}
}
