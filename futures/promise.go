// SPDX-License-Identifier: Apache-2.0

package futures

// A Promise is the writing end of a [Future], which it contains.
//
// The zero value is ready to use, and not settled. A Promise must not be copied
// after first use. Its methods may be called by any number of goroutines at the
// same time.
type Promise[T any] struct {
	f Future[T]
}

// Future returns the promise's future. Every call returns the same one. The
// future keeps the promise, and the struct that the promise is a field of, from
// being garbage collected.
func (p *Promise[T]) Future() *Future[T] { return &p.f }

// Settled reports whether the promise is settled. It never blocks.
func (p *Promise[T]) Settled() bool { return p.f.settled() }

// Settle settles the promise with the result v and err, unless it is already
// settled, and reports whether it did. If several goroutines call Settle, the
// first call wins and the results of the others are dropped. When any of the
// calls returns, the promise is settled.
//
// Settle starts the functions given to OnDone and does not wait for them. It
// blocks only while another Settle of the same promise is in progress.
func (p *Promise[T]) Settle(v T, err error) bool {
	if p.f.settled() {
		return false
	}
	c, ok := p.f.settle(v, err)
	// mu is not held here, since these calls may settle other promises. It does
	// not have to be: unregister leaves entries that are not listed alone.
	for c != nil {
		next := c.next
		c.next, c.prev = nil, nil // so that a stop function does not keep its neighbours alive
		c.call(v, err)
		c = next
	}
	return ok
}

// Follow has p settle as f does: with f's result, when f is settled, or now if it already
// is. If p is settled before, that result stays. No goroutine waits for f. Follow never
// blocks.
func (p *Promise[T]) Follow(f *Future[T]) {
	f.register(&callback[T]{call: func(v T, err error) { p.Settle(v, err) }})
}

// Resolved returns a future that is already settled with v and err.
func Resolved[T any](v T, err error) *Future[T] {
	f := &Future[T]{val: v, err: err}
	f.done.Store(&closed)
	return f
}
