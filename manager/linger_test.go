// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// withLinger is an option of open.
func withLinger(d time.Duration) func(*Config) { return func(cfg *Config) { cfg.Linger = d } }

// always is a linger that no test outlasts.
const always = 1000 * time.Hour

// idle locks and unlocks l, and checks that l lingers. It returns the future of the
// release.
func (c *cluster) idle(l *Lock) *futures.Future[struct{}] {
	c.t.Helper()
	h := mustLock(c.t, l)
	mustRelease(c.t, h)
	synctest.Wait()
	wantState(c.t, l, state.Retained, 0)
	pending(c.t, "the release", h.Released())
	return h.Released()
}

// wantGone checks that l has been given up, and that the holders who left before have
// nothing to roll back.
func (c *cluster) wantGone(l *Lock, released *futures.Future[struct{}]) {
	c.t.Helper()
	synctest.Wait()
	wantPhase(c.t, l, state.Free)
	wantErr(c.t, "the release", settled(c.t, "the release", released), nil)
}

// An idle lock stays its process's: each caller that comes has the lock at once, by the
// same grant, and without a request.
func TestLinger(t *testing.T) {
	each(t, kinds, func(c *cluster, pick func(*cluster) *Lock) {
		l := pick(c)
		wantErr(c.t, "set", l.SetLinger(always), nil)
		h := mustLock(c.t, l)
		grant := grantOf(c.t, h)
		mustRelease(c.t, h)
		synctest.Wait()
		c.takeCounts()
		for range 1000 {
			h := mustLock(c.t, l)
			if g := grantOf(c.t, h); g != grant {
				c.t.Fatalf("granted anew: %+v, then %+v", grant, g)
			}
			other := l.Acquire(c.t.Context())
			wantHeld(c.t, "beside it", other)
			mustRelease(c.t, h)
			wantState(c.t, l, state.Retained, 1)
			other.Release()
			wantState(c.t, l, state.Retained, 0)
			pending(c.t, "the release", other.Released())
			wantErr(c.t, "a released hold", h.Err(), ErrReleased)
		}
		synctest.Wait()
		if sent := c.takeCounts(); len(sent) > 0 {
			c.t.Errorf("requests: %v", sent)
		}
		c.wantNodes(1)
		if s := l.Stats(); s.Grants != 1 || s.Rounds != 1 || s.Holders != 0 || s.Phase != state.Retained {
			c.t.Errorf("%+v", s)
		}
	})
}

// A million times, a goroutine locks and unlocks, with fewer than ten requests.
func TestLingerRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", withLinger(10*time.Second))
		c.takeCounts()
		pairs := 1_000_000
		if racing.Detector || testing.Short() {
			pairs = 20_000
		}
		for i := range pairs {
			h, err := l.Lock(c.t.Context())
			if err == nil {
				err = h.Unlock(c.t.Context())
			}
			if err != nil {
				c.t.Fatal(err)
			}
			if i%(pairs/20) == 0 {
				later(time.Second)
			}
		}
		n := 0
		sent := c.takeCounts()
		for v, k := range sent {
			if v != prove {
				n += k
			}
		}
		if n >= 10 {
			c.t.Errorf("%d requests: %v", n, sent)
		}
	})
}

// Without Linger nothing of it happens: a lock is given up when its last holder leaves.
func TestNoLinger(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		mustRelease(c.t, h)
		wantPhase(c.t, l, state.Free)
		if settled(c.t, "the future of ReleaseIdle", l.ReleaseIdle()) != nil {
			c.t.Error("ReleaseIdle of a free lock")
		}
		if f := l.cur.Load().flags.Load(); f.Has(state.Lingers) {
			c.t.Errorf("flags %b", f)
		}
	})
}

// A negative time is refused, and changes nothing.
func TestLingerIsNotNegative(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := c.config("a")
		cfg.Linger = -1
		_, err := Open(c.t.Context(), cfg)
		wantErr(c.t, "open", err, ErrBadConfig)
		l := c.lock("b", withLinger(always))
		err = l.SetLinger(-time.Second)
		wantErr(c.t, "set", err, ErrBadConfig)
		if e, ok := errors.AsType[*Error](err); !ok || e.Op != "setlinger" || e.Name != "jobs" {
			c.t.Errorf("%#v", err)
		}
		c.idle(l)
	})
}

