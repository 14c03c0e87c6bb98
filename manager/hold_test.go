// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An old hold says that it was released, however often its slot was reused since.
func TestF065_OldHoldAfterItsSlotIsReused(t *testing.T) {
	for _, test := range []struct {
		what    string
		besides int // holders that keep slots
	}{
		{"a slot of the lock", 0},
		{"a slot of the pool", 1},
	} {
		t.Run(test.what, func(t *testing.T) {
			l := retained(t)
			var kept, olds []Hold
			for range test.besides {
				kept = append(kept, l.Acquire(t.Context()))
			}
			reused := 0
			for range 1000 {
				h := l.Acquire(t.Context())
				if pooled := l.homeOf(h.slot.handle) == nil; pooled != (test.besides > 0) {
					t.Fatalf("the slot is of the pool: %v", pooled)
				}
				for _, old := range olds {
					if h.slot == old.slot {
						reused++
						if h.gen == old.gen {
							t.Fatalf("generation %d was given out twice", h.gen)
						}
					}
					wantErr(t, "release of an old hold", settled(t, "release", old.Release()), ErrReleased)
					if old.Depth() != 0 || !errors.Is(old.Err(), ErrReleased) {
						t.Fatal("an old hold is alive")
					}
				}
				if h.Depth() != 1 {
					t.Fatal("the new hold is not alive")
				}
				wantState(t, l, state.Retained, 2+test.besides)
				h.Release()
				if len(olds) < 20 { // several: under the race detector the pool forgets at random
					olds = append(olds, h)
				}
			}
			expect(t, reused != 0, "no slot was used again: this test shows nothing")
			for _, h := range kept {
				h.Release()
			}
			wantState(t, l, state.Retained, 1)
		})
	}
}

// However many callers are inside at a time, no two of them have the same handle,
// and each entry is counted once. What has been counted stays counted.
func TestF065_EveryEntryHasItsOwnHandle(t *testing.T) {
	l := retained(t)
	const goroutines, times = 8, 500
	var (
		mu    sync.Mutex
		alive = map[Hold]bool{} // protected by mu
		wg    sync.WaitGroup
	)
	enter := func() Hold {
		h := l.Acquire(t.Context())
		mu.Lock()
		defer mu.Unlock()
		if key := (Hold{slot: h.slot}); alive[key] {
			t.Errorf("%v was given out twice", h)
		} else {
			alive[key] = true
		}
		return h
	}
	leave := func(h Hold) {
		mu.Lock()
		delete(alive, Hold{slot: h.slot})
		mu.Unlock()
		h.Release()
	}
	for range goroutines {
		wg.Go(func() {
			for i := range times {
				a := enter()
				if i%3 == 0 {
					leave(enter())
				}
				leave(a)
			}
		})
	}
	wg.Go(func() {
		for last := uint64(0); last < goroutines*times; runtime.Gosched() {
			n := l.Stats().Entries
			expect(t, n >= last, "%d entries after %d", n, last)
			last = n
		}
	})
	wg.Wait()
	const want = goroutines * (times + (times+2)/3)
	if n := l.Stats().Entries; n != want {
		t.Errorf("%d entries are counted, want %d", n, want)
	}
	wantState(t, l, state.Retained, 1)
}

// setHandles sets a slot's word: reaching its bounds by use would take years.
func setHandles(s *slot, generation uint64, depth int) {
	*(*uint64)(unsafe.Pointer(&s.word)) = generation<<25 | uint64(depth)
}

// A slot is retired after its last generation, so that generations never repeat.
func TestLastGenerationIsRetired(t *testing.T) {
	l := retained(t)
	h := l.Acquire(t.Context())
	setHandles(h.slot, state.LastGeneration-1, 1)
	h.gen = state.LastGeneration - 1
	if h.Depth() != 1 {
		t.Fatalf("the word was not set: depth %d", h.Depth())
	}
	h.Release()
	wantState(t, l, state.Retained, 1)
	wantErr(t, "second release", settled(t, "release", h.Release()), ErrReleased)
	var holds []Hold
	for range 1000 {
		other := l.Acquire(t.Context())
		if other.slot == h.slot {
			t.Fatal("the slot is in use again")
		}
		holds = append(holds, other)
	}
	for _, other := range holds {
		other.Release()
	}
	expect(t, h.Depth() == 0, "the old hold is alive")
}

