// SPDX-License-Identifier: Apache-2.0

package recipetest

import (
	"testing"
	"time"
)

// A Pending is a call that a goroutine of its own has begun, and which may wait for other
// processes.
type Pending[T any] struct {
	t      *testing.T
	done   chan struct{}
	result T // these two are written before done is closed
	err    error
}

// Begin has a goroutine call fn.
func Begin[T any](t *testing.T, fn func() (T, error)) *Pending[T] {
	p := &Pending[T]{t: t, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.result, p.err = fn()
	}()
	return p
}

// BeginErr is Begin for a call that returns nothing but an error.
func BeginErr(t *testing.T, fn func() error) *Pending[struct{}] {
	return Begin(t, func() (struct{}, error) { return struct{}{}, fn() })
}

// Done returns a channel that is closed when the call has returned.
func (p *Pending[T]) Done() <-chan struct{} { return p.done }

// Over reports whether the call has returned.
func (p *Pending[T]) Over() bool { return IsClosed(p.done) }

// Wait returns what the call returns, for which it waits for up to a minute.
func (p *Pending[T]) Wait() (T, error) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Fatal("still waiting after a minute")
	}
	return p.result, p.err
}

// Err waits as Wait does, and returns the error alone.
func (p *Pending[T]) Err() error {
	p.t.Helper()
	return ErrOf(p.Wait())
}

// WantErr waits as Wait does, and checks the error as the function WantErr does.
func (p *Pending[T]) WantErr(what string, want error) {
	p.t.Helper()
	WantErr(p.t, what, p.Err(), want)
}

// Must waits as Wait does for the result of a call that must not fail.
func (p *Pending[T]) Must(what string) T {
	p.t.Helper()
	result, err := p.Wait()
	if err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
	return result
}

// IsClosed reports whether c is closed. Nothing must be sent to c.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
