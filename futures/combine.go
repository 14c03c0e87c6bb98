// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/holdfast-go/holdfast/internal/oneline"
)

// ErrNone is the error of [Any] without arguments.
var ErrNone = errors.New("futures: any of no futures")

// All returns a future of the values of fs, in that order. It is settled when all
// of fs are, or with the first error as soon as one of fs is settled with an
// error. Without arguments, it is settled with an empty slice. Every reader gets
// the same slice.
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

// Any returns a future of the first value: as soon as one of fs is settled without
// an error, the future is settled with that value. If all of fs are settled with
// errors, it is settled with those errors, joined in the order of fs. Without
// arguments, it is settled with [ErrNone].
//
// No goroutine waits for fs. Once the future is settled, none of fs refers to it.
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
		return last && p.Settle(zero, oneline.Join(errs...))
	})
	return p.Future()
}

// A group has the callbacks that a combined future has registered with its inputs.
type group[T any] struct {
	mu      sync.Mutex // protects following fields, and the variables of All or Any
	over    bool       // the combined future is settled
	entries []entry[T]
}

type entry[T any] struct {
	f *Future[T]
	c *callback[T]
}

// watch arranges for one to be called for each of fs when it is settled. one
// settles the combined future if it can, and returns true if it did, which ends
// the group. It is called by the goroutine that settles an input, or by watch if
// the input is already settled, and possibly at the same time for several inputs.
func (g *group[T]) watch(fs []*Future[T], one func(i int, v T, err error) (over bool)) {
	for i, f := range fs {
		c := &callback[T]{call: func(v T, err error) {
			if one(i, v, err) {
				g.end()
			}
		}}
		f.register(c)
		// This races with end. If the group has ended, c was not among the
		// entries that end took out, so we take it out. Otherwise c is an entry
		// before the group ends.
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

// end takes the group's callbacks out of its inputs, so that an input that stays
// pending does not accumulate callbacks of futures that are settled.
func (g *group[T]) end() {
	g.mu.Lock()
	g.over = true
	entries := g.entries
	g.entries = nil
	g.mu.Unlock()
	// g.mu is never held together with the mu of a future.
	for _, e := range entries {
		e.f.unregister(e.c)
	}
}

// Map returns a future of fn applied to the value of f. When f is settled with a
// value, fn is called once, in its own goroutine, and its results settle the
// future. If f is settled with an error, so is the future, and fn is not called.
// If fn panics, the future is settled with a [*PanicError]; if fn calls
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

// settleWith settles p with the results of fn(v). It does so even if fn does not
// return, since p must not stay pending then.
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

// ErrGoexit is the error of a future made by [Map] whose function called
// [runtime.Goexit].
var ErrGoexit = errors.New("futures: the function given to Map called runtime.Goexit")

// A PanicError is the error of a future made by [Map] whose function panicked.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack at the panic, as formatted by debug.Stack
}

// Error describes the panic by its value. It does not include the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("futures: the function given to Map panicked: %v", e.Value)
}

// Unwrap returns the panic's value if that is an error, else nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
