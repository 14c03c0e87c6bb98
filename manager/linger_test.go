// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
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
		c.takeCounts()
		for range 1000 {
			h := mustLock(c.t, l)
			wantEq(c.t, "the grant", grantOf(c.t, h), grant)
			other := l.Acquire(c.t.Context())
			wantHeld(c.t, "beside it", other)
			mustRelease(c.t, h)
			wantState(c.t, l, state.Retained, 1)
			other.Release()
			wantState(c.t, l, state.Retained, 0)
			pending(c.t, "the release", other.Released())
			wantErr(c.t, "a released hold", h.Err(), ErrReleased)
		}
		c.wantNothingSent()
		c.wantNodes(1)
		s := l.Stats()
		expect(c.t, s.Grants == 1 && s.Rounds == 1 && s.Holders == 0 && s.Phase == state.Retained, "%+v", s)
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
			c.cycle(l)
			if i%(pairs/20) == 0 {
				later(time.Second)
			}
		}
		sent := c.takeCounts()
		delete(sent, prove)
		expect(c.t, total(sent) < 10, "requests: %v", sent)
	})
}

// Without Linger nothing of it happens: a lock is given up when its last holder leaves.
func TestNoLinger(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		c.cycle(l)
		wantPhase(c.t, l, state.Free)
		wantErr(c.t, "ReleaseIdle of a free lock", settled(c.t, "it", l.ReleaseIdle()), nil)
		expect(c.t, !l.cur.Load().flags.Load().Has(state.Lingers), "it lingers")
	})
}

// An upgradable read lock and one that reports abandonment never linger, whatever Config.Linger
// says, and SetLinger refuses them.
func TestNeverLingers(t *testing.T) {
	each(t, map[string]func(c *cluster) *Lock{
		"upgradable": func(c *cluster) *Lock { return c.rw("a", withLinger(always)).Upgradable() },
		"reporting":  func(c *cluster) *Lock { return reports(c.t, c.lock("a", withLinger(always)), 0) },
		"reporting since it is idle": func(c *cluster) *Lock {
			l := c.lock("a", withLinger(always))
			released := c.idle(l)
			reports(c.t, l, 0)
			c.wantGone(l, released)
			return l
		},
	}, func(c *cluster, pick func(*cluster) *Lock) {
		l := pick(c)
		wantErr(c.t, "set", l.SetLinger(time.Second), ErrBadConfig)
		h := mustLock(c.t, l)
		mustRelease(c.t, h)
		c.wantGone(l, h.Released())
		c.wantNodes(0)
		c.wantMarks(0)
	})
}

// A negative time is refused, and changes nothing.
func TestLingerIsNotNegative(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := c.config("a")
		cfg.Linger = -1
		wantErr(c.t, "open", errOf(Open(c.t.Context(), cfg)), ErrBadConfig)
		l := c.lock("b", withLinger(always))
		err := l.SetLinger(-time.Second)
		wantErr(c.t, "set", err, ErrBadConfig)
		e, ok := errors.AsType[*Error](err)
		expect(c.t, ok && e.Op == "setlinger" && e.Name == "jobs", "%#v", err)
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
			wantTook(c.t, start, 0, 0)
			c.wantGone(a, released)
			mustRelease(c.t, h)
		}
		c.wantNoLossLogged()
	})
}

