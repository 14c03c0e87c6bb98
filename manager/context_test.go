// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errParent = errors.New("the parent's cause")

// What ends a context of a hold: each is done to a hold and the parent of its context.
var contextEnds = []struct {
	name  string
	do    func(h Hold, parent, cancel func())
	err   error
	cause error
}{
	{"parent", func(_ Hold, parent, _ func()) { parent() }, context.Canceled, errParent},
	{"loss", func(h Hold, _, _ func()) { h.share.fail(h.share.lost("hold", leaseOver)) }, context.Canceled, ErrLost},
	{"release", func(h Hold, _, _ func()) { h.Release() }, context.Canceled, ErrReleased},
	{"cancel", func(_ Hold, _, cancel func()) { cancel() }, context.Canceled, context.Canceled},
}

// How a context can have been used before it ends. The result, if any, is a context that derives
// from it.
var contextUses = []struct {
	name string
	use  func(ctx context.Context) (child context.Context, done func())
}{
	{"not asked", func(context.Context) (context.Context, func()) { return nil, func() {} }},
	{"asked for its error", func(ctx context.Context) (context.Context, func()) { _ = ctx.Err(); return nil, func() {} }},
	{"asked for its channel", func(ctx context.Context) (context.Context, func()) { _ = ctx.Done(); return nil, func() {} }},
	{"with a child", func(ctx context.Context) (context.Context, func()) {
		child, cancel := context.WithCancel(ctx)
		return child, cancel
	}},
	{"with a child of a child", func(ctx context.Context) (context.Context, func()) {
		child, cancel := context.WithTimeout(context.WithValue(ctx, heldKey{}, 1), time.Hour)
		return child, cancel
	}},
	{"with a value around it", func(ctx context.Context) (context.Context, func()) {
		return context.WithValue(ctx, contextKey{}, 1), func() {}
	}},
}

type contextKey struct{}

// A context of a hold ends as one that package context makes does, however it was used before.
func TestF335_ContextEnds(t *testing.T) {
	for _, end := range contextEnds {
		for _, used := range contextUses {
			t.Run(end.name+"/"+used.name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					h := mustLock(c.t, c.lock("a"))
					beside := mustLock(c.t, h.share.lock) // keeps the lock
					defer beside.Release()
					parent, stop := context.WithCancelCause(context.WithValue(c.t.Context(), contextKey{}, "outer"))
					defer stop(nil)
					ctx, cancel := h.Context(parent)
					defer cancel()
					child, done := used.use(ctx)
					defer done()
					if err := ctx.Err(); err != nil && used.name != "not asked" {
						c.t.Fatal("ended at once:", err)
					}
					end.do(h, func() { stop(errParent) }, cancel)
					synctest.Wait()
					wantEnded(ctx, c.t, "the context", end.err, end.cause)
					if child != nil {
						wantEnded(child, c.t, "a context that derives from it", end.err, end.cause)
					}
					called := make(chan struct{})
					context.AfterFunc(ctx, func() { close(called) })
					<-called
					if v := ctx.Value(contextKey{}); v != "outer" {
						c.t.Error("value", v)
					}
					_ = h.Unlock(c.t.Context())
				})
			})
		}
	}
}

// wantEnded checks that a context has ended.
func wantEnded(ctx context.Context, t *testing.T, what string, err, cause error) {
	t.Helper()
	if got := ctx.Err(); !errors.Is(got, err) { // before it is asked for its channel
		t.Errorf("%s: error %v, want %v", what, got, err)
	}
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("%s: cause %v, want %v", what, got, cause)
	}
	if !isClosed(ctx.Done()) {
		t.Errorf("%s: its channel is open", what)
	}
}

// Of two ends, the first one is the cause if the context was asked in between, or has been asked
// for its channel. Otherwise it is the one that Hold.Context documents.
func TestF335_ContextEndsTwice(t *testing.T) {
	later := map[string]bool{"parent, loss": true, "release, parent": true} // if it is never asked: the second one
	for _, first := range contextEnds {
		for _, second := range contextEnds {
			if first.name == second.name {
				continue
			}
			for _, asked := range []string{"never", "before", "between"} {
				t.Run(fmt.Sprintf("%s, %s/asked %s", first.name, second.name, asked), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						h := mustLock(c.t, c.lock("a"))
						parent, stop := context.WithCancelCause(c.t.Context())
						defer stop(nil)
						ctx, cancel := h.Context(parent)
						defer cancel()
						if asked == "before" {
							ctx.Done()
						}
						first.do(h, func() { stop(errParent) }, cancel)
						synctest.Wait()
						if asked == "between" {
							_ = ctx.Err()
						}
						second.do(h, func() { stop(errParent) }, cancel)
						synctest.Wait()
						want := first
						if asked == "never" && later[first.name+", "+second.name] {
							want = second
						}
						wantEnded(ctx, c.t, "the context", want.err, want.cause)
						_ = h.Unlock(c.t.Context())
					})
				})
			}
		}
	}
}

