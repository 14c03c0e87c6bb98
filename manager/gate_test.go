// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/state"
)

// within returns a context that ends after d.
func (c *cluster) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

// wantGiveUp has l wait for d and give up.
func (c *cluster) wantGiveUp(l *Lock, d time.Duration) {
	c.t.Helper()
	_, err := l.Lock(c.within(d))
	wantErr(c.t, "the other process", err, context.DeadlineExceeded)
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
	for _, wait := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a"), c.lock("b")
				h := mustLock(c.t, a)
				early := make(chan time.Duration)
				go func() {
					<-time.After(wait - time.Millisecond) // behind the gate, if it has closed
					begun := time.Now()
					n, err := a.Lock(c.t.Context())
					wantErr(c.t, "a newcomer while the other process waits", err, nil)
					early <- time.Since(begun)
					mustRelease(c.t, n)
				}()
				c.wantGiveUp(b, wait)
				if d := <-early; d > defaultTenure+time.Millisecond {
					c.t.Errorf("a newcomer waited %v for a contender that gave up", d)
				}
				n, err := a.TryLock(c.t.Context())
				wantErr(c.t, "a newcomer's trylock", err, nil)
				later(10 * time.Minute)
				wantErr(c.t, "the newcomer's hold", n.Err(), nil)
				if got := len(c.nodes()); got != 1 {
					c.t.Errorf("%d nodes, want one for all holders", got)
				}
				c.unlock(n)
				mustRelease(c.t, h)
				c.unlock(mustLock(c.t, b))
			})
		})
	}
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
		done := make(chan struct{}, 2)
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := b.Lock(c.within(300 * time.Millisecond))
				wantErr(c.t, "the prober", err, context.DeadlineExceeded)
				<-time.After(700 * time.Millisecond)
			}
		}()
		var entered int
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				begun := time.Now()
				n, err := a.Lock(c.t.Context())
				wantErr(c.t, "a newcomer", err, nil)
				select {
				case <-stop:
					mustRelease(c.t, n)
					return
				default:
				}
				if w := time.Since(begun); w > 300*time.Millisecond {
					c.t.Errorf("a newcomer waited %v", w)
				}
				entered++
				<-time.After(37 * time.Millisecond)
				mustRelease(c.t, n)
			}
		}()
		later(time.Duration(seconds) * time.Second)
		if entered < seconds*13 {
			c.t.Errorf("%d newcomers entered in %d seconds", entered, seconds)
		}
		close(stop)
		stays := c.acquire(d)
		later(time.Second)
		mustRelease(c.t, h)
		c.held(stays)
		mustRelease(c.t, stays)
		<-done
		<-done
	})
}

// The holders overlap for ever, and one contender stays behind many that give up. It has
// the lock soon after it is the first of them.
func TestF271_StayingContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, stays := c.lock("a"), c.lock("d")
		over := make(chan struct{})
		running := make(chan struct{})
		for i := range 3 {
			go func() {
				if i > 0 {
					<-time.After(time.Duration(i) * 10 * time.Millisecond)
				}
				for {
					select {
					case <-over:
						running <- struct{}{}
						return
					default:
					}
					n, err := a.Lock(c.t.Context())
					wantErr(c.t, "a newcomer", err, nil)
					<-time.After(30 * time.Millisecond)
					mustRelease(c.t, n)
				}
			}()
		}
		later(5 * time.Millisecond)
		var probers []Hold
		for i := range 5 { // they are ahead of the one that stays
			b := c.lock(fmt.Sprint("b", i))
			ctx := c.within(time.Duration(20*(i+1)) * time.Millisecond)
			probers = append(probers, b.Acquire(ctx))
		}
		begun := time.Now()
		h, err := stays.Lock(c.within(time.Minute))
		wantErr(c.t, "the contender that stays", err, nil)
		if d := time.Since(begun); d > 5*defaultTenure {
			c.t.Errorf("it waited %v", d)
		}
		for _, p := range probers {
			p.Release()
		}
		close(over)
		mustRelease(c.t, h)
		for range 3 {
			<-running
		}
	})
}