// TryLock of another process finds an idle lock locked, but has it given up.
func TestLingerAndTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", withLinger(always)), c.lock("b")
		released := c.idle(a)
		later(time.Minute + time.Second) // the rotation has just come by
		gone := c.stopBefore(a.m, deleteNode)
		wantErr(c.t, "trylock", errOf(b.TryLock(c.t.Context())), ErrLocked)
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
	each(t, map[string]func(c *cluster) (a, b *Lock, sent string){
		"exclusive": func(c *cluster) (a, b *Lock, sent string) { return c.lock("a"), c.lock("b"), "delete=1" },
		"write": func(c *cluster) (a, b *Lock, sent string) {
			return c.rw("a").Writer(), c.rw("b").Reader(), "delete=1"
		},
		"read": func(c *cluster) (a, b *Lock, sent string) {
			return c.rw("a").Reader(), c.rw("b").Writer(), "delete=1 getChildren2=1"
		},
	}, func(c *cluster, locks func(c *cluster) (a, b *Lock, sent string)) {
		a, b, sent := locks(c)
		wantErr(c.t, "set", a.SetLinger(always), nil)
		c.cycle(b) // it knows the directory
		synctest.Wait()
		c.idle(a)
		later(time.Minute + time.Second) // the rotation has just come by
		n := c.tally(a.m)
		c.held(c.acquire(b))
		n.want("the process that is idle", sent)
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
	each(t, map[string]bool{"the writer lingers": true, "the reader lingers": false}, func(c *cluster, write bool) {
		rw := c.rw("a", withLinger(always))
		lock, other := pick(rw, write), pick(rw, !write)
		released := c.idle(lock)
		later(time.Minute)
		start := time.Now()
		h := mustLock(c.t, other)
		wantTook(c.t, start, 0, 0)
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
}

// trying calls TryLock of l, which must not fail because another lock of its process, whose
// node is being deleted, lingers.
func (c *cluster) trying(l, lingers *Lock) {
	c.t.Helper()
	released := c.idle(lingers)
	gone := c.stopBefore(l.m, deleteNode)
	tried := make(chan error, 1)
	go func() {
		h, err := l.TryLock(c.t.Context())
		h.Release()
		tried <- err
	}()
	gone.reached()
	if !reads(l) {
		wantPhase(c.t, l, state.Fetching)
	}
	gone.goOn()
	wantErr(c.t, "trylock", <-tried, nil)
	c.wantGone(lingers, released)
}

// A TryLock of the writer does not fail because this process's own reader lingers.
func TestLingerAndOwnTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a", withLinger(always))
		c.trying(rw.Writer(), rw.Reader())

		// Nor does it wait for a reader that may not be deleted.
		wantErr(c.t, "the writer", wait(c.t, rw.Writer().ReleaseIdle()), nil)
		c.idle(rw.Reader())
		c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpDelete, Session: session(rw.Writer().m), Times: 1}, zktest.CodeNoAuth)
		wantErr(c.t, "trylock", errOf(rw.Writer().TryLock(c.t.Context())), ErrLocked)
	})
}

// Nor does a TryLock of another lock of the pair fail because the writer lingers: a reader
// enters beside it, and an upgradable waits until it is gone.
func TestLingerOfTheWriterAndOwnTryLock(t *testing.T) {
	each(t, map[string]func(*RWLock) *Lock{"reader": (*RWLock).Reader, "upgradable": (*RWLock).Upgradable}, func(c *cluster, pick func(*RWLock) *Lock) {
		rw := c.rw("a", withLinger(always))
		c.trying(pick(rw), rw.Writer())
	})
}

// What ends an idle round at once.
func TestLingerEnds(t *testing.T) {
	each(t, map[string]func(c *cluster, l *Lock){
		"ReleaseIdle":        func(c *cluster, l *Lock) { wantErr(c.t, "yield", wait(c.t, l.ReleaseIdle()), nil) },
		"SetLinger(0)":       func(c *cluster, l *Lock) { wantErr(c.t, "set", l.SetLinger(0), nil) },
		"a revocation":       func(c *cluster, _ *Lock) { wantErr(c.t, "revoke", c.lock("b").Revoke(c.t.Context(), "please"), nil) },
		"its own revocation": func(c *cluster, l *Lock) { wantErr(c.t, "revoke", l.Revoke(c.t.Context(), "please"), nil) },
		"an administrator":   func(c *cluster, l *Lock) { c.remove(c.nodeOf(l.m)) },
		"the session's end":  func(c *cluster, l *Lock) { c.expire(l.m) },
		"the lease's end":    func(c *cluster, _ *Lock) { c.away("a", 8*time.Second); later(30 * time.Second) },
		"Shutdown":           func(c *cluster, l *Lock) { wantErr(c.t, "shutdown", l.m.Shutdown(c.t.Context()), nil) },
		"Close":              func(c *cluster, l *Lock) { wantErr(c.t, "close", l.m.Close(), nil) },
	}, func(c *cluster, end func(c *cluster, l *Lock)) {
		l := c.lock("a", withLinger(always))
		h := mustLock(c.t, l)
		mustRelease(c.t, h)
		later(time.Minute)
		wantState(c.t, l, state.Retained, 0)
		start := time.Now()
		end(c, l)
		c.wantGone(l, h.Released())
		wantTook(c.t, start, 0, time.Minute)
		c.wantNodes(0)
		expect(c.t, !isClosed(h.Lost()), "a holder that had left is told of a loss")
		c.wantNoLossLogged()
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
		c.wantGone(l, gone)
	})
}

// wantIdle waits for the end of a lock's idle round, which the lock is to survive for about
// as long as d.
func (c *cluster) wantIdle(released *futures.Future[struct{}], d time.Duration) {
	c.t.Helper()
	start := time.Now()
	wantErr(c.t, "the release", wait(c.t, released), nil)
	wantTook(c.t, start, d, d+max(d/4, idleLookLeast))
}