// The handles of a holder can be released in any order. The last one takes back
// the holder's count.
func TestReenterAnyOrder(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		keep := mustLock(c.t, l) // keeps the round alive
		orders := [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 3, 0, 1}}
		for range 20 {
			orders = append(orders, rand.Perm(8))
		}
		for _, order := range orders {
			holds := []Hold{mustLock(c.t, l)}
			for len(holds) < len(order) {
				// Reenter works from any handle of the holder, not only from the first.
				h, err := holds[rand.IntN(len(holds))].Reenter()
				if err != nil {
					c.t.Fatal(err)
				}
				holds = append(holds, h)
			}
			for left := len(order); left > 0; left-- {
				wantState(c.t, l, state.Retained, 2)
				h := holds[order[len(order)-left]]
				if h.Depth() != left {
					c.t.Fatalf("order %v: depth %d with %d handles left", order, h.Depth(), left)
				}
				pending(c.t, "the round's end", h.Release())
				if h.Depth() != 0 || !errors.Is(h.Err(), ErrReleased) {
					c.t.Fatalf("order %v: a released handle is alive", order)
				}
				if _, err := h.Reenter(); !errors.Is(err, ErrReleased) {
					c.t.Fatalf("order %v: reenter of a released handle: %v", order, err)
				}
				wantErr(c.t, "second release", settled(c.t, "release", h.Release()), ErrReleased)
			}
			wantState(c.t, l, state.Retained, 1)
		}
		mustRelease(c.t, keep)
	})
}

func TestF075_TooManyHandles(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		setHandles(h.slot, h.gen, state.MaxDepth-1)
		last, err := h.Reenter()
		wantErr(c.t, "the last handle", err, nil)
		if h.Depth() != state.MaxDepth {
			c.t.Fatalf("depth %d", h.Depth())
		}
		_, err = h.Reenter()
		wantErr(c.t, "reenter", err, ErrTooManyHolders)
		_, err = l.Lock(ctx)
		wantErr(c.t, "lock", err, ErrTooManyHolders)
		n := strings.Count(fmt.Sprint(err), "holdfast: ")
		expect(c.t, n == 1, "the error says holdfast %d times: %v", n, err)
		expect(c.t, h.Depth() == state.MaxDepth && h.slot.word.Load().Generation() == h.gen,
			"a refusal has changed the word")
		setHandles(h.slot, h.gen, 2)
		mustRelease(c.t, last)
		mustRelease(c.t, h)
	})
}

func TestF060_TooManyHolders(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		set := func(holders int) {
			l.cur.Load().word.Apply(func(state.Word) (state.Word, state.Effect) {
				return state.Pack(state.Retained, holders), state.Nothing
			})
		}
		set(state.MaxHolders - 1)
		last := l.Acquire(c.t.Context())
		wantErr(c.t, "the last holder", last.Err(), nil)
		wantState(c.t, l, state.Retained, state.MaxHolders)

		refused := l.Acquire(c.t.Context())
		wantErr(c.t, "acquire", settled(c.t, "granted", refused.Granted()), ErrTooManyHolders)
		wantErr(c.t, "release of a refused hold", settled(c.t, "release", refused.Release()), ErrTooManyHolders)
		_, err := l.Lock(c.t.Context())
		wantErr(c.t, "lock", err, ErrTooManyHolders)
		_, err = l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrTooManyHolders)
		_, err = h.Share()
		wantErr(c.t, "share", err, ErrTooManyHolders)
		wantState(c.t, l, state.Retained, state.MaxHolders)

		// Another handle of the same holder is still possible.
		nested, err := h.Reenter()
		wantErr(c.t, "reenter", err, nil)
		nested.Release()

		last.Release()
		wantState(c.t, l, state.Retained, state.MaxHolders-1)
		set(1)
		mustRelease(c.t, h)
	})
}

// A check that races with the round's last release never takes it for a loss.
func TestCheckAtRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 300 {
			h := mustLock(c.t, l)
			var wg sync.WaitGroup
			for _, check := range []func() error{
				h.Err,
				func() error { _, err := h.Grant(); return err },
				func() error { n, err := h.Reenter(); n.Release(); return err },
				func() error { n, err := h.Share(); n.Release(); return err },
			} {
				wg.Go(func() {
					for {
						if err := check(); errors.Is(err, ErrReleased) {
							return
						} else if err != nil {
							c.t.Errorf("got %v of a hold that was released in order", err)
							return
						}
					}
				})
			}
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), nil)
			wg.Wait()
		}
	})
}