// A caller that waits in the next round while the gate opens is a holder like any other, by
// whatever it had before.
func TestF271_LetIn(t *testing.T) {
	type waits struct {
		h         Hold
		lost      <-chan struct{}
		contended <-chan struct{}
		revoked   <-chan struct{}
		released  interface{ Done() <-chan struct{} }
		ctx       context.Context
	}
	letIn := func(c *cluster) (a, b *Lock, h Hold, w waits) {
		a, b, h, other := c.shut()
		w.h = a.Acquire(c.t.Context())
		wantErr(c.t, "a newcomer behind the gate", w.h.Err(), ErrNotGranted)
		w.lost, w.contended, w.revoked, w.released = w.h.Lost(), w.h.Contended(), w.h.Revoked(), w.h.Released()
		w.ctx, _ = w.h.Context(c.t.Context())
		nested, err := w.h.Reenter()
		wantErr(c.t, "reenter", err, nil)
		other.Release()
		later(time.Second)
		c.held(w.h)
		wantErr(c.t, "the nested handle", nested.Err(), nil)
		want, err := h.Grant()
		wantErr(c.t, "grant", err, nil)
		if got, err := w.h.Grant(); got != want || err != nil {
			c.t.Errorf("granted %+v, %v, want %+v", got, err, want)
		}
		if _, n := a.State(); n != 2 {
			c.t.Errorf("%d holders, want 2", n)
		}
		nested.Release()
		return a, b, h, w
	}
	for name, test := range map[string]func(*cluster){
		"released last": func(c *cluster) {
			_, b, h, w := letIn(c)
			mustRelease(c.t, h)
			later(time.Second)
			wantErr(c.t, "the hold that is left", w.h.Err(), nil)
			if isClosed(w.released.Done()) {
				c.t.Error("released before its holder left")
			}
			c.unlock(w.h)
			later(time.Second)
			if !isClosed(w.released.Done()) || !isClosed(w.ctx.Done()) {
				c.t.Error("the holder has left, and its release or its context does not say so")
			}
			wantErr(c.t, "a second release", w.h.Unlock(c.t.Context()), ErrReleased)
			c.unlock(mustLock(c.t, b))
		},
		"released first": func(c *cluster) {
			_, b, h, w := letIn(c)
			c.unlock(w.h)
			wantErr(c.t, "the hold that is left", h.Err(), nil)
			c.unlock(h)
			later(time.Second)
			if !isClosed(w.released.Done()) {
				c.t.Error("the node is gone, and the release is pending")
			}
			c.unlock(mustLock(c.t, b))
		},
		"shared": func(c *cluster) {
			_, _, h, w := letIn(c)
			s, err := w.h.Share()
			wantErr(c.t, "share", err, nil)
			inner, err := s.Lock().Lock(w.ctx)
			wantErr(c.t, "a lock with its context", err, nil)
			if inner.Depth() != 2 {
				c.t.Errorf("depth %d, want 2: it has to reenter", inner.Depth())
			}
			inner.Release()
			c.unlock(h)
			c.unlock(w.h)
			wantErr(c.t, "the shared hold", s.Err(), nil)
			c.unlock(s)
			if n := len(c.nodes()); n != 0 {
				c.t.Errorf("%d nodes are left", n)
			}
		},
		"lost": func(c *cluster) {
			_, _, h, w := letIn(c)
			c.srv.Delete(dir + "/" + c.nodes()[0])
			later(time.Second)
			wantErr(c.t, "the hold", w.h.Err(), ErrLost)
			if !isClosed(w.lost) || !isClosed(w.h.Lost()) || !isClosed(w.ctx.Done()) {
				c.t.Error("its loss was not told")
			}
			wantErr(c.t, "the context's cause", context.Cause(w.ctx), ErrLost)
			wantErr(c.t, "unlock", w.h.Unlock(c.t.Context()), ErrLost)
			h.Release()
		},
		"contended and revoked": func(c *cluster) {
			_, b, h, w := letIn(c)
			if !isClosed(w.contended) {
				c.t.Error("a contender was seen, and it was not told")
			}
			if isClosed(w.revoked) {
				c.t.Error("revoked by nothing")
			}
			err := b.Revoke(c.within(time.Second), "make room")
			wantErr(c.t, "revoke", err, context.DeadlineExceeded)
			if r, ok := w.h.Revocation(); !ok || r.Reason != "make room" || !isClosed(w.revoked) {
				c.t.Errorf("revocation %+v, %t; the channel is closed: %t", r, ok, isClosed(w.revoked))
			}
			c.unlock(w.h)
			c.unlock(h)
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, test) })
	}
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
		if _, err, ok := w.Released().Poll(); !ok || !errors.Is(err, ErrNotGranted) && !errors.Is(err, ErrReleased) {
			c.t.Errorf("the release of the one that gave up: %v, settled %t", err, ok)
		}
		n, err := a.TryLock(c.t.Context())
		wantErr(c.t, "a newcomer", err, nil)
		c.unlock(h)
		c.unlock(n)
		c.unlock(mustLock(c.t, b))
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
	for _, by := range []string{"another process", "a process that ends", "this process"} {
		t.Run(by, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				m := c.open("b")
				a, b := c.lock("a"), exclusive(c.t, m, "jobs")
				if by == "this process" {
					b = a
				}
				h := mustLock(c.t, a)
				over := make(chan error)
				go func() { over <- b.Revoke(c.within(10*time.Second), "make room") }()
				later(5 * time.Second)
				_, err := a.TryLock(c.t.Context())
				wantErr(c.t, "a newcomer while the revoker waits", err, ErrYielding)
				n := a.Acquire(c.t.Context())
				if by == "a process that ends" {
					go func() { wantErr(c.t, "close", m.Close(), nil) }()
				}
				if err := <-over; err == nil {
					c.t.Error("revoked, and the lock is held")
				}
				later(time.Second)
				c.held(n)
				if _, revoked := n.Revocation(); !revoked {
					c.t.Error("it holds a revoked lock, and does not know")
				}
				c.unlock(n)
				c.unlock(h)
			})
		})
	}
}