// A deadline of the parent is the context's, too.
func TestContextDeadline(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		parent, stop := context.WithTimeout(c.t.Context(), time.Minute)
		defer stop()
		for _, asked := range []bool{false, true} {
			ctx, cancel := h.Context(parent)
			want, _ := parent.Deadline()
			if at, ok := ctx.Deadline(); !ok || !at.Equal(want) {
				c.t.Error("deadline", at, ok)
			}
			if asked {
				ctx.Done()
			}
			time.Sleep(time.Until(want) + 1)
			wantEnded(ctx, c.t, "the context", context.DeadlineExceeded, context.DeadlineExceeded)
			cancel()
		}
		c.unlock(h)
	})
}

// Of a Hold that is pending, or was released or lost before, the context says so, as it did before
// it was asked.
func TestContextOfHoldsThatAreNotHeld(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		waits := c.acquire(b)
		ctx, cancel := waits.Context(c.t.Context())
		defer cancel()
		if err := ctx.Err(); err != nil {
			c.t.Error("of a pending Hold:", err)
		}
		c.unlock(h)
		c.held(waits)
		if err := ctx.Err(); err != nil {
			c.t.Error("of a Hold that was pending:", err)
		}
		again, inside := b.TryLock(ctx)
		wantErr(c.t, "reentrance", inside, nil)
		again.Release()
		waits.Release()
		late, cancel := waits.Context(c.t.Context())
		defer cancel()
		for _, ctx := range []context.Context{ctx, late} {
			wantEnded(ctx, c.t, "of a released Hold", context.Canceled, ErrReleased)
		}
		ctx, cancel = Hold{}.Context(c.t.Context())
		defer cancel()
		wantEnded(ctx, c.t, "of the zero Hold", context.Canceled, ErrReleased)
	})
}

// A context is cancelled after the goroutine that registers it has looked, and before it is done.
func TestF335_ContextCancelledAsItRegisters(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		ctx := h.context(c.t.Context())
		in := ctx.newInner()
		ctx.finish()
		ctx.inner.Store(in)
		wantEnded(ctx, c.t, "the context", context.Canceled, context.Canceled)
		if n := lossesTold(h); n != 0 {
			c.t.Errorf("%d callbacks are left", n)
		}
		c.unlock(h)
	})
}

// All pairs of calls on one context, at once, under the race detector: it ends, once, and leaves
// nothing behind.
func TestF335_ContextCallsAtOnce(t *testing.T) {
	calls := map[string]func(h Hold, ctx context.Context, parent, cancel func()){
		"Err":       func(_ Hold, ctx context.Context, _, _ func()) { _ = ctx.Err() },
		"Done":      func(_ Hold, ctx context.Context, _, _ func()) { _ = ctx.Done() },
		"Cause":     func(_ Hold, ctx context.Context, _, _ func()) { _ = context.Cause(ctx) },
		"Value":     func(_ Hold, ctx context.Context, _, _ func()) { _ = ctx.Value(contextKey{}) },
		"String":    func(_ Hold, ctx context.Context, _, _ func()) { _ = fmt.Sprint(ctx) },
		"child":     func(_ Hold, ctx context.Context, _, _ func()) { _, cancel := context.WithCancel(ctx); cancel() },
		"AfterFunc": func(_ Hold, ctx context.Context, _, _ func()) { context.AfterFunc(ctx, func() {})() },
	}
	ends := map[string]bool{}
	for _, end := range contextEnds {
		ends[end.name] = true
		calls[end.name] = func(h Hold, _ context.Context, parent, cancel func()) { end.do(h, parent, cancel) }
	}
	for one, do := range calls {
		for other, also := range calls {
			t.Run(one+"+"+other, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					h := mustLock(c.t, c.lock("a"))
					for range 5 {
						if h.Err() != nil {
							h = mustLock(c.t, h.share.lock)
						}
						parent, stop := context.WithCancelCause(c.t.Context())
						ctx, cancel := h.Context(parent)
						var wg sync.WaitGroup
						wg.Go(func() { do(h, ctx, func() { stop(errParent) }, cancel) })
						wg.Go(func() { also(h, ctx, func() { stop(errParent) }, cancel) })
						wg.Wait()
						synctest.Wait()
						if ended := ends[one] || ends[other]; (ctx.Err() != nil) != ended || ended != isClosed(ctx.Done()) {
							c.t.Errorf("error %v, channel closed: %v, and it should have ended: %v", ctx.Err(), isClosed(ctx.Done()), ended)
						}
						cancel()
						stop(nil)
						if n := lossesTold(h); n != 0 {
							c.t.Errorf("%d callbacks are left", n)
						}
					}
					_ = h.Unlock(c.t.Context())
				})
			})
		}
	}
}
