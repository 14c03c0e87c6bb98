// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/state"
)

// What goroutines of one process can do to each other, by the numbers in
// docs/faults.md.

// Releasing a handle releases nothing else: not the hold of another goroutine,
// another lock or another process.
func TestF063_HandleFreesItsOwnHoldOnly(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l, other := exclusive(c.t, m, "jobs"), exclusive(c.t, m, "other")
		mine, yours, elsewhere := mustLock(c.t, l), mustLock(c.t, l), mustLock(c.t, other)
		waits := c.lock("b").Acquire(c.t.Context())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				yours.Release() // takes effect once
				elsewhere.Release()
				waits.Depth()
			})
		}
		wg.Wait()
		later(time.Second)
		wantErr(c.t, "my hold", mine.Err(), nil)
		wantState(c.t, l, state.Retained, 1)
		wantState(c.t, other, state.Free, 0)
		pending(c.t, "another process", waits.Granted())
		mustRelease(c.t, mine)
		synctest.Wait()
		wantErr(c.t, "another process", waits.Err(), nil)
		for _, h := range []Hold{mine, yours, elsewhere} {
			wantErr(c.t, "released again", h.Unlock(c.t.Context()), ErrReleased)
		}
		wantErr(c.t, "another process", waits.Err(), nil)
		mustRelease(c.t, waits)
	})
}

// Between the load of a word and its compare-and-swap the round ends, and the next
// one is granted to as many holders: the same bits, in another round. The swap
// fails, because each round has its own word, and an arrival gets the grant of the
// round that counts it.
func TestF066_SameWordOfAnotherRound(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for _, test := range []struct {
			what string
			do   func(state.Word) (state.Word, state.Effect)
			want state.Effect
		}{
			{"an arrival", func(w state.Word) (state.Word, state.Effect) { return w.Arrive(false) }, state.Next},
			{"a leaver", state.Word.Leave, state.Dead},
			{"a forced end", state.Word.End, state.Nothing},
		} {
			first := mustLock(c.t, l)
			stale := l.cur.Load()
			var second Hold
			_, e, lost := stale.word.Apply(func(w state.Word) (state.Word, state.Effect) {
				if second == (Hold{}) {
					mustRelease(c.t, first)
					second = mustLock(c.t, l)
					if now := l.cur.Load().word.Load(); now != w {
						c.t.Fatalf("the word is %v, was %v: they were to be the same", now, w)
					}
				}
				return test.do(w)
			})
			expect(c.t, e == test.want && lost == 1,
				"%s: %v after %d lost races, want %v after one", test.what, e, lost, test.want)
			wantState(c.t, l, state.Retained, 1)

			// A caller that still has the old round reaches the new one.
			r, e, _ := stale.arrive(false)
			if r != l.cur.Load() || e != state.Entered {
				c.t.Fatalf("%s: an arrival at the old round: %v", test.what, e)
			}
			third := newHold(&r.share)
			expect(c.t, third.Granted() == second.Granted() && third.Granted() != first.Granted(),
				"the future is not that of the round that counts the hold")
			wantState(c.t, l, state.Retained, 2)
			mustRelease(c.t, third)
			mustRelease(c.t, second)
		}
	})
}

// The round is granted, and before the granter has settled the future all holders
// leave, or the lock is lost, or a newcomer enters. That goroutine settles the
// future itself: none waits for the granter.
func TestF068_EndedBeforeTheGrantIsTold(t *testing.T) {
	type test struct {
		do   func(h Hold)
		want error
	}
	each(t, map[string]test{
		"the last holder leaves": {func(h Hold) { h.Release() }, nil},
		"it is lost":             {func(h Hold) { h.share.fail(&Error{Op: "test", Err: ErrLost}) }, ErrLost},
		"a newcomer enters":      {func(h Hold) { h.Lock().Acquire(context.Background()).Release() }, nil},
	}, func(c *cluster, test test) {
		model := mustLock(c.t, exclusive(c.t, c.open("a", unobserved), "model"))
		r := fetched(model, 1)
		h := newHold(&r.share)
		if _, e, _ := r.word.Apply(state.Word.Grant); e != state.Granted {
			c.t.Fatalf("the grant: %v", e)
		}
		pending(c.t, "the grant", h.Granted())
		test.do(h)
		wantErr(c.t, "the grant", settled(c.t, "the grant", h.Granted()), test.want)
		h.Release()
		synctest.Wait()
		wantState(c.t, h.Lock(), state.Free, 0)
		mustRelease(c.t, model)
	})
}