// Any other contender gets an idle lock at once, however long nothing has happened, and
// whether or not the lock has been used since.
func TestLingerEndsForAnother(t *testing.T) {
	each(t, map[string]func(c *cluster, a *Lock){
		"at once":         func(*cluster, *Lock) {},
		"after a while":   func(*cluster, *Lock) { later(10 * time.Minute) },
		"used meanwhile":  func(c *cluster, a *Lock) { c.idle(a); later(time.Minute); c.idle(a) },
		"held for long":   func(c *cluster, a *Lock) { h := mustLock(c.t, a); later(10 * time.Minute); mustRelease(c.t, h) },
		"cut off a while": func(c *cluster, a *Lock) { c.away(a.m.cfg.Label, 2*time.Second); later(5 * time.Second) },
	}, func(c *cluster, before func(*cluster, *Lock)) {
		b := c.lock("b")
		for i, tenure := range []time.Duration{0, -1, time.Hour} {
			a := c.lock(fmt.Sprint("a", i), withLinger(always), withTenure(tenure))
			released := c.idle(a)
			before(c, a)
			start := time.Now()
			h := mustLock(c.t, b)
			if d := time.Since(start); d > 0 {
				c.t.Errorf("b waited for %v", d)
			}
			synctest.Wait()
			wantErr(c.t, "the release", settled(c.t, "the release", released), nil)
			mustRelease(c.t, h)
		}
		if lost := c.log.with("holdfast: lost"); len(lost) > 0 {
			c.t.Error(lost)
		}
	})
}

// TryLock of another process finds an idle lock locked, but has it given up.
func TestLingerAndTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", withLinger(always)), c.lock("b")
		released := c.idle(a)
		later(time.Minute + time.Second) // the rotation has just come by
		gone := c.stopBefore(a.m, deleteNode)
		_, err := b.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		gone.goOn()
		c.wantGone(a, released)
		h, err := b.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, nil)
		mustRelease(c.t, h)
		c.idle(a) // and once it is this process's again, it lingers again
	})
}

// What another process waits for while a lock lingers is a deletion, and a list before it
// if the lock is a reader, which does not exclude all others.
func TestLingerCostsAnother(t *testing.T) {
	each(t, map[string]struct {
		locks func(c *cluster) (a, b *Lock)
		lists int
	}{
		"exclusive": {func(c *cluster) (a, b *Lock) { return c.lock("a"), c.lock("b") }, 0},
		"write":     {func(c *cluster) (a, b *Lock) { return c.rw("a").Writer(), c.rw("b").Reader() }, 0},
		"read":      {func(c *cluster) (a, b *Lock) { return c.rw("a").Reader(), c.rw("b").Writer() }, 1},
	}, func(c *cluster, v struct {
		locks func(c *cluster) (a, b *Lock)
		lists int
	}) {
		a, b := v.locks(c)
		wantErr(c.t, "set", a.SetLinger(always), nil)
		c.cycle(b) // it knows the directory
		synctest.Wait()
		c.idle(a)
		later(time.Minute + time.Second) // the rotation has just come by
		id := session(a.m)
		var sent []zktest.Op
		c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
			if session == id && op != zktest.OpPing {
				sent = append(sent, op)
			}
		})
		h := c.acquire(b)
		c.srv.OnRequest(nil)
		c.held(h)
		want := append(slices.Repeat([]zktest.Op{zktest.OpGetChildren2}, v.lists), zktest.OpDelete)
		if !slices.Equal(sent, want) {
			c.t.Errorf("requests: %v, want %v", sent, want)
		}
	})
}

// A reader that lingers is in the way of writers only.
func TestLingerOfReaders(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a", withLinger(always)), c.rw("b", withLinger(always))
		c.idle(a.Reader())
		c.idle(b.Reader())
		wantState(c.t, a.Reader(), state.Retained, 0)
		later(time.Minute)
		wantState(c.t, a.Reader(), state.Retained, 0)
		h := c.acquire(b.Writer())
		c.held(h)
		wantPhase(c.t, a.Reader(), state.Free)
		wantPhase(c.t, b.Reader(), state.Free)
		read := c.acquire(a.Reader())
		c.waiting(read)
		mustRelease(c.t, h) // a waits
		c.held(read)
	})
}

// Of a pair, a lock lingers only while the other is neither held nor wanted.
func TestLingerAndTheOtherLock(t *testing.T) {
	for _, write := range []bool{true, false} {
		t.Run(map[bool]string{true: "the writer lingers", false: "the reader lingers"}[write], func(t *testing.T) {
			bubble(t, func(c *cluster) {
				rw := c.rw("a", withLinger(always))
				lock, other := pick(rw, write), pick(rw, !write)
				released := c.idle(lock)
				later(time.Minute)
				start := time.Now()
				h := mustLock(c.t, other)
				if d := time.Since(start); d > 0 {
					c.t.Errorf("the other lock waited for %v", d)
				}
				c.wantGone(lock, released)
				mustRelease(c.t, h)
				wantState(c.t, other, state.Retained, 0)

				// It waits or holds as the last holder leaves.
				h = mustLock(c.t, lock)
				waits := c.acquire(other)
				mustRelease(c.t, h)
				c.held(waits)
				wantPhase(c.t, lock, state.Free)
				mustRelease(c.t, waits)
				wantState(c.t, other, state.Retained, 0)
				c.wantNodes(1)
			})
		})
	}
}

