// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
)

// wantGiveUp has l wait for d and give up.
func (c *cluster) wantGiveUp(l *Lock, d time.Duration) {
	c.t.Helper()
	wantErr(c.t, "the other process", errOf(l.Lock(withTimeout(c.t, d))), context.DeadlineExceeded)
}

// shut has a process hold the lock by a, and another one wait for it by b for so long that the
// gate is closed to newcomers of the first.
func (c *cluster) shut() (a, b *Lock, h, other Hold) {
	c.t.Helper()
	a, b = c.lock("a"), c.lock("b")
	h, other = mustLock(c.t, a), b.Acquire(c.t.Context())
	later(time.Second)
	if !roundOf(h).gateClosed() {
		c.t.Fatal("the gate is open")
	}
	return a, b, h, other
}

// A contender that gave up leaves no trace: newcomers of the holder's process enter again,
// those who wait already, and those who come later.
func TestF271_GateOpensAgain(t *testing.T) {
	waits := []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, time.Second}
	eachOf(t, waits, func(c *cluster, wait time.Duration) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		var early sync.WaitGroup
		early.Go(func() {
			<-time.After(wait - time.Millisecond) // behind the gate, if it has closed
			begun := time.Now()
			n, err := a.Lock(c.t.Context())
			wantErr(c.t, "a newcomer while the other process waits", err, nil)
			wantTook(c.t, begun, 0, defaultTenure+time.Millisecond)
			mustRelease(c.t, n)
		})
		c.wantGiveUp(b, wait)
		early.Wait()
		n, err := a.TryLock(c.t.Context())
		wantErr(c.t, "a newcomer's trylock", err, nil)
		later(10 * time.Minute)
		wantErr(c.t, "the newcomer's hold", n.Err(), nil)
		c.wantNodes(1) // for all holders
		c.unlock(n, h)
		c.unlock(mustLock(c.t, b))
	})
}

// A process holds the lock for ten minutes, and another one asks for it every second, with
// patience for 300 ms. Newcomers wait no longer than a contender is there, and a tenure. A
// contender that stays still gets the lock when its holders have left, however many
// newcomers there are.
func TestF271_ProbedForTenMinutes(t *testing.T) {
	bubble(t, func(c *cluster) {
		seconds := max(racing.Fewer(600), 60)
		a, b, d := c.lock("a"), c.lock("b"), c.lock("d")
		h := mustLock(c.t, a)
		stop := make(chan struct{})
		var goers sync.WaitGroup
		goers.Go(func() {
			for !isClosed(stop) {
				c.wantGiveUp(b, 300*time.Millisecond)
				<-time.After(700 * time.Millisecond)
			}
		})
		entered := 0
		goers.Go(func() {
			for {
				begun := time.Now()
				n, err := a.Lock(c.t.Context())
				wantErr(c.t, "a newcomer", err, nil)
				if isClosed(stop) {
					mustRelease(c.t, n)
					return
				}
				wantTook(c.t, begun, 0, 300*time.Millisecond)
				entered++
				<-time.After(37 * time.Millisecond)
				mustRelease(c.t, n)
			}
		})
		later(time.Duration(seconds) * time.Second)
		expect(c.t, entered >= seconds*13, "%d newcomers entered in %d seconds", entered, seconds)
		close(stop)
		stays := c.acquire(d)
		later(time.Second)
		mustRelease(c.t, h)
		c.held(stays)
		mustRelease(c.t, stays)
		goers.Wait()
	})
}

// The holders overlap for ever, and one contender stays behind many that give up. It has
// the lock soon after it is the first of them.
func TestF271_StayingContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, stays := c.lock("a"), c.lock("d")
		over := make(chan struct{})
		var goers sync.WaitGroup
		for i := range 3 {
			goers.Go(func() {
				<-time.After(time.Duration(i) * 10 * time.Millisecond)
				for !isClosed(over) {
					n, err := a.Lock(c.t.Context())
					wantErr(c.t, "a newcomer", err, nil)
					<-time.After(30 * time.Millisecond)
					mustRelease(c.t, n)
				}
			})
		}
		later(5 * time.Millisecond)
		var probers []Hold
		for i := range 5 { // they are ahead of the one that stays
			b := c.lock(fmt.Sprint("b", i))
			ctx := withTimeout(c.t, time.Duration(20*(i+1))*time.Millisecond)
			probers = append(probers, b.Acquire(ctx))
		}
		begun := time.Now()
		h, err := stays.Lock(withTimeout(c.t, time.Minute))
		wantErr(c.t, "the contender that stays", err, nil)
		wantTook(c.t, begun, 0, 5*defaultTenure)
		for _, p := range probers {
			p.Release()
		}
		close(over)
		mustRelease(c.t, h)
		goers.Wait()
	})
}

