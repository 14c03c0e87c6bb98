// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrNone is the error of [Any] of no futures at all.
var ErrNone = errors.New("futures: any of no futures")

// All returns a future of all results, in the order of fs. It is settled when
// all of fs have been, or as soon as one of them has been settled with an
// error: then with that error, whatever becomes of the others. All of no
// futures is settled with an empty slice. The slice is the same for everybody
// who waits.
//
// No goroutine waits for fs.
func All[T any](fs ...*Future[T]) *Future[[]T] {
	p := new(Promise[[]T])
	vals := make([]T, len(fs))
	if len(fs) == 0 {
		p.Settle(vals, nil)
		return p.Future()
	}
	g := new(group[T])
	left := len(fs) // protected by g.mu, as are the elements of vals
	g.watch(fs, func(i int, v T, err error) (over bool) {
		if err != nil {
			return p.Settle(nil, err)
		}
		g.mu.Lock()
		vals[i] = v
		left--
		last := left == 0
		g.mu.Unlock()
		return last && p.Settle(vals, nil)
	})
	return p.Future()
}

// Any returns a future of the first value: it is settled as soon as one of fs
// has been settled without an error, with that one's value. If all of fs are
// settled with errors, it is settled with the errors of all, joined in the
// order of fs. Any of no futures is settled with [ErrNone].
//
// No goroutine waits for fs, and once the future is settled the others of fs
// do not refer to it any more.
func Any[T any](fs ...*Future[T]) *Future[T] {
	p := new(Promise[T])
	var zero T
	if len(fs) == 0 {
		p.Settle(zero, ErrNone)
		return p.Future()
	}
	g := new(group[T])
	errs := make([]error, len(fs))
	left := len(fs) // protected by g.mu, as are the elements of errs
	g.watch(fs, func(i int, v T, err error) (over bool) {
		if err == nil {
			return p.Settle(v, nil)
		}
		g.mu.Lock()
		errs[i] = err
		left--
		last := left == 0
		g.mu.Unlock()
		return last && p.Settle(zero, errors.Join(errs...))
	})
	return p.Future()
}

// A group is what a combined future has registered with its inputs.
type group[T any] struct {
	mu      sync.Mutex // protects what follows, and the combiner's own variables
	over    bool       // the combined future is settled
	entries []entry[T]
}

type entry[T any] struct {
	f *Future[T]
	c *callback[T]
}

// watch registers one with all of fs, until one says that the combined future
// is settled by it, which it does once. one is called by whoever settles an
// input, or here if that is settled already; possibly at the same time for
// different inputs.
func (g *group[T]) watch(fs []*Future[T], one func(i int, v T, err error) (over bool)) {
	for i, f := range fs {
		c := &callback[T]{call: func(v T, err error) {
			if one(i, v, err) {
				g.end()
			}
		}}
		f.register(c)
		// The group may have ended while we registered, by an input that was
		// settled meanwhile or is settled already: then nobody but us knows that
		// c is there. Otherwise c is among the entries before the group ends.
		g.mu.Lock()
		over := g.over
		if !over {
			g.entries = append(g.entries, entry[T]{f, c})
		}
		g.mu.Unlock()
		if over {
			f.unregister(c)
			return
		}
	}
}

// end takes out of all inputs what the group has registered there: an input
// that stays unsettled for long must not collect combined futures that are.
func (g *group[T]) end() {
	g.mu.Lock()
	g.over = true
	entries := g.entries
	g.entries = nil
	g.mu.Unlock()
	// Outside of g.mu: it is never held together with the mu of a future.
	for _, e := range entries {
		e.f.unregister(e.c)
	}
}

// Map returns a future of fn's result for the value of f. When f is settled
// with a value, fn is called once with it, on a goroutine of its own that no
// other waits for, and what it returns settles the future. If f is settled
// with an error, so is the future, and fn is not called. If fn panics, the
// future is settled with a [*PanicError]; if it ends its goroutine by
// [runtime.Goexit], with [ErrGoexit].
//
// No goroutine waits for f.
func Map[T, U any](f *Future[T], fn func(T) (U, error)) *Future[U] {
	if fn == nil {
		panic("futures: Map of a nil function")
	}
	p := new(Promise[U])
	f.register(&callback[T]{call: func(v T, err error) {
		if err != nil {
			var zero U
			p.Settle(zero, err)
			return
		}
		go settleWith(p, fn, v)
	}})
	return p.Future()
}

// settleWith settles p with what fn makes of v, come what may: those who wait
// for p must not wait for ever because fn did not return.
func settleWith[T, U any](p *Promise[U], fn func(T) (U, error), v T) {
	var u U
	err := ErrGoexit // unless fn returns, or panics
	defer func() {
		if x := recover(); x != nil {
			err = &PanicError{Value: x, Stack: debug.Stack()}
		}
		p.Settle(u, err)
	}()
	u, err = fn(v)
}

// ErrGoexit is the error of a future made by [Map] whose function ended its
// goroutine instead of returning.
var ErrGoexit = errors.New("futures: the function given to Map called runtime.Goexit")

// A PanicError is the error of a future made by [Map] whose function panicked.
type PanicError struct {
	Value any    // what the function panicked with
	Stack []byte // the stack of the panic, as debug.Stack formats it
}

// Error returns the panic's value, without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("futures: the function given to Map panicked: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
