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
		x, other := c.mutex("a"), c.lock("b")
		wantErr(c.t, "set", x.SetLinger(always), nil)
		start := time.Now()
		var first Grant
		for turn := range uint64(3) {
			h := mustLockMutex(c.t, x)
			if turn == 0 {
				first = c.holder(h)
			}
			wantTurn(c.t, c.holder(h), first, turn+1)
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), nil)
			wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), nil)
			wantState(c.t, x.lock, state.Retained, 0)
		}
		wantErr(c.t, "do", x.Do(c.t.Context(), func(_ context.Context, h Hold) error { return h.Err() }), nil)
		h, err := x.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, nil)
		mustRelease(c.t, h)
		wantTook(c.t, start, 0, 0)
		theirs := c.acquire(other)
		c.held(theirs)
		waits := c.line(x, 2)
		c.waitingOnly(waits...)
		mustRelease(c.t, theirs)
		g := c.holder(waits[0])
		expect(c.t, g.Turn == 1 && g.Compare(first) > 0, "granted %v after %v", g, first)
		c.unlock(waits[0], waits[1])
		wantErr(c.t, "yield", wait(c.t, x.ReleaseIdle()), nil)
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The gate of an idle mutex closes just after a TryLock has entered. It does not wait then
// until the process has let others go first.
func TestMutexTryLockAsTheGateCloses(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a", withLinger(always))
		mustRelease(c.t, mustLockMutex(c.t, x))
		synctest.Wait()
		r := x.lock.cur.Load()
		wantState(c.t, x.lock, state.Retained, 0)

		// As TryLock does, but for the gate.
		try := newTurn(&x.turns)
		wantErr(c.t, "push", x.push(try, true), nil)
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
		wantErr(c.t, "trylock", errOf(x.tryTurn(c.t.Context(), h, host)), ErrYielding)
		wantErr(c.t, "its hold", h.Err(), ErrReleased)
		later(time.Second)
		wantErr(c.t, "yield", wait(c.t, x.ReleaseIdle()), nil)
		synctest.Wait()
		c.wantNodes(0)
	})
}