// If the loss precedes the release, the contexts say that the lock was lost,
// however soon the release follows.
func TestContextSaysLostBeforeReleased(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 50 {
			h := mustLock(c.t, l)
			ctx, cancel := h.Context(c.t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				<-h.Lost()
				h.Release()
			}()
			if err := c.srv.Delete(grantOf(c.t, h).Path); err != nil {
				c.t.Fatal(err)
			}
			<-done
			<-ctx.Done()
			wantErr(c.t, "cause", context.Cause(ctx), ErrLost)
			cancel()
			synctest.Wait()
		}
	})
}

// grantOf returns the grant of a hold that is held.
func grantOf(t *testing.T, h Hold) Grant {
	t.Helper()
	g, err := h.Grant()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Cancelled contexts of a long-lived hold leave nothing behind.
func TestContextsOfALongHold(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		churn := func(n int) {
			for range n {
				_, cancel := h.Context(c.t.Context())
				cancel()
			}
		}
		churn(1000)
		before := liveHeap()
		churn(20_000)
		grown := liveHeap() - before
		expect(c.t, grown <= 500_000, "20000 cancelled contexts left %d bytes behind", grown)
		mustRelease(c.t, h)
	})
}

// The methods that are documented not to block return at once, in every phase,
// even while the server does not answer and the pool's goroutines wait for it.
func TestNothingBlocks(t *testing.T) {
	for _, phase := range phases {
		subtest(t, phase.name, func(c *cluster) {
			s := &scene{cluster: c, a: c.lock("a"), b: c.lock("b")}
			phase.enter(s)
			hole := c.srv.Faults().BlackholeAll()
			start := time.Now()
			for range 3 * defaultWorkers {
				h := s.a.Acquire(c.t.Context())
				other := exclusive(c.t, s.a.m, fmt.Sprint(rand.Uint64())).Acquire(c.t.Context())
				for _, h := range []Hold{s.h, h, other} {
					if n, err := h.Reenter(); err == nil {
						n.Release()
					}
					if n, err := h.Share(); err == nil {
						_ = n.Leave()
					}
					_, _ = h.Grant()
					_, cancel := h.Context(c.t.Context())
					cancel()
					h.Err()
					h.Lost()
					h.Granted()
					h.Released()
					h.Depth()
				}
				other.Release()
				h.Release()
				s.a.State()
				s.a.Stats()
			}
			s.h.Release()
			wantEq(c.t, "it took", time.Since(start), 0)
			hole.Remove()
			if s.stop != nil {
				s.stop.goOn()
			}
			s.ahead.Release()
			waitUntil(c.t, "all is over", func() bool {
				p, _ := s.a.State()
				return p == state.Free && len(c.nodes()) == 0
			})
		})
	}
}

// A goroutine that Lost wakes learns the cause from Err, even if the goroutine
// that ended the round has not stored it yet.
func TestErrAfterLostSaysWhy(t *testing.T) {
	l := retained(t)
	h := l.Acquire(t.Context())
	r := l.cur.Load()
	setWord(l, state.Pack(state.Releasing, 0))
	expect(t, errors.Is(h.Err(), ErrLost), "before Lost: %v", h.Err())
	r.io().signals().lost.Settle(struct{}{}, r.error("hold", errLeaseEnded))
	<-h.Lost()
	expect(t, errors.Is(h.Err(), errLeaseEnded), "after Lost: %v, want %v", h.Err(), errLeaseEnded)
}

// Two handles of one holder are released at the same time. The one that is not the
// last must not hear that the lock was lost.
func TestTwoHandlesReleasedAtOnce(t *testing.T) {
	c := newCluster(t, zktest.Config{})
	l := c.lock("a")
	for range 50000 {
		r := newRound(l)
		r.io().tenure = &tenure{session: l.m.client.Session(), lease: l.m.client.Session().Lease()}
		r.word.Apply(func(state.Word) (state.Word, state.Effect) { return state.Pack(state.Retained, 1), state.Granted })
		r.io().events.Raise(state.FirstLookAsked)
		h := newHold(&r.share)
		nested, err := h.reenter("reenter")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, h := range []Hold{h, nested} {
			wg.Go(func() {
				if w, e, _ := h.giveUp(); e == state.Left && w.Phase() != state.Retained {
					t.Errorf("a handle of a held lock was released in %v: Unlock says %v", w, h.lostError("unlock"))
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}