// A caller that waits in the next round while the gate opens is a holder like any other, by
// whatever it had before.
func TestF271_LetIn(t *testing.T) {
	type waits struct {
		h                                  Hold
		lost, contended, revoked, released <-chan struct{}
		ctx                                context.Context
	}
	each(t, map[string]func(c *cluster, b *Lock, h Hold, w waits){
		"released last": func(c *cluster, b *Lock, h Hold, w waits) {
			mustRelease(c.t, h)
			later(time.Second)
			wantErr(c.t, "the hold that is left", w.h.Err(), nil)
			expect(c.t, !isClosed(w.released), "released before its holder left")
			c.unlock(w.h)
			later(time.Second)
			expect(c.t, isClosed(w.released) && isClosed(w.ctx.Done()),
				"the holder has left, and its release or its context does not say so")
			wantErr(c.t, "a second release", w.h.Unlock(c.t.Context()), ErrReleased)
			c.cycle(b)
		},
		"released first": func(c *cluster, b *Lock, h Hold, w waits) {
			c.unlock(w.h)
			wantErr(c.t, "the hold that is left", h.Err(), nil)
			c.unlock(h)
			later(time.Second)
			expect(c.t, isClosed(w.released), "the node is gone, and the release is pending")
			c.cycle(b)
		},
		"shared": func(c *cluster, _ *Lock, h Hold, w waits) {
			s, err := w.h.Share()
			wantErr(c.t, "share", err, nil)
			inner, err := s.Lock().Lock(w.ctx)
			wantErr(c.t, "a lock with its context", err, nil)
			expect(c.t, inner.Depth() == 2, "depth %d, want 2: it has to reenter", inner.Depth())
			inner.Release()
			c.unlock(h, w.h)
			wantErr(c.t, "the shared hold", s.Err(), nil)
			c.unlock(s)
			c.wantNodes(0)
		},
		"lost": func(c *cluster, _ *Lock, h Hold, w waits) {
			c.srv.Delete(dir + "/" + c.nodes()[0])
			later(time.Second)
			wantErr(c.t, "the hold", w.h.Err(), ErrLost)
			expect(c.t, isClosed(w.lost) && isClosed(w.h.Lost()) && isClosed(w.ctx.Done()),
				"its loss was not told")
			wantErr(c.t, "the context's cause", context.Cause(w.ctx), ErrLost)
			wantErr(c.t, "unlock", w.h.Unlock(c.t.Context()), ErrLost)
			h.Release()
		},
		"contended and revoked": func(c *cluster, b *Lock, h Hold, w waits) {
			expect(c.t, isClosed(w.contended), "a contender was seen, and it was not told")
			expect(c.t, !isClosed(w.revoked), "revoked by nothing")
			err := b.Revoke(withTimeout(c.t, time.Second), "make room")
			wantErr(c.t, "revoke", err, context.DeadlineExceeded)
			wantEq(c.t, "the reason", c.wantRevoked(w.h).Reason, "make room")
			expect(c.t, isClosed(w.revoked), "the channel of before is open")
			c.unlock(w.h, h)
		},
	}, func(c *cluster, test func(c *cluster, b *Lock, h Hold, w waits)) {
		a, b, h, other := c.shut()
		w := waits{h: a.Acquire(c.t.Context())}
		wantErr(c.t, "a newcomer behind the gate", w.h.Err(), ErrNotGranted)
		w.lost, w.contended, w.revoked, w.released = w.h.Lost(), w.h.Contended(), w.h.Revoked(), w.h.Released().Done()
		w.ctx, _ = w.h.Context(c.t.Context())
		nested, err := w.h.Reenter()
		wantErr(c.t, "reenter", err, nil)
		other.Release()
		later(time.Second)
		c.held(w.h, nested)
		wantEq(c.t, "the grant", grantOf(c.t, w.h), grantOf(c.t, h))
		wantState(c.t, a, state.Retained, 2)
		nested.Release()
		test(c, b, h, w)
	})
}

