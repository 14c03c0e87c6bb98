// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

func TestDo(t *testing.T) {
	errWork := errors.New("work failed")
	type env struct {
		*cluster
		l      *Lock
		cancel context.CancelCauseFunc
	}
	for _, test := range []struct {
		what string
		fn   func(e env, ctx context.Context, h Hold) error
		want []error // none: nil
		not  []error
	}{
		{"works", func(e env, ctx context.Context, h Hold) error {
			wantErr(e.t, "inside", h.Err(), nil)
			wantErr(e.t, "inside", ctx.Err(), nil)
			wantState(e.t, e.l, state.Retained, 1)
			return nil
		}, nil, nil},
		{"fails", func(env, context.Context, Hold) error { return errWork }, []error{errWork}, []error{ErrLost}},
		{"loses the lock", func(e env, ctx context.Context, h Hold) error {
			e.srv.ExpireSession(session(e.l.m))
			<-ctx.Done()
			return nil
		}, []error{ErrLost}, nil},
		{"loses the lock and fails", func(e env, ctx context.Context, h Hold) error {
			e.srv.ExpireSession(session(e.l.m))
			<-ctx.Done()
			return errWork
		}, []error{ErrLost, errWork}, nil},
		{"loses the lock and says so itself", func(e env, ctx context.Context, h Hold) error {
			e.srv.ExpireSession(session(e.l.m))
			<-ctx.Done()
			return context.Cause(ctx)
		}, []error{ErrLost}, nil},
		{"releases the lock itself", func(e env, ctx context.Context, h Hold) error {
			mustRelease(e.t, h)
			wantErr(e.t, "the context", context.Cause(ctx), ErrReleased)
			return nil
		}, nil, nil},
		{"its context ends", func(e env, ctx context.Context, h Hold) error {
			e.cancel(errGaveUp)
			<-ctx.Done()
			wantErr(e.t, "the context", context.Cause(ctx), errGaveUp)
			wantErr(e.t, "the hold", h.Err(), nil)
			return nil
		}, nil, nil},
		{"its context ends and it says so", func(e env, ctx context.Context, h Hold) error {
			e.cancel(errGaveUp)
			<-ctx.Done()
			return context.Cause(ctx)
		}, []error{errGaveUp}, []error{ErrLost}},
		{"does it again inside", func(e env, ctx context.Context, h Hold) error {
			return e.l.Do(ctx, func(ctx context.Context, inner Hold) error {
				if inner.Depth() != 2 {
					e.t.Errorf("depth %d", inner.Depth())
				}
				return errWork
			})
		}, []error{errWork}, nil},
		{"closes the manager", func(e env, ctx context.Context, h Hold) error {
			if err := e.l.m.Close(); err != nil {
				e.t.Error(err)
			}
			synctest.Wait()
			wantErr(e.t, "the context", context.Cause(ctx), ErrClosed)
			return nil
		}, []error{ErrClosed}, nil},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a")
				ctx, cancel := context.WithCancelCause(c.t.Context())
				defer cancel(nil)
				var inside Hold
				var insideCtx context.Context
				err := l.Do(ctx, func(ctx context.Context, h Hold) error {
					inside, insideCtx = h, ctx
					return test.fn(env{c, l, cancel}, ctx, h)
				})
				if len(test.want) == 0 {
					wantErr(c.t, "do", err, nil)
				}
				for _, want := range test.want {
					wantErr(c.t, "do", err, want)
				}
				for _, not := range test.not {
					if errors.Is(err, not) {
						c.t.Errorf("do: %v", err)
					}
				}
				if insideCtx.Err() == nil {
					c.t.Error("the context lives on")
				}
				wantErr(c.t, "the hold", inside.Err(), ErrReleased)
				waitUntil(c.t, "the lock is free", func() bool { p, _ := l.State(); return p == state.Free })
				c.wantNodes(0)
			})
		})
	}
}

// The lock is released if the function does not return.
func TestF080_DoThatDoesNotReturn(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		func() {
			defer func() {
				if p := recover(); p != "panic" {
					c.t.Errorf("recovered %v", p)
				}
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

// Do returns when the next process can have the lock, or when its context ends.
func TestDoWaitsForTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		stop := c.stopBefore(l.m, deleteNode)
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- l.Do(ctx, func(context.Context, Hold) error { return nil }) }()
		stop.reached()
		wantErr(c.t, "do", <-done, nil) // the work was done; nobody waits to hear of the end
		if d := time.Since(start); d != time.Second {
			c.t.Errorf("it took %v", d)
		}
		stop.goOn()
		wantState(c.t, l, state.Free, 0)
	})
}

// What Release, Unlock and Released answer at an ordinary end.
func TestReleaseAndUnlock(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")

		// While others hold: Release is pending, Unlock returns nil at once.
		first, second, third := mustLock(c.t, a), mustLock(c.t, a), mustLock(c.t, a)
		watched := first.Released()
		end := first.Release()
		pending(c.t, "release of one of three", end)
		stop := c.stopBefore(a.m, deleteNode)
		wantErr(c.t, "unlock of one of two", second.Unlock(c.t.Context()), nil)

		// The last one: Unlock waits until the node is gone.
		done := make(chan error, 1)
		go func() { done <- third.Unlock(c.t.Context()) }()
		stop.reached()
		pending(c.t, "release", end)
		select {
		case err := <-done:
			c.t.Errorf("unlock returned before the node was gone: %v", err)
		default:
		}
		if err := third.Unlock(c.t.Context()); !errors.Is(err, ErrReleased) {
			c.t.Errorf("second unlock: %v", err)
		}
		stop.goOn()
		wantErr(c.t, "unlock", <-done, nil)
		wantErr(c.t, "release", settled(c.t, "release", end), nil)
		if watched != end {
			c.t.Error("Released and Release answer differently")
		}
		c.wantNodes(0)

		// Unlock given up: the hold is released all the same.
		h := mustLock(c.t, a)
		stop = c.stopBefore(a.m, deleteNode)
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		wantErr(c.t, "unlock", h.Unlock(ctx), errGaveUp)
		wantErr(c.t, "the hold", h.Err(), ErrReleased)
		pending(c.t, "release", h.Released())
		stop.goOn()
		wantErr(c.t, "release", settled(c.t, "release", h.Released()), nil)

		// Never granted.
		stranger := mustLock(c.t, b)
		p, q := a.Acquire(c.t.Context()), a.Acquire(c.t.Context())
		synctest.Wait()
		wantErr(c.t, "unlock of a pending hold", p.Unlock(c.t.Context()), ErrNotGranted)
		pending(c.t, "the round's end", p.Released())
		end = q.Release()
		synctest.Wait()
		wantErr(c.t, "release of the last pending hold", settled(c.t, "release", end), ErrNotGranted)
		wantErr(c.t, "grant", settled(c.t, "grant", p.Granted()), ErrNotGranted)
		if isClosed(p.Lost()) {
			c.t.Error("lost is closed by a withdrawal")
		}

		// Withdrawn by one, granted to another, released by him in order.
		p, q = a.Acquire(c.t.Context()), a.Acquire(c.t.Context())
		end = p.Release()
		mustRelease(c.t, stranger)
		synctest.Wait()
		mustRelease(c.t, q)
		wantErr(c.t, "the round's end", settled(c.t, "release", end), nil)
	})
}