// A step has found no reason to leave the gate closed, and a reason comes before it has opened
// it: the gate stays closed, so no newcomer enters beside holders that know of the reason.
func TestF274_ClosedAgainAsItOpens(t *testing.T) {
	for name, shut := range map[string]func(*roundIO){
		"revoked":                   func(r *roundIO) { r.incumbent().revoke(Revocation{Reason: "make room"}) },
		"closed by another routine": func(r *roundIO) { r.round.closeGate() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				h := mustLock(c.t, c.lock("a"))
				flags := &h.share.flags
				flags.Set(state.GateClosed | state.GateOpening)
				shut(ioOf(h))
				if flags.ClearIf(state.GateClosed | state.GateOpening) {
					c.t.Error("the gate opens")
				}
				if !roundOf(h).gateClosed() {
					c.t.Error("the gate is open")
				}
				mustRelease(c.t, h)
			})
		})
	}
}

// A step has found the gate open, and the lock is revoked before the step lets in those who wait
// behind the gate. They have come since then, and stay there until the process that revokes has
// left.
func TestF274_ClosedAsTheyAreLetIn(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		ioOf(h).incumbent().revoke(Revocation{Reason: "make room"})
		newcomer := a.Acquire(c.t.Context())
		roundOf(h).admitNext()
		if _, _, entered := newcomer.Granted().Poll(); entered {
			c.t.Error("a newcomer enters")
		}
		if _, n := a.State(); n != 1 {
			c.t.Errorf("%d holders, want 1", n)
		}
		ioOf(h).incumbent().revokerLeft()
		if _, err := newcomer.Granted().Wait(c.t.Context()); err != nil {
			c.t.Error(err)
		}
		mustRelease(c.t, newcomer)
		mustRelease(c.t, h)
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
		if len(seen) != 2 || seen[0] != roundOf(h) || seen[1] != roundOf(w) {
			c.t.Errorf("ranged over %v, want %v", seen, []*round{roundOf(h), roundOf(w)})
		}
		if n := roundOf(w).next.Load(); n != passed {
			c.t.Errorf("a hold of the round that was merged keeps %v alive", n)
		}
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
		select {
		case <-released:
		default:
			c.t.Error("the lock was released, and the channel is open")
		}
	})
}

// The lock is lost as a step lets in those who wait behind the gate. If it sees that before it
// merges their round, they stay, and queue again; if not, they are told of the loss.
func TestF338_LostAsTheyAreLetIn(t *testing.T) {
	for _, seen := range []bool{true, false} {
		bubble(t, func(c *cluster) {
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
				if e, shut := r.mergeNext(n, n.word.Load()); e != state.Nothing || !shut {
					c.t.Errorf("merged into a round that is lost: %v, %t", e, shut)
				}
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
}
