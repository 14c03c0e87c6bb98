// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// When the last goroutine leaves a mutex that lingers, its release is done: it waits for
// nothing, and the next goroutine has the next turn of the same grant.
func TestMutexLingers(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x, other := c.mutex("a", withLinger(always)), c.lock("b")
		start := time.Now()
		var first Grant
		for turn := range uint64(3) {
			h := mustLockMutex(t, x)
			if turn == 0 {
				first = c.holder(h)
			}
			wantTurn(t, c.holder(h), first, turn+1)
			wantErr(t, "unlock", h.Unlock(t.Context()), nil)
			wantErr(t, "the release", settled(t, "the release", h.Released()), nil)
			wantState(t, x.lock, state.Retained, 0)
		}
		wantErr(t, "do", x.Do(t.Context(), func(_ context.Context, h Hold) error { return h.Err() }), nil)
		h, err := x.TryLock(t.Context())
		wantErr(t, "trylock", err, nil)
		mustRelease(t, h)
		if d := time.Since(start); d > 0 {
			t.Errorf("it took %v", d)
		}
		theirs := c.acquire(other)
		c.held(theirs)
		waits := c.line(x, 2)
		c.waitingOnly(waits...)
		mustRelease(t, theirs)
		if g := c.holder(waits[0]); g.Turn != 1 || g.Compare(first) <= 0 {
			t.Errorf("granted %v after %v", g, first)
		}
		mustRelease(t, waits[0])
		mustRelease(t, waits[1])
		wantErr(t, "yield", wait(t, x.ReleaseIdle()), nil)
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The gate of an idle mutex closes just after a TryLock has entered. It does not wait then
// until the process has let others go first.
func TestMutexTryLockAsTheGateCloses(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		x := c.mutex("a", withLinger(always))
		mustRelease(t, mustLockMutex(t, x))
		synctest.Wait()
		r := x.lock.cur.Load()
		wantState(t, x.lock, state.Retained, 0)

		// As TryLock does, but for the gate.
		try := newTurn(x)
		wantErr(t, "push", x.push(try, true), nil)
		h := newHold(&try.share)
		host := x.ask()
		x.exchange(host)
		r.flags.Set(state.GateClosed)
		c.srv.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if op != zktest.OpPing {
				<-time.After(time.Millisecond) // so that the next grant comes later than the look
			}
		})
		x.advance(nil)
		_, err := x.tryTurn(t.Context(), h, host)
		wantErr(t, "trylock", err, ErrYielding)
		wantErr(t, "its hold", h.Err(), ErrReleased)
		later(time.Second)
		wantErr(t, "yield", wait(t, x.ReleaseIdle()), nil)
		synctest.Wait()
		c.wantNodes(0)
	})
}
