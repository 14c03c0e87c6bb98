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
	f := &p.f
	if f.settled() {
		return false
	}
	f.mu.Lock()
	// Among those who got here only the first finds the future not settled.
	// The others have waited for mu until it was, and so can rely on it.
	if f.settled() {
		f.mu.Unlock()
		return false
	}
	f.val, f.err = v, err
	// From here on everybody sees the result. This races with a Done that
	// makes the channel: if our swap from nil fails, a channel is there, and
	// closing it is what settles the future. Nobody else closes it, since we
	// hold mu.
	if !f.done.CompareAndSwap(nil, &closed) {
		close(*f.done.Load())
	}
	// What is in the list now was registered before the future was settled,
	// and not stopped. It is ours to call: a stop that comes later finds its
	// entry gone, a registration that comes later finds the future settled.
	list := f.callbacks
	f.callbacks = nil
	for c := list; c != nil; c = c.next {
		c.listed = false
	}
	f.mu.Unlock()

	// Outside of mu, since these may settle other promises. No unregister
	// touches the links any more: the entries are not listed.
	for c := list; c != nil; {
		next := c.next
		c.next, c.prev = nil, nil // a stop function that is kept does not keep its neighbours
		c.call(v, err)
		c = next
	}
	return true
}

// Resolved returns a future that is settled with v and err from the start.
func Resolved[T any](v T, err error) *Future[T] {
	f := &Future[T]{val: v, err: err}
	f.done.Store(&closed)
	return f
}