// Rounds end and begin as fast as goroutines can take and release the lock. A
// caller that arrives between two rounds is counted in one of them and learns of
// its grant: no wake-up is lost.
func TestF070_ArrivalsBetweenRounds(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute) // in virtual time, nothing here takes long
		defer cancel()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 300 {
					h, err := l.Lock(ctx)
					if err != nil {
						c.t.Errorf("lock: %v", err)
						return
					}
					end := h.Release()
					for range rand.IntN(4) {
						runtime.Gosched()
					}
					if rand.IntN(3) > 0 { // otherwise the round would never end
						_, _ = end.Wait(ctx)
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)
		s := l.Stats()
		expect(c.t, s.Rounds >= 20, "%d rounds: too few to show anything", s.Rounds)

		// A caller that still has a round that ended long ago.
		old := l.cur.Load()
		mustRelease(c.t, mustLock(c.t, l))
		r, e, _ := old.arrive(false)
		if e != state.Started || r != l.cur.Load() {
			c.t.Fatalf("an arrival at an old round: %v", e)
		}
		h := newHold(&r.share)
		synctest.Wait()
		wantErr(c.t, "its grant", h.Err(), nil)
		mustRelease(c.t, h)
	})
}

// An overloaded server refuses every attempt to queue for a minute, while fifty
// goroutines wait. The client backs off: it makes a few dozen attempts, not as
// many as the network can carry. Once the server accepts requests again, the grant
// follows soon.
func TestF073_RetriesAreFarApart(t *testing.T) {
	bubble(t, func(c *cluster) {
		// A directory with data makes the client send a plain create.
		wantErr(c.t, "create", c.srv.CreateAll(dir, []byte("data")), nil)
		var busy atomic.Bool
		var attempts atomic.Int64
		busy.Store(true)
		l := c.lock("a", c.forged(func(op int32, packet []byte) func([]byte) []byte {
			if op != jute.OpCreate || !strings.Contains(string(packet), dir) || !busy.Load() {
				return nil
			}
			attempts.Add(1)
			harmless(packet)
			return refusal(-127) // throttled
		}))
		var holds []Hold
		for range 50 {
			holds = append(holds, l.Acquire(c.t.Context()))
		}
		later(time.Minute)
		expect(c.t, attempts.Load() >= 15 && attempts.Load() <= 120,
			"%d attempts in a minute", attempts.Load())
		busy.Store(false)
		start := time.Now()
		<-holds[0].Granted().Done()
		expect(c.t, time.Since(start) <= 5*time.Second,
			"granted %v after it worked again", time.Since(start))
		for i, h := range holds {
			wantErr(c.t, fmt.Sprint(i), h.Err(), nil)
			h.Release()
		}
		synctest.Wait()
		c.wantNodes(0)
	})
}

// One round ends by force while goroutines of the same process arrive. Those that
// it counts are told; the others are in the next round; none falls in between.
func TestF066_ForcedEndUnderArrivals(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 50 {
			first := mustLock(c.t, l)
			dead := first.share
			var mu sync.Mutex
			var holds []Hold
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					<-start
					for range 50 {
						h := l.Acquire(c.t.Context())
						mu.Lock()
						holds = append(holds, h)
						mu.Unlock()
					}
				})
			}
			wg.Go(func() {
				<-start
				for n := 0; n < 100; n = int(l.entries()) % 400 {
					if dead.word.Load().Holders() > 100 {
						break
					}
				}
				dead.fail(&Error{Op: "test", Name: "jobs", Err: ErrLost})
			})
			close(start)
			wg.Wait()
			waitUntil(c.t, "the next round is granted", func() bool {
				p, n := l.State()
				return p == state.Retained && n > 0 || l.cur.Load().word.Load().Phase() == state.Free
			})
			alive := 0
			for _, h := range holds {
				switch err := h.Err(); {
				case h.share == dead:
					wantErr(c.t, "a hold of the dead round", err, ErrLost)
				case err == nil:
					alive++
				default:
					c.t.Errorf("a hold of the next round: %v", err)
				}
			}
			_, n := l.State()
			expect(c.t, n == alive, "the next round counts %d, but %d are in it", n, alive)
			for _, h := range append(holds, first) {
				h.Release()
			}
			synctest.Wait()
			waitUntil(c.t, "the lock is free", func() bool { p, n := l.State(); return p == state.Free && n == 0 })
		}
	})
}
