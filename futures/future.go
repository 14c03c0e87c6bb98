// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"go.uber.org/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
)

// A Future is a result that may not be available yet. It is settled at most once,
// by [Promise.Settle], and does not change after that.
//
// Its methods may be called by any number of goroutines at the same time. Only
// Wait blocks.
//
// In the terminology of [the Go memory model], the call to Settle that settled
// the future “synchronizes before” the return of any Wait, Poll or Settled that
// reports the result, the completion of a receive from Done, and the call of a
// function given to OnDone.
//
// A Future must not be copied. The zero Future is never settled; get a Future
// from a [Promise], [Resolved], [All], [Any] or [Map].
//
// [the Go memory model]: https://go.dev/ref/mem
type Future[T any] struct {
	// done alone says whether the future is settled, so that all goroutines see
	// it settled from the same instant on:
	//
	//	nil         not settled, and Done has not been called
	//	&closed     settled before Done was called
	//	any other   settled if that channel is closed
	//
	// It changes once, from nil, by compare-and-swap.
	done atomic.Pointer[chan struct{}]

	// mu protects callbacks. Settle holds it while it settles the future, so
	// the future cannot become settled while another goroutine holds mu.
	mu        sync.Mutex
	callbacks *callback[T] // not called yet; nil once settled

	// Written by Settle before the future is settled, and only read after.
	val T
	err error
}

// closed is the Done channel of every future that was settled before Done was
// called.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// settled reports whether f is settled, so that f.val and f.err may be read.
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

// Done returns a channel that is closed when the future is settled. Every call
// returns the same channel.
func (f *Future[T]) Done() <-chan struct{} {
	if done := f.done.Load(); done != nil {
		return *done
	}
	return f.offer(make(chan struct{}))
}

// offer makes done the channel of f unless f has one, and returns f's channel.
func (f *Future[T]) offer(done chan struct{}) <-chan struct{} {
	// This races with other calls to Done and with Settle. The one successful
	// compare-and-swap from nil decides: if it is ours, Settle closes our
	// channel; if it is another Done's, we use that channel; if it is Settle's,
	// we find the closed channel.
	if f.done.CompareAndSwap(nil, &done) {
		return done
	}
	return *f.done.Load()
}

// Wait blocks until the future is settled or ctx is done. If the future is
// settled, Wait returns its result even if ctx is done as well. Otherwise it
// returns an error that wraps ctx.Err() and, if that says more,
// context.Cause(ctx). Giving up does not affect the future or other waiters.
//
// If the work behind the future was canceled, the error of its result can look
// like an error of ctx. [Future.Poll] tells the two apart.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	if f.settled() {
		return f.val, f.err
	}
	if ctx.Done() == nil { // as with a Background; a receive costs less than a select
		<-f.Done()
		return f.val, f.err
	}
	select {
	case <-f.Done():
		return f.val, f.err
	case <-ctx.Done():
	}
	// If both are ready, select chooses at random. Prefer the result: it may
	// be something that the caller must give back.
	if f.settled() {
		return f.val, f.err
	}
	var zero T
	return zero, ctxerr.Of(ctx)
}

// Poll returns the result if the future is settled. ok reports whether it is.
// Poll never blocks.
func (f *Future[T]) Poll() (v T, err error, ok bool) {
	if !f.settled() {
		return v, nil, false
	}
	return f.val, f.err, true
}

// OnDone arranges for fn to be called once with the result when the future is
// settled, or now if it already is. As with [context.AfterFunc], fn runs in its
// own goroutine, so it may block, and functions given to several calls of OnDone
// run at the same time. A panic in fn is recovered, and logged to [slog.Default]
// with its stack.
//
// The returned stop function cancels the call, and reports whether it did: it
// returns false if fn has been started or stopped before. It does not wait for fn
// to return and never blocks. Any number of goroutines may call it.
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

// settle settles f unless it is already settled, and reports whether it did. It
// returns the callbacks that the caller must call, linked by next.
func (f *Future[T]) settle(v T, err error) (list *callback[T], ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Of concurrent calls only the first finds f not settled. The others have
	// waited for mu, so f is settled when they return.
	if f.settled() {
		return nil, false
	}
	f.val, f.err = v, err
	// This settles f for all goroutines, and races with Done. If our swap from
	// nil fails, Done has set a channel, and closing it is what settles f. It
	// is closed once, since we hold mu.
	if !f.done.CompareAndSwap(nil, &closed) {
		close(*f.done.Load())
	}
	// The list has every callback that was registered before f was settled and
	// not stopped. They are ours to call: a later unregister finds its entry
	// not listed, and a later register finds f settled.
	list, f.callbacks = f.callbacks, nil
	for c := list; c != nil; c = c.next {
		c.listed = false
	}
	return list, true
}

// A callback is an entry in a future's list of functions to call with the result.
// The future's mu protects all fields but call, which does not change.
type callback[T any] struct {
	// call is called once, without mu held, by the Settle that settles the
	// future or by register if it is already settled. It must not block and
	// must not run the user's code, which gets its own goroutine.
	call func(T, error)

	next, prev *callback[T]
	listed     bool
}

// register arranges for c to be called when f is settled. If f is already
// settled, register calls c itself.
func (f *Future[T]) register(c *callback[T]) {
	f.mu.Lock()
	// Settle settles f and takes the list in one critical section. Either ours
	// comes first, and Settle finds c in the list, or Settle's does, and we find
	// f settled. So exactly one of us calls c.
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

// unregister takes c out of the list, so that a future that stays pending does
// not accumulate stopped callbacks. It reports whether it prevented the call.
func (f *Future[T]) unregister(c *callback[T]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	// This races with Settle, which takes the whole list, and with another
	// unregister. The first of them to hold mu with c listed decides.
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