// A TryLock of the writer does not fail because this process's own reader lingers.
func TestLingerAndOwnTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a", withLinger(always))
		released := c.idle(rw.Reader())
		gone := c.stopBefore(rw.Writer().m, deleteNode)
		failed := make(chan error, 1)
		go func() {
			h, err := rw.Writer().TryLock(c.t.Context())
			h.Release()
			failed <- err
		}()
		gone.reached()
		wantPhase(c.t, rw.Writer(), state.Fetching)
		gone.goOn()
		wantErr(c.t, "trylock", <-failed, nil)
		c.wantGone(rw.Reader(), released)

		// Nor does it wait for a reader that may not be deleted.
		synctest.Wait()
		wantErr(c.t, "the writer", wait(c.t, rw.Writer().ReleaseIdle()), nil)
		c.idle(rw.Reader())
		c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpDelete, Session: session(rw.Writer().m), Times: 1}, zktest.CodeNoAuth)
		_, err := rw.Writer().TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
	})
}

// Nor does a TryLock of another lock of the pair fail because the writer lingers: a reader
// enters beside it, and an upgradable waits until it is gone.
func TestLingerOfTheWriterAndOwnTryLock(t *testing.T) {
	each(t, map[string]func(*RWLock) *Lock{"reader": (*RWLock).Reader, "upgradable": (*RWLock).Upgradable}, func(c *cluster, pick func(*RWLock) *Lock) {
		rw := c.rw("a", withLinger(always))
		released := c.idle(rw.Writer())
		gone := c.stopBefore(rw.Writer().m, deleteNode)
		tried := make(chan error, 1)
		go func() {
			h, err := pick(rw).TryLock(c.t.Context())
			h.Release()
			tried <- err
		}()
		gone.reached()
		synctest.Wait()
		gone.goOn()
		wantErr(c.t, "trylock", <-tried, nil)
		c.wantGone(rw.Writer(), released)
	})
}

// What ends an idle round at once.
func TestLingerEnds(t *testing.T) {
	each(t, map[string]struct {
		end  func(c *cluster, l *Lock)
		want error
	}{
		"ReleaseIdle":  {func(c *cluster, l *Lock) { wantErr(c.t, "yield", wait(c.t, l.ReleaseIdle()), nil) }, nil},
		"SetLinger(0)": {func(c *cluster, l *Lock) { wantErr(c.t, "set", l.SetLinger(0), nil) }, nil},
		"a revocation": {func(c *cluster, l *Lock) {
			wantErr(c.t, "revoke", c.lock("b").Revoke(c.t.Context(), "please"), nil)
		}, nil},
		"its own revocation": {func(c *cluster, l *Lock) { wantErr(c.t, "revoke", l.Revoke(c.t.Context(), "please"), nil) }, nil},
		"an administrator":   {func(c *cluster, l *Lock) { c.remove(c.nodeOf(l.m)) }, nil},
		"the session's end":  {func(c *cluster, l *Lock) { c.expire(l.m) }, nil},
		"the lease's end":    {func(c *cluster, l *Lock) { c.away("a", 8*time.Second); later(30 * time.Second) }, nil},
		"Shutdown":           {func(c *cluster, l *Lock) { wantErr(c.t, "shutdown", l.m.Shutdown(c.t.Context()), nil) }, nil},
		"Close":              {func(c *cluster, l *Lock) { wantErr(c.t, "close", l.m.Close(), nil) }, nil},
	}, func(c *cluster, v struct {
		end  func(c *cluster, l *Lock)
		want error
	}) {
		l := c.lock("a", withLinger(always))
		h := mustLock(c.t, l)
		mustRelease(c.t, h)
		later(time.Minute)
		wantState(c.t, l, state.Retained, 0)
		start := time.Now()
		v.end(c, l)
		synctest.Wait()
		if d := time.Since(start); d > time.Minute {
			c.t.Errorf("it took %v", d)
		}
		c.wantGone(l, h.Released())
		c.wantNodes(0)
		if isClosed(h.Lost()) {
			c.t.Error("a holder that had left is told of a loss")
		}
		if lost := c.log.with("holdfast: lost"); len(lost) > 0 {
			c.t.Error(lost)
		}
		if !l.m.closing() && l.lingersFor() > 0 {
			c.idle(l)
		}
	})
}

// wait waits for f.
func wait[T any](t *testing.T, f *futures.Future[T]) error {
	t.Helper()
	_, err := f.Wait(t.Context())
	return err
}