// A lock is given up when it has been idle for its time, from the last Release on.
func TestLingerTime(t *testing.T) {
	eachOf(t, []time.Duration{time.Millisecond, 40 * time.Millisecond, time.Second, 10 * time.Second, 5 * time.Minute}, func(c *cluster, d time.Duration) {
		l := c.lock("a", withLinger(d))
		for _, used := range []time.Duration{0, d / 3, 5 * d, 7*d/3 + 1} {
			released := c.idle(l)
			for start := time.Now(); time.Since(start) < used; later(d / 7) {
				c.cycle(l)
			}
			h := mustLock(c.t, l)
			later(3 * d) // a holder is never disturbed
			c.held(h)
			mustRelease(c.t, h)
			expect(c.t, h.Released() == released, "given up while it was in use")
			c.wantIdle(released, d)
		}
	})
}

// SetLinger counts from now for a lock that is idle, and from the last Release for one
// that is held.
func TestSetLinger(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		idleFor := func(want time.Duration) {
			c.t.Helper()
			c.wantIdle(l.cur.Load().io().released.Future(), want)
		}
		h := mustLock(c.t, l)
		wantErr(c.t, "set", l.SetLinger(time.Hour), nil)
		mustRelease(c.t, h)
		later(time.Minute)
		wantErr(c.t, "shorter, while idle", l.SetLinger(time.Second), nil)
		idleFor(time.Second)

		c.idle(l)
		later(time.Second / 2)
		wantErr(c.t, "longer, while idle", l.SetLinger(10*time.Minute), nil)
		idleFor(10 * time.Minute)

		h = mustLock(c.t, l)
		wantErr(c.t, "while held", l.SetLinger(time.Minute), nil)
		later(time.Hour)
		mustRelease(c.t, h)
		idleFor(time.Minute)

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
		answer := mustAsk(c.t, b, "")
		expect(c.t, answer.Phase == state.Retained && answer.Holders == 0 && !answer.Yielding, "%+v", answer)
		wantEq(c.t, "the holder", holderOf(c.t, b), "a:eh")
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
			"lock and unlock":     func() { c.cycle(l) },
		} {
			n := testing.AllocsPerRun(1000, pair)
			expect(c.t, n <= want, "%s: %v allocations", what, n)
		}
	})
}

// Another process gets an idle lock about as soon as if it queued for a free one and then
// waited for an ordinary hand-over. The test prints the medians, which are up to the
// machine, and fails only if something waits that must not.
func TestRealLinger(t *testing.T) {
	zk := realzk.Shared(t)
	const times = 100
	a := exclusive(t, openReal(t, zk.Addr(), "a"), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b"), "jobs")
	var free, handOver, fromIdle []time.Duration
	for range times {
		// From Lock to the grant of a lock that is free.
		start := time.Now()
		h := mustLock(t, b)
		free = append(free, time.Since(start))
		mustRelease(t, h)

		// From the Release to the grant of a process that waits.
		h = mustLock(t, a)
		next := b.Acquire(t.Context())
		within(t, "b is queued", ioOf(next).whereabouts().known().Done())
		start = time.Now()
		h.Release()
		granted(t, "b", next, time.Minute)
		handOver = append(handOver, time.Since(start))
		mustRelease(t, next)
	}
	wantErr(t, "set", a.SetLinger(time.Hour), nil)
	for range times {
		// From the Lock of another process to its grant, while the lock is idle.
		mustLock(t, a).Release()
		<-time.After(20 * time.Millisecond) // it is watched
		start := time.Now()
		next, err := b.Lock(withTimeout(t, time.Minute))
		wantErr(t, "lock", err, nil)
		fromIdle = append(fromIdle, time.Since(start))
		mustRelease(t, next)
	}
	queued, usual, idle := median(free), median(handOver), median(fromIdle)
	t.Logf("medians: a free lock %v, a hand-over %v, an idle lock %v (%.2f hand-overs)", queued, usual, idle, float64(idle)/float64(usual))
	most := 5*(queued+usual) + 20*time.Millisecond
	expect(t, idle <= most, "an idle lock takes %v, want %v at most", idle, most)
}

// BenchmarkLinger measures Lock and Unlock, and Acquire and Release, of a lock that
// lingers and that nothing else uses.
func BenchmarkLinger(b *testing.B) {
	ctx := context.Background()
	for _, linger := range []time.Duration{0, time.Minute} {
		l := exclusive(b, openListening(b, withLinger(linger)), "lingers")
		b.Run("linger="+linger.String()+"/lock-unlock", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h, err := l.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		if linger == 0 {
			continue // the releases would pile up
		}
		b.Run("linger="+linger.String()+"/acquire-release", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Acquire(ctx).Release()
			}
		})
	}
}
