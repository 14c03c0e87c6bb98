// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Faults while a lock lingers, by their numbers in docs/faults.md.

// A contender queues before the last holder leaves, or while the first look at the queue
// is under way, or right after. In each case it gets the lock at once.
func TestF123_ContenderComesAsTheLastHolderLeaves(t *testing.T) {
	each(t, map[string]func(c *cluster, a, b *Lock, h Hold) Hold{
		"before, unseen": func(c *cluster, _, b *Lock, h Hold) Hold {
			next := c.acquire(b)
			h.Release()
			return next
		},
		"before the list": func(c *cluster, a, b *Lock, h Hold) Hold {
			look := c.stopBefore(a.m, list)
			h.Release()
			look.reached()
			next := c.acquire(b)
			look.goOn()
			return next
		},
		"after the list": func(c *cluster, _, b *Lock, h Hold) Hold {
			h.Release()
			synctest.Wait()
			return c.acquire(b)
		},
		"as the next holder comes and goes": func(c *cluster, a, b *Lock, h Hold) Hold {
			h.Release()
			synctest.Wait()
			look := c.stopBefore(a.m, list)
			next := b.Acquire(c.t.Context())
			look.reached()
			h = mustLock(c.t, a)
			look.goOn()
			c.waiting(next)
			h.Release() // it was noted
			return next
		},
		"as a holder comes and stays": func(c *cluster, a, b *Lock, h Hold) Hold {
			h.Release()
			synctest.Wait()
			look := c.stopBefore(a.m, list)
			next := b.Acquire(c.t.Context())
			look.reached()
			h = mustLock(c.t, a)
			look.goOn()
			// Newcomers keep arriving, so only the tenure ends the round.
			for range 5 {
				more := a.Acquire(c.t.Context())
				h.Release()
				h = more
				later(defaultTenure / 2)
			}
			expect(c.t, h.Err() != nil, "the tenure does not count")
			h.Release()
			synctest.Wait()
			return next
		},
	}, func(c *cluster, comes func(c *cluster, a, b *Lock, h Hold) Hold) {
		// A reader, since the idle round of another lock ends without a list.
		a, b := c.rw("a", withLinger(always)).Reader(), c.rw("b").Writer()
		h := mustLock(c.t, a)
		next := comes(c, a, b, h)
		c.held(next)
		wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), nil)
	})
}

// Whatever wants the lock says so between the last holder's look and its swap, and finds
// the lock held. Then the last holder, which looks again, ends the round.
func TestF123_WantedBetweenLookAndSwap(t *testing.T) {
	each(t, map[string]func(l *Lock, r *round){
		"a contender": func(_ *Lock, r *round) { r.seeContention() },
		"the gate":    func(_ *Lock, r *round) { r.flags.Set(state.GateClosed) },
		"Shutdown":    func(l *Lock, _ *round) { l.m.stage.Store(shuttingDown) },
		"SetLinger":   func(l *Lock, _ *round) { l.linger.set(0) },
		"the writer": func(l *Lock, _ *round) {
			w := l.rw.writer.cur.Load()
			w.io()
			w.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.Arrive(false) })
		},
	}, func(c *cluster, want func(l *Lock, r *round)) {
		l := c.rw("a", withLinger(always)).Reader()
		mustLock(c.t, l)
		r := l.cur.Load()
		want(l, r)
		r.endIdle()
		if _, e, _ := r.word.Apply(state.Word.LeaveIdle); e != state.Idled {
			c.t.Fatalf("the last holder: %v", e)
		}
		r.left(state.Idled, 0)
		synctest.Wait()
		wantEq(c.t, "the round is", r.word.Load().Phase(), state.Released)
	})
}

// The gate closes for a writer that is no longer there, after the last reader has left and
// found that no other process or caller wants the lock. The next reader waits behind the
// gate, so the idle round must end.
func TestF123_GateClosesWhileIdle(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.rw("a", withLinger(always)).Reader()
		c.idle(l)
		r := l.cur.Load()
		r.closeGate()
		h := c.acquire(l)
		c.held(h)
		expect(c.t, l.cur.Load() != r, "it is in the round whose gate is closed")
		mustRelease(c.t, h)
	})
}

// The lease lapses while the lock is idle. No caller is told of a loss: the next one gets
// the lock anew.
func TestF124_LeaseLapsesWhileIdle(t *testing.T) {
	type test struct{ away, comes time.Duration }
	each(t, map[string]test{
		"it comes in the outage":      {8 * time.Second, 7 * time.Second},
		"it comes after the outage":   {8 * time.Second, 30 * time.Second},
		"the session ends, too":       {30 * time.Second, 31 * time.Second},
		"it comes before the session": {30 * time.Second, 20 * time.Second},
	}, func(c *cluster, v test) {
		l := c.lock("a", withLinger(always))
		h := mustLock(c.t, l)
		first := grantOf(c.t, h)
		mustRelease(c.t, h)
		later(time.Minute)
		c.away("a", v.away)
		later(v.comes)
		h2 := mustLock(c.t, l)
		g := grantOf(c.t, h2)
		expect(c.t, g.Token > first.Token, "token %d after %d", g.Token, first.Token)
		synctest.Wait() // the newcomer may be granted the lock before the release settles
		wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), nil)
		expect(c.t, !isClosed(h.Lost()), "the holder that had left is told")
		c.wantNoLossLogged()
		mustRelease(c.t, h2)
	})
}