// Those who waited behind the gate and gave up leave nothing, whether they did so before it
// opened or after.
func TestF271_WaitersGiveUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, h, other := c.shut()
		w := a.Acquire(c.t.Context())
		w.Release()
		other.Release()
		later(time.Second)
		err := settled(c.t, "the release of the one that gave up", w.Released())
		expect(c.t, errors.Is(err, ErrNotGranted) || errors.Is(err, ErrReleased),
			"the release of the one that gave up: %v", err)
		n, err := a.TryLock(c.t.Context())
		wantErr(c.t, "a newcomer", err, nil)
		c.unlock(h, n)
		c.cycle(b)
	})
}

// A newcomer finds the gate closed, and it opens before the newcomer has begun to wait: it
// asks to be let in. So does one that comes by way of a round that was let in before.
func TestF272_NewcomerComesAsTheGateOpens(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		for range 2 {
			next := roundOf(h).following() // it was sent there
			r, e, _ := next.arrive(false)
			if r != next || e != state.Started {
				c.t.Fatalf("arrived at %p: %v, want the first of %p", r, e, next)
			}
			later(time.Second)
			n := newHold(&next.share)
			wantErr(c.t, "the newcomer", n.Err(), nil)
			if r, e, _ := next.arrive(false); r != roundOf(h) || e != state.Entered {
				c.t.Errorf("the next one: %v at %p, want entered at %p", e, r, roundOf(h))
			}
			h.share.leave()
			c.unlock(n)
		}
		c.unlock(h)
	})
}

// The gate of a read lock closes for a writer of its own process, and opens when that gives
// up.
func TestF273_OwnWriterGivesUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		m.looks.next.Store(int64(time.Hour)) // no look of its own comes to help
		rw := readWrite(c.t, m, "pair")
		h := mustLock(c.t, rw.Reader())
		later(time.Second)
		w := rw.Writer().Acquire(c.t.Context())
		later(time.Second)
		ioOf(h).wake() // whatever wakes it
		r := c.acquire(rw.Reader())
		wantErr(c.t, "a reader behind the own writer", r.Err(), ErrNotGranted)
		w.Release()
		later(time.Millisecond)
		c.held(r)
		n, err := rw.Reader().TryLock(c.t.Context())
		wantErr(c.t, "another reader", err, nil)
		// Another writer closes it again.
		w = rw.Writer().Acquire(c.t.Context())
		later(time.Second)
		_, err = rw.Reader().TryLock(c.t.Context())
		wantErr(c.t, "a reader behind the next own writer", err, ErrYielding)
		for _, h := range []Hold{h, r, n} {
			mustRelease(c.t, h)
		}
		c.held(w)
		c.unlock(w)
	})
}

// The gate closes for a process that revokes the lock, and opens when that does not wait any
// longer.
func TestF274_RevokerGivesUp(t *testing.T) {
	eachOf(t, []string{"another process", "a process that ends", "this process"}, func(c *cluster, by string) {
		a, b := c.lock("a"), c.lock("b")
		revoker := b
		if by == "this process" {
			revoker = a
		}
		h := mustLock(c.t, a)
		over := c.revoking(revoker, "make room", 10*time.Second)
		later(5 * time.Second)
		wantErr(c.t, "a newcomer while the revoker waits", errOf(a.TryLock(c.t.Context())), ErrYielding)
		n := a.Acquire(c.t.Context())
		if by == "a process that ends" {
			wantErr(c.t, "close", b.m.Close(), nil)
		}
		expect(c.t, <-over != nil, "revoked, and the lock is held")
		later(time.Second)
		c.held(n)
		c.wantRevoked(n)
		c.unlock(n, h)
	})
}

// A step has found no reason to leave the gate closed, and a reason comes before it has opened
// it: the gate stays closed, so no newcomer enters beside holders that know of the reason.
func TestF274_ClosedAgainAsItOpens(t *testing.T) {
	each(t, map[string]func(*roundIO){
		"revoked":                   func(r *roundIO) { r.incumbent().revoke(Revocation{Reason: "make room"}) },
		"closed by another routine": func(r *roundIO) { r.round.closeGate() },
	}, func(c *cluster, shut func(*roundIO)) {
		h := mustLock(c.t, c.lock("a"))
		flags := &h.share.flags
		flags.Set(state.GateClosed | state.GateOpening)
		shut(ioOf(h))
		expect(c.t, !flags.ClearIf(state.GateClosed|state.GateOpening), "the gate opens")
		expect(c.t, roundOf(h).gateClosed(), "the gate is open")
		mustRelease(c.t, h)
	})
}

