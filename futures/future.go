// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"go.uber.org/atomic"
)

// A Future is a result that is there or will be. It is settled at most once,
// by [Promise.Settle], and is the same for everybody from then on.
//
// All methods may be called by any number of goroutines at the same time. Only
// Wait blocks.
//
// In the terminology of [the Go memory model], the call of Settle that settled
// the future synchronizes before the return of any Wait, Poll or Settled that
// reports the result, before the completion of a receive from Done, and before
// the call of a function given to OnDone.
//
// A Future must not be copied. The zero Future will never be settled; get one
// from a [Promise], or from [Resolved], [All], [Any] or [Map].
//
// [the Go memory model]: https://go.dev/ref/mem
type Future[T any] struct {
	// done says whether the future is settled, and is the one place that
	// does, so that it becomes so for everybody at the same instant:
	//
	//	nil         not settled, and nobody has asked for a channel
	//	&closed     settled, before anybody had asked for a channel
	//	any other   settled if that channel is closed
	//
	// It leaves nil once, by compare-and-swap, for either of the others.
	done atomic.Pointer[chan struct{}]

	// mu protects callbacks, and is held by Settle while the future becomes
	// settled: so for whoever holds mu it either is or it is not, and the
	// list is complete.
	mu        sync.Mutex
	callbacks *callback[T] // those not called yet; nil once settled

	// Written once, by Settle, before the future is settled; read only after.
	val T
	err error
}

// closed is the Done channel of all futures that were settled before anybody
// asked for a channel.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// settled reports whether f is settled; f.val and f.err may be read then.
func (f *Future[T]) settled() bool {
	switch done := f.done.Load(); done {
	case nil:
		return false
	case &closed:
		return true
	default:
		select {
		case <-*done:
			return true
		default:
			return false
		}
	}
}

// Done returns a channel that is closed when the future is settled. It is
// always the same channel once it has been asked for; nothing is ever sent.
func (f *Future[T]) Done() <-chan struct{} {
	if done := f.done.Load(); done != nil {
		return *done
	}
	return f.offer(make(chan struct{}))
}

// offer makes done the channel of f if f has none, and returns the one it has.
func (f *Future[T]) offer(done chan struct{}) <-chan struct{} {
	// The channel was made now that somebody wants it, while others may want
	// it too and somebody may be settling the future. One compare-and-swap
	// from nil decides among all of them: if ours wins, Settle's fails and it
	// closes our channel; if another Done's wins, we use that channel; if
	// Settle's wins, we find the closed one. The channel of a loser is garbage.
	if f.done.CompareAndSwap(nil, &done) {
		return done
	}
	return *f.done.Load()
}

// Wait blocks until the future is settled or ctx has ended. If the future is
// settled Wait returns its result, even if ctx has ended too. Otherwise the
// error wraps ctx.Err(), and context.Cause(ctx) where that says more; the
// future and those who wait for it are not affected.
//
// An error of the result and an error of ctx look alike, if the work behind
// the future was cancelled; ask [Future.Poll] to tell them apart.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if f.settled() {
		return f.val, f.err
	}
	select {
	case <-f.Done():
		return f.val, f.err
	case <-ctx.Done():
	}
	// Where both had happened, select has chosen by chance. The result goes
	// first: it may be something that the caller has to give back.
	if f.settled() {
		return f.val, f.err
	}
	var zero T
	return zero, contextError(ctx)
}

// contextError returns the error of a wait that ended because ctx has.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause // the same error, or one that wraps it already
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Poll returns the result and true if the future is settled, and false if it
// is not. It never blocks.
func (f *Future[T]) Poll() (v T, err error, ok bool) {
	if !f.settled() {
		return v, nil, false
	}
	return f.val, f.err, true
}

// OnDone arranges for fn to be called with the result when the future is
// settled, or at once if it is settled already. As with [context.AfterFunc],
// fn runs once, on a goroutine of its own, never on the caller's; no other
// goroutine waits for it, and several functions run at the same time. A panic
// in fn is recovered, and logged to [slog.Default] with its stack.
//
// The returned stop function gives the call up. It reports whether it has
// prevented it: it returns false if fn has been started, or if stop has
// returned true before. It does not wait for fn to return. Any number of
// goroutines may call it, and it never blocks.
func (f *Future[T]) OnDone(fn func(T, error)) (stop func() bool) {
	if fn == nil {
		panic("futures: OnDone of a nil function")
	}
	c := &callback[T]{call: func(v T, err error) { go run(fn, v, err) }}
	f.register(c)
	return func() bool { return f.unregister(c) }
}

// run calls a function given to OnDone.
func run[T any](fn func(T, error), v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Default().Error("futures: panic in a function given to OnDone",
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	fn(v, err)
}

// settle settles f, unless it is settled already, and reports whether it did.
// It returns the callbacks that the caller has to call, linked by next.
func (f *Future[T]) settle(v T, err error) (list *callback[T], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Among those who settle at the same time only the first finds f not
	// settled. The others have waited for mu until it was, and rely on it.
	if f.settled() {
		return nil, false
	}
	f.val, f.err = v, err
	// From here on everybody sees the result. This races with a Done that
	// brings a channel: if our swap from nil fails, a channel is there, and
	// closing it is what settles f. Nobody else closes it, since we hold mu.
	if !f.done.CompareAndSwap(nil, &closed) {
		close(*f.done.Load())
	}
	// What is in the list now was registered before f was settled, and not
	// stopped. It is ours to call: a stop that comes later finds its entry no
	// longer listed, a registration that comes later finds f settled.
	list, f.callbacks = f.callbacks, nil
	for c := list; c != nil; c = c.next {
		c.listed = false
	}
	return list, true
}

// A callback is somebody who is to be told the result of a future, an entry of
// the future's list. All fields but call are protected by the future's mu.
type callback[T any] struct {
	// call is called once, outside of mu, by whoever settles the future, or by
	// whoever registers it if that is over. It must not block, nor run code of
	// the user: such code gets a goroutine.
	call func(T, error)

	next, prev *callback[T]
	listed     bool
}

// register arranges for c to be called when f is settled. If it is settled
// already, c is called before register returns.
func (f *Future[T]) register(c *callback[T]) {
	f.mu.Lock()
	// Against Settle, which settles f and takes the list while it holds mu:
	// either we are first, and it finds c in the list, or it is, and we see
	// here that f is settled. There is no time at which neither would call c.
	if f.settled() {
		f.mu.Unlock()
		c.call(f.val, f.err)
		return
	}
	if c.next = f.callbacks; c.next != nil {
		c.next.prev = c
	}
	f.callbacks = c
	c.listed = true
	f.mu.Unlock()
}

// unregister takes c out of the list, so that a future that is never settled
// does not collect those who have given up. It reports whether it has prevented
// the call.
func (f *Future[T]) unregister(c *callback[T]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Against Settle, which takes the whole list under mu and calls everybody
	// that it took: whoever gets c out of the list first decides. And against
	// another unregister: the same.
	if !c.listed {
		return false
	}
	c.listed = false
	if c.next != nil {
		c.next.prev = c.prev
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		f.callbacks = c.next
	}
	c.next, c.prev = nil, nil
	return true
}
