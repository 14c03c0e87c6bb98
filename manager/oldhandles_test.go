// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
)

// A program may keep what a round of a lock has given it: in a cache, in a log, in a
// goroutine that never ends. It keeps that round alive with it, and must not keep the rounds
// that come after.

// An oldHandle is something that a round has given a program, which keeps it.
type oldHandle struct {
	name  string
	value any
}

// handlesOf returns everything that h, which is held or waits, can give a program.
func handlesOf(t *testing.T, h Hold) []oldHandle {
	t.Helper()
	again, err := h.Reenter()
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
	outer, cancelOuter := context.WithCancel(t.Context())
	ctx, cancel := h.Context(outer)
	handles := []oldHandle{
		{"the Hold", h},
		{"a Hold of Reenter", again},
		{"the future of Granted", h.Granted()},
		{"the future of Ready", h.Ready()},
		{"the future of Released", h.Released()},
		{"the channel of Lost", h.Lost()},
		{"the channel of Contended", h.Contended()},
		{"the channel of Revoked", h.Revoked()},
		{"the context of Context", ctx},
		{"the CancelFunc of Context", cancel},
		{"the parent of a Context", cancelOuter},
		{"an error of Err", h.Err()},
	}
	if shared, err := h.Share(); err == nil { // not of a Mutex
		shared.Release()
		handles = append(handles, oldHandle{"a Hold of Share", shared})
	}
	return handles
}

// roundsAlive returns how many of the rounds cannot be collected.
func roundsAlive(rounds []weak.Pointer[share]) (n int) {
	synctest.Wait()
	for range 3 { // pools give up what they have in two
		runtime.GC()
	}
	for _, r := range rounds {
		if r.Value() != nil {
			n++
		}
	}
	return n
}

// wantCollected checks that none of the rounds is alive, although the program has all the
// old handles. Otherwise it drops one after the other, and says when rounds have gone.
func wantCollected(t *testing.T, rounds []weak.Pointer[share], old []oldHandle) {
	t.Helper()
	alive := roundsAlive(rounds)
	expect(t, alive <= 0, "%d of %d later rounds are alive", alive, len(rounds))
	for i, o := range old {
		runtime.KeepAlive(o.value)
		old[i] = oldHandle{}
		if alive > 0 {
			if now := roundsAlive(rounds); now < alive {
				t.Errorf("%s keeps %d of them alive, or one of the handles above it does", o.name, alive-now)
				alive = now
			}
		}
	}
}

// laterRounds is how many rounds come after the one whose handles a program keeps.
func laterRounds() int { return max(racing.Fewer(1000), 100) }

// What a round of a lock has given a program keeps no later round alive, in whichever way
// the lock goes from one round to the next.
func TestF289_OldHandlesKeepNoLaterRound(t *testing.T) {
	type step func(c *cluster, h Hold) Hold
	ways := map[string]step{
		"handed over by one request": func(c *cluster, h Hold) Hold { return c.handOver(h) },
		"queues when the node is gone": func(c *cluster, h Hold) Hold {
			mustRelease(c.t, h)
			return mustLock(c.t, h.Lock())
		},
		"lost": func(c *cluster, h Hold) Hold {
			c.remove(grantOf(c.t, h).Path)
			<-h.Lost()
			h.Release()
			return mustLock(c.t, h.Lock())
		},
		"given up while it waits": func(c *cluster, h Hold) Hold {
			next := waitBehind(c.t, h)
			next.Release()
			mustRelease(c.t, h)
			return mustLock(c.t, h.Lock())
		},
	}
	for way, next := range ways {
		t.Run(way, func(t *testing.T) {
			each(t, kinds, func(c *cluster, pick func(*cluster) *Lock) {
				l := pick(c)
				c.cycle(l) // makes the directory
				h := c.acquire(l)
				old := handlesOf(c.t, h)
				var rounds []weak.Pointer[share]
				for range laterRounds() {
					h = next(c, h)
					rounds = append(rounds, weak.Make(h.share))
				}
				c.unlock(h)
				later(2 * rotationTimeout) // nothing is to be done for any of them
				wantCollected(c.t, rounds, old)
				runtime.KeepAlive(l)
			})
		})
	}
}