// A step has found the gate open, and the lock is revoked before the step lets in those who wait
// behind the gate. They have come since then, and stay there until the process that revokes has
// left.
func TestF274_ClosedAsTheyAreLetIn(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		r := ioOf(h).incumbent().revoke(Revocation{Reason: "make room"})
		newcomer := a.Acquire(c.t.Context())
		roundOf(h).admitNext()
		pending(c.t, "a newcomer", newcomer.Granted())
		wantState(c.t, a, state.Retained, 1)
		ioOf(h).incumbent().revokerLeft(r)
		wantErr(c.t, "then", wait(c.t, newcomer.Granted()), nil)
		c.unlock(newcomer, h)
	})
}

// The rounds of a lock are ranged over once each, even if the next one is merged into the
// present one meanwhile.
func TestF271_RoundsInOrder(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, _, h, other := c.shut()
		w := a.Acquire(c.t.Context())
		c.waiting(w)
		var seen []*round
		for r := range a.own().live() {
			if seen = append(seen, r); len(seen) == 2 {
				other.Release()
				later(time.Second)
				c.held(w)
			}
		}
		expect(c.t, len(seen) == 2 && seen[0] == roundOf(h) && seen[1] == roundOf(w),
			"ranged over %v, want %v", seen, []*round{roundOf(h), roundOf(w)})
		wantEq(c.t, "what a hold of the merged round keeps alive", roundOf(w).next.Load(), passed)
		c.unlock(w)
		mustRelease(c.t, h)
	})
}

// A caller that waited behind the gate and keeps nothing but the channel of the release hears
// of it, although its round was merged and is garbage.
func TestF271_ReleasedChannelOutlivesTheRound(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, _, h, other := c.shut()
		released := func() <-chan struct{} {
			w := a.Acquire(c.t.Context())
			c.waiting(w)
			done := w.Released().Done()
			other.Release()
			later(time.Second)
			c.held(w)
			w.Release()
			return done
		}()
		runtime.GC()
		runtime.GC()
		mustRelease(c.t, h)
		later(time.Second)
		expect(c.t, isClosed(released), "the lock was released, and the channel is open")
	})
}

// The lock is lost as a step lets in those who wait behind the gate. If it sees that before it
// merges their round, they stay, and queue again; if not, they are told of the loss.
func TestF338_LostAsTheyAreLetIn(t *testing.T) {
	either(t, func(c *cluster, seen bool) {
		a, _, h, other := c.shut()
		waits := a.Acquire(c.t.Context())
		c.waiting(waits)
		r, n := roundOf(h), roundOf(waits)
		stop := c.stopBefore(a.m, deleteNode) // steps of r do nothing meanwhile
		r.flags.Clear(state.GateClosed)
		if !r.letIn(2) { // as admitNext, for itself and the one that waits
			c.t.Fatal("not let in")
		}
		n.io().signals().merged.Store(&mergers{into: &r.share})
		after := n.following()
		if seen {
			r.fail(r.lost("hold", nodeGone))
			e, shut := r.mergeNext(n, n.word.Load())
			expect(c.t, e == state.Nothing && shut, "merged into a round that is lost: %v, %t", e, shut)
			c.waiting(waits)
		} else {
			if e, _ := r.mergeNext(n, n.word.Load()); e != state.Merged {
				c.t.Fatal(e)
			}
			r.fail(r.lost("hold", nodeGone))
			r.next.Store(after)
			n.next.Store(passed)
			r.io().merged(n.io(), true)
			_, err, _ := waits.Granted().Poll()
			wantErr(c.t, "the grant", err, ErrLost)
		}
		r.leave()
		stop.reached()
		stop.goOn()
		h.Release()
		c.held(other)
		c.unlock(other)
		if seen {
			c.held(waits)
		}
		waits.Release()
		later(time.Second)
		c.wantNodes(0)
	})
}
