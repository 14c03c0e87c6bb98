// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/state"
)

// Do releases the lock if the function panics or calls runtime.Goexit.
func TestF080_DoThatDoesNotReturn(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		func() {
			defer func() {
				wantEq(c.t, "recovered", recover(), "panic")
			}()
			err := l.Do(c.t.Context(), func(context.Context, Hold) error { panic("panic") })
			c.t.Errorf("it returned %v", err)
		}()
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)

		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = l.Do(c.t.Context(), func(context.Context, Hold) error { runtime.Goexit(); return nil })
			c.t.Error("it returned")
		}()
		<-done
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)
		c.wantNodes(0)
	})
}

// TryDo runs its function only if no other process is ahead.
func TestTryDo(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		ran := 0
		work := func(ctx context.Context, h Hold) error {
			ran++
			wantErr(c.t, "inside", h.Err(), nil)
			return a.TryDo(ctx, func(context.Context, Hold) error { ran++; return context.Canceled }) // reenters
		}
		wantErr(c.t, "free", a.TryDo(c.t.Context(), work), context.Canceled)
		synctest.Wait()
		wantState(c.t, a, state.Free, 0)
		h := mustLock(c.t, b)
		wantErr(c.t, "locked", a.TryDo(c.t.Context(), work), ErrLocked)
		expect(c.t, ran == 2, "%d functions ran, want 2", ran)
		mustRelease(c.t, h)
		synctest.Wait()
		c.wantNodes(0)
	})
}