// The same for what does not go from round to round by itself: an upgradable read lock, a
// Mutex, LockAll, and what hears of a lock without holding it.
func TestF289_OldHandlesOfOthersKeepNoLaterRound(t *testing.T) {
	// Each case returns the old handles, and a function that makes one more round.
	each(t, map[string]func(c *cluster) (old []oldHandle, more func() []*share){
		"an upgradable read lock, upgraded": func(c *cluster) ([]oldHandle, func() []*share) {
			l := c.rw("a").Upgradable()
			begin := func() Hold {
				h := mustLock(c.t, l)
				c.mustUpgrade(h)
				return h
			}
			h := begin()
			c.t.Cleanup(func() { h.Release() })
			old := handlesOf(c.t, h)
			return old, func() []*share {
				mustRelease(c.t, h)
				h = begin()
				return []*share{h.share}
			}
		},
		"a Mutex": func(c *cluster) ([]oldHandle, func() []*share) {
			x := c.mutex("a")
			h, err := x.Lock(c.t.Context())
			wantErr(c.t, "lock", err, nil)
			c.t.Cleanup(func() { h.Release() })
			old := append(handlesOf(c.t, h), oldHandle{"a Locker", x.Locker(c.t.Context())})
			n := 0
			return old, func() []*share {
				host := x.host()
				if n++; n%2 == 0 { // its process leaves the queue, and queues again
					host.flags.Set(state.GateClosed)
				}
				next := x.Acquire(c.t.Context())
				h.Release()
				c.holder(next)
				h = next
				return []*share{h.share, host}
			}
		},
		"LockAll": func(c *cluster) ([]oldHandle, func() []*share) {
			m := c.open("a")
			locks := several(c.t, m, "one", "two")
			hs := mustLockAll(c.t, m, locks...)
			c.t.Cleanup(func() { hs.Release() })
			ctx, cancel := hs.Context(c.t.Context())
			old := append(handlesOf(c.t, hs[0]), oldHandle{"the Holds", hs}, oldHandle{"the channel of Lost", hs.Lost()},
				oldHandle{"the context", ctx}, oldHandle{"its CancelFunc", cancel})
			return old, func() []*share {
				hs.Release()
				hs = mustLockAll(c.t, m, locks...)
				return []*share{hs[0].share, hs[1].share}
			}
		},
		"a lock that lingers": func(c *cluster) ([]oldHandle, func() []*share) {
			l := c.lock("a", func(cfg *Config) { cfg.Linger = always })
			h := mustLock(c.t, l)
			old := handlesOf(c.t, h)
			mustRelease(c.t, h)
			return append(old, oldHandle{"the future of ReleaseIdle", l.ReleaseIdle()}), func() []*share {
				h := mustLock(c.t, l)
				mustRelease(c.t, h)
				l.ReleaseIdle()
				synctest.Wait()
				return []*share{h.share}
			}
		},
		"what hears of the lock": func(c *cluster) ([]oldHandle, func() []*share) {
			m := c.open("a")
			l := exclusive(c.t, m, "jobs")
			h := mustLock(c.t, l)
			c.t.Cleanup(func() { h.Release() })
			stop := l.Listen(Listener{Acquired: func(Grant) {}})
			stop()
			next, end := iter.Pull2(l.WatchHolder(c.t.Context()))
			c.t.Cleanup(end)
			holder, err, _ := next()
			wantErr(c.t, "the holder", err, nil)
			cached, err := l.CachedHolder(c.t.Context())
			wantErr(c.t, "the cached holder", err, nil)
			_, locked := exclusive(c.t, c.open("b"), "jobs").TryLock(c.t.Context())
			wantErr(c.t, "another process", locked, ErrLocked)
			old := []oldHandle{
				{"the stop function of Listen", stop},
				{"a loop of WatchHolder", next},
				{"a holder that it has shown", holder},
				{"a holder of CachedHolder", cached},
				{"the error of a TryLock", locked},
				{"an Access", m.Access()},
				{"the context of an Access", m.Access().Accepting()},
			}
			return old, func() []*share {
				mustRelease(c.t, h)
				h = mustLock(c.t, l)
				return []*share{h.share}
			}
		},
	}, func(c *cluster, begin func(*cluster) ([]oldHandle, func() []*share)) {
		old, more := begin(c)
		var rounds []weak.Pointer[share]
		for range laterRounds() {
			for _, r := range more() {
				rounds = append(rounds, weak.Make(r))
			}
		}
		more()
		more() // from here on, all the others are over
		later(2 * rotationTimeout)
		wantCollected(c.t, rounds, old)
	})
}

// BenchmarkHandOverOldFuture hands a lock over within a process, by one request each time,
// while a program keeps the future of the first grant, or no future. It reports how much
// memory each hand-over leaves behind.
func BenchmarkHandOverOldFuture(b *testing.B) {
	for _, kept := range []bool{true, false} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			e := newEmbedded(b, 1)
			l := e.locks(KindExclusive, "jobs")[0]
			h, err := l.Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			old := h.Granted()
			if !kept {
				old = nil
			}
			before := liveHeap()
			for b.Loop() {
				h.share.flags.Set(state.GateClosed) // as after a tenure
				next := l.Acquire(b.Context())
				h.Release()
				if _, err := next.Granted().Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				h = next
			}
			b.ReportMetric(float64(liveHeap()-before)/float64(b.N), "B-kept/op")
			runtime.KeepAlive(old)
			h.Release()
		})
	}
}