// A newcomer is the first to notice: the machine was suspended, and no timer has run.
func TestF124_NewcomerNoticesFirst(t *testing.T) {
	for _, contexts := range []bool{false, true} {
		each(t, map[string]func(c *cluster, l *Lock) Hold{
			"lock":    func(c *cluster, l *Lock) Hold { return mustLock(c.t, l) },
			"acquire": func(c *cluster, l *Lock) Hold { return l.Acquire(c.t.Context()) },
			"trylock": func(c *cluster, l *Lock) Hold {
				h, err := l.TryLock(c.t.Context())
				wantErr(c.t, "trylock", err, nil)
				return h
			},
		}, func(c *cluster, enter func(*cluster, *Lock) Hold) {
			var m machine
			l := c.lock("a", m.run, withLinger(always))
			h := mustLock(c.t, l)
			if contexts { // callers look for a hold in their contexts from now on
				_, cancel := h.Context(c.t.Context())
				cancel()
			}
			first := grantOf(c.t, h)
			mustRelease(c.t, h)
			c.cycle(l)
			later(time.Minute)
			wantState(c.t, l, state.Retained, 0)
			m.suspend(6 * time.Second)
			h2 := enter(c, l)
			g, err := h2.Granted().Wait(c.t.Context())
			wantErr(c.t, "the newcomer", err, nil)
			wantHeld(c.t, "the newcomer", h2)
			expect(c.t, g.Token > first.Token, "token %d after %d", g.Token, first.Token)
			synctest.Wait() // the newcomer may be granted the lock before the release settles
			// If the newcomer was inside as the lease's end was noticed elsewhere, there is no
			// telling that the round was idle before.
			if err := settled(c.t, "the release", h.Released()); !errors.Is(err, ErrLost) {
				wantErr(c.t, "the release", err, nil)
				c.wantNoLossLogged()
			}
			mustRelease(c.t, h2)
		})
	}
}

// A holder leaves after the lease's end: the lock does not linger, and the holder is told.
func TestF124_LastHolderIsLate(t *testing.T) {
	bubble(t, func(c *cluster) {
		var m machine
		l := c.lock("a", m.run, withLinger(always))
		h := mustLock(c.t, l)
		later(time.Minute)
		m.suspend(6 * time.Second)
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		later(time.Minute)
		wantPhase(c.t, l, state.Free)
	})
}

// The event that tells of a contender has not been answered when the last holder leaves,
// the list that would answer it has no answer, or the event never came. The contender
// gets the lock at once in the first cases, and when the rotation has come by in the last.
func TestF125_WatchLostOrUnanswered(t *testing.T) {
	type test struct {
		lose func(c *cluster, a *Lock)
		most time.Duration
	}
	each(t, map[string]test{
		"the event is throttled": {func(c *cluster, a *Lock) {
			h := mustLock(c.t, a)
			d := c.lock("d")
			_, err := d.TryLock(c.t.Context()) // uses up the watch, and the look is for later
			wantErr(c.t, "trylock", err, ErrLocked)
			synctest.Wait()
			h.Release()
		}, 0},
		"the list fails": {func(c *cluster, a *Lock) {
			c.away("a", time.Second)
			synctest.Wait()
		}, 3 * time.Second},
		"the event never came": {func(c *cluster, a *Lock) {
			a.m.client.Unwatch(a.path, (*lookout)(a.cur.Load().io()))
		}, rotationTimeout + rotationTimeout/2 + time.Second},
	}, func(c *cluster, v test) {
		a, b := c.lock("a", withLinger(always)), c.lock("b")
		released := c.idle(a)
		v.lose(c, a)
		start := time.Now()
		mustLock(c.t, b)
		expect(c.t, time.Since(start) <= v.most,
			"b waited for %v, want %v at most", time.Since(start), v.most)
		synctest.Wait()
		wantErr(c.t, "the release", settled(c.t, "the release", released), nil)
	})
}

// Shutdown waits for no idle lock, however many there are, and leaves no node.
func TestF126_ShutdownWithIdleLocks(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a", withLinger(always))
		for i := range 200 {
			c.cycle(exclusive(c.t, m, fmt.Sprintf("many/%d", i)))
			c.cycle(pick(readWrite(c.t, m, fmt.Sprintf("pairs/%d", i)), i%2 == 0))
		}
		held := mustLock(c.t, exclusive(c.t, m, "held"))
		done := make(chan error, 1)
		go func() { done <- m.Shutdown(c.t.Context()) }()
		synctest.Wait()
		left := 0
		for _, path := range c.srv.Nodes() {
			if _, stat, _ := c.srv.Get(path); stat.EphemeralOwner != 0 {
				left++
			}
		}
		wantEq(c.t, "nodes, with that of the lock that is held", left, 1)
		start := time.Now()
		mustRelease(c.t, held)
		wantErr(c.t, "shutdown", <-done, nil)
		wantTook(c.t, start, 0, moment)
	})
}

// The rotation comes by every idle lock, in case a watch event was lost, and by none much
// more often than by another.
func TestF293_RotationReachesEveryIdleLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a", func(cfg *Config) { cfg.Linger = 24 * time.Hour })
		n := racing.Fewer(500)
		locks := make([]*Lock, n)
		for i := range locks {
			locks[i] = exclusive(c.t, m, fmt.Sprint("lock", i))
			mustLock(c.t, locks[i]).Release()
		}
		later(10 * time.Minute)
		var mu sync.Mutex
		looks := map[string]int{}
		c.srv.OnRequest(func(_ int64, op zktest.Op, path string) {
			mu.Lock()
			defer mu.Unlock()
			if op == zktest.OpGetChildren2 {
				looks[path]++
			}
		})
		later(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		least, most := math.MaxInt, 0
		for _, l := range locks {
			least, most = min(least, looks[l.Path()]), max(most, looks[l.Path()])
		}
		expect(c.t, least != 0 && most <= least+2,
			"in 5 minutes the rotation has looked at an idle lock between %d and %d times", least, most)
	})
}