// ReleaseIdle and SetLinger(0) take nothing away from a holder.
func TestReleaseIdleLeavesHolders(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", withLinger(always))
		if settled(c.t, "the future of ReleaseIdle", l.ReleaseIdle()) != nil {
			c.t.Error("ReleaseIdle of a free lock")
		}
		h := mustLock(c.t, l)
		gone := l.ReleaseIdle()
		later(time.Minute)
		c.held(h)
		pending(c.t, "the future of ReleaseIdle", gone)
		mustRelease(c.t, h)
		later(time.Minute)
		wantState(c.t, l, state.Retained, 0)
		h = mustLock(c.t, l)
		wantErr(c.t, "set", l.SetLinger(0), nil)
		c.held(h)
		mustRelease(c.t, h)
		wantErr(c.t, "the future of ReleaseIdle", settled(c.t, "the future of ReleaseIdle", gone), nil)
		wantPhase(c.t, l, state.Free)
	})
}

// A lock is given up when it has been idle for its time, from the last Release on.
func TestLingerTime(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 40 * time.Millisecond, time.Second, 10 * time.Second, 5 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a", withLinger(d))
				most := d + max(d/4, idleLookLeast)
				for _, used := range []time.Duration{0, d / 3, 5 * d, 7*d/3 + 1} {
					released := c.idle(l)
					for start := time.Now(); time.Since(start) < used; later(d / 7) {
						c.cycle(l)
					}
					h := mustLock(c.t, l)
					later(3 * d) // a holder is never disturbed
					c.held(h)
					mustRelease(c.t, h)
					if h.Released() != released {
						c.t.Error("given up while it was in use")
					}
					start := time.Now()
					wantErr(c.t, "the release", wait(c.t, released), nil)
					if lasted := time.Since(start); lasted < d || lasted > most {
						c.t.Errorf("idle for %v, want %v to %v", lasted, d, most)
					}
				}
			})
		})
	}
}

// SetLinger counts from now for a lock that is idle, and from the last Release for one
// that is held.
func TestSetLinger(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		idleFor := func(what string, want time.Duration) {
			c.t.Helper()
			start := time.Now()
			wantErr(c.t, what, wait(c.t, l.cur.Load().io().released.Future()), nil)
			if lasted := time.Since(start); lasted < want || lasted > want+max(want/4, idleLookLeast) {
				c.t.Errorf("%s: idle for %v, want %v", what, lasted, want)
			}
		}
		h := mustLock(c.t, l)
		wantErr(c.t, "set", l.SetLinger(time.Hour), nil)
		mustRelease(c.t, h)
		later(time.Minute)
		wantErr(c.t, "set", l.SetLinger(time.Second), nil)
		idleFor("shorter, while idle", time.Second)

		c.idle(l)
		later(time.Second / 2)
		wantErr(c.t, "set", l.SetLinger(10*time.Minute), nil)
		idleFor("longer, while idle", 10*time.Minute)

		h = mustLock(c.t, l)
		wantErr(c.t, "set", l.SetLinger(time.Minute), nil)
		later(time.Hour)
		mustRelease(c.t, h)
		idleFor("while held", time.Minute)

		c.idle(l)
		wantErr(c.t, "set", l.SetLinger(always), nil)
		later(time.Hour)
		wantState(c.t, l, state.Retained, 0)
	})
}

// Ask reaches the process that keeps an idle lock, and leaves the lock to it.
func TestLingerAndAsk(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", withLinger(always)), c.lock("b")
		c.idle(a)
		answer, err := b.Ask(c.t.Context(), nil)
		wantErr(c.t, "ask", err, nil)
		if answer.Phase != state.Retained || answer.Holders != 0 || answer.Yielding {
			c.t.Errorf("%+v", answer)
		}
		holder, err := b.Holder(c.t.Context())
		if err != nil || holder == nil || holder.Label != "a" {
			c.t.Errorf("the holder is %v, %v", holder, err)
		}
		wantState(c.t, a, state.Retained, 0)
	})
}

// A lock that a contender waits for does not linger: the last Release gives it up, and
// Unlock waits for that.
func TestNoLingerWithAContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", withLinger(always)), c.lock("b")
		h := mustLock(c.t, a)
		next := c.acquire(b)
		later(time.Second) // a has seen b
		mustRelease(c.t, h)
		wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), nil)
		c.held(next)
	})
}

// An idle lock costs no goroutine, and entering and leaving it allocates nothing.
func TestLingerAllocatesNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", withLinger(time.Hour))
		c.idle(l)
		c.idle(l)
		ctx := c.t.Context()
		want := 0.0
		if racing.Detector {
			want = 3
		}
		for what, pair := range map[string]func(){
			"acquire and release": func() { l.Acquire(ctx).Release() },
			"lock and unlock": func() {
				h, err := l.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					c.t.Error(err)
				}
			},
		} {
			if n := testing.AllocsPerRun(1000, pair); n > want {
				c.t.Errorf("%s: %v allocations", what, n)
			}
		}
	})
}
