// SPDX-License-Identifier: Apache-2.0

package futures

// A Promise is the writing end of a [Future], which it holds: whoever has the
// Promise settles the Future, and whoever has the Future waits for it.
//
// The zero value is ready to use, and not settled. A Promise must not be
// copied after first use. All methods may be called by any number of
// goroutines at the same time.
type Promise[T any] struct {
	f Future[T]
}

// Future returns the promise's future, which is always the same one. It keeps
// the promise, and what the promise is a field of, from being collected.
func (p *Promise[T]) Future() *Future[T] { return &p.f }

// Settled reports whether the promise is settled. It never blocks.
func (p *Promise[T]) Settled() bool { return p.f.settled() }

// Settle settles the promise with the result v and err, unless it is settled
// already. It reports whether this call has settled it. Any number of
// goroutines may try; one of them wins, and the others' results are dropped.
// Whoever wins, the promise is settled when Settle returns.
//
// Settle starts the functions given to OnDone but does not wait for them, nor
// for those who wait. It waits for nothing but another Settle of the same
// promise.
func (p *Promise[T]) Settle(v T, err error) bool {
	if p.f.settled() {
		return false
	}
	c, ok := p.f.settle(v, err)
	// The future's mu is free again, since these may settle other promises. The
	// links are ours alone: no stop touches an entry that is not listed.
	for c != nil {
		next := c.next
		c.next, c.prev = nil, nil // a stop function that is kept does not keep its neighbours
		c.call(v, err)
		c = next
	}
	return ok
}

// Resolved returns a future that is settled with v and err from the start.
func Resolved[T any](v T, err error) *Future[T] {
	f := &Future[T]{val: v, err: err}
	f.done.Store(&closed)
	return f
}
