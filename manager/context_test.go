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
			subtest(t, end.name+"/"+used.name, func(c *cluster) {
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
				wantEq(c.t, "value", ctx.Value(contextKey{}), "outer")
				_ = h.Unlock(c.t.Context())
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
	expect(t, errors.Is(context.Cause(ctx), cause),
		"%s: cause %v, want %v", what, context.Cause(ctx), cause)
	expect(t, isClosed(ctx.Done()), "%s: its channel is open", what)
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
				subtest(t, fmt.Sprintf("%s, %s/asked %s", first.name, second.name, asked), func(c *cluster) {
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
			}
		}
	}
}

// A deadline of the parent is the context's, too.
func TestContextDeadline(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		parent := withTimeout(c.t, time.Minute)
		for _, asked := range []bool{false, true} {
			ctx, cancel := h.Context(parent)
			want, _ := parent.Deadline()
			at, ok := ctx.Deadline()
			expect(c.t, ok && at.Equal(want), "deadline %v %v", at, ok)
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
		expect(c.t, ctx.Err() == nil, "of a pending Hold: %v", ctx.Err())
		c.unlock(h)
		c.held(waits)
		expect(c.t, ctx.Err() == nil, "of a Hold that was pending: %v", ctx.Err())
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
		wantEq(c.t, "callbacks are left", lossesTold(h), 0)
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
			subtest(t, one+"+"+other, func(c *cluster) {
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
					wantEq(c.t, "callbacks are left", lossesTold(h), 0)
				}
				_ = h.Unlock(c.t.Context())
			})
		}
	}
}

// acquirings are the ways to acquire a lock with a context. LockAll takes no Mutex.
var acquirings = map[string]func(context.Context, acquirer) (Hold, error){
	"Lock":    func(ctx context.Context, l acquirer) (Hold, error) { return l.Lock(ctx) },
	"TryLock": func(ctx context.Context, l acquirer) (Hold, error) { return l.TryLock(ctx) },
	"Acquire": func(ctx context.Context, l acquirer) (Hold, error) {
		h := l.Acquire(ctx)
		_, err := h.Ready().Wait(context.WithoutCancel(ctx))
		return h, err
	},
	"LockAll": func(ctx context.Context, l acquirer) (Hold, error) {
		all, err := l.(*Lock).m.LockAll(ctx, l.(*Lock))
		if err != nil {
			return Hold{}, err
		}
		return all[0], nil
	},
}

// The context of a Hold has ended, in each of the ways in which that happens while the
// Hold holds the lock. Every way to acquire the lock with it fails as with any context
// that has ended, and enters nothing.
func TestF276_EndedContextOfAHold(t *testing.T) {
	deadline := errors.New("the deadline of the caller")
	type test struct {
		end  func(h Hold, parent context.Context) context.Context
		want error
	}
	ends := map[string]test{
		"its CancelFunc": {func(h Hold, parent context.Context) context.Context {
			ctx, done := h.Context(parent)
			done()
			return ctx
		}, context.Canceled},
		"its parent": {func(h Hold, parent context.Context) context.Context {
			parent, cancel := context.WithTimeoutCause(parent, 0, deadline)
			defer cancel()
			ctx, done := h.Context(parent)
			context.AfterFunc(ctx, done)
			return ctx
		}, deadline},
		"a context made of it": {func(h Hold, parent context.Context) context.Context {
			ctx, done := h.Context(parent)
			context.AfterFunc(parent, done)
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(deadline)
			return ctx
		}, deadline},
	}
	fn := func(context.Context, Hold) error { return errors.New("the function was run") }
	for kind, locks := range map[string]func(l *Lock, rw *RWLock, x *Mutex) (outer, inner acquirer){
		"exclusive":             func(l *Lock, _ *RWLock, _ *Mutex) (outer, inner acquirer) { return l, l },
		"write":                 func(_ *Lock, rw *RWLock, _ *Mutex) (outer, inner acquirer) { return rw.Writer(), rw.Writer() },
		"read under write":      func(_ *Lock, rw *RWLock, _ *Mutex) (outer, inner acquirer) { return rw.Writer(), rw.Reader() },
		"read under upgradable": func(_ *Lock, rw *RWLock, _ *Mutex) (outer, inner acquirer) { return rw.Upgradable(), rw.Reader() },
		"mutex":                 func(_ *Lock, _ *RWLock, x *Mutex) (outer, inner acquirer) { return x, x },
	} {
		t.Run(kind, func(t *testing.T) {
			each(t, ends, func(c *cluster, e test) {
				m := c.open("a")
				outer, inner := locks(exclusive(c.t, m, "jobs"), readWrite(c.t, m, "pair"), openMutex(c.t, m, "mutex"))
				h, err := outer.Lock(c.t.Context())
				wantErr(c.t, "lock", err, nil)
				ctx := e.end(h, c.t.Context())
				fails := func(name string, err error) {
					c.t.Helper()
					wantErr(c.t, name, err, ctx.Err())
					wantErr(c.t, name, err, e.want)
				}
				for name, call := range acquirings {
					if _, ok := inner.(*Lock); ok || name != "LockAll" {
						in, err := call(ctx, inner)
						fails(name, err)
						in.Release()
					}
				}
				fails("Do", inner.Do(ctx, fn))
				fails("TryDo", inner.TryDo(ctx, fn))
				wantHeld(c.t, "the Hold", h)
				wantEq(c.t, "the Hold's depth", h.Depth(), 1)
				mustRelease(c.t, h)
				later(time.Second)
				for _, path := range c.srv.Nodes() {
					_, stat, _ := c.srv.Get(path)
					expect(c.t, stat.EphemeralOwner == 0, "%s is left", path)
				}
			})
		})
	}
}

// An acquirer is a Lock or a Mutex.
type acquirer interface {
	Acquire(context.Context) Hold
	Lock(context.Context) (Hold, error)
	TryLock(context.Context) (Hold, error)
	Do(context.Context, func(context.Context, Hold) error) error
	TryDo(context.Context, func(context.Context, Hold) error) error
}
