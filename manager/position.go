// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/futures"

// position is where a round stands in the queue, behind at least one contender.
type position struct {
	ahead     int32      // contenders ahead that exclude this one
	contender *Contender // the one of them that this process watches
	at        int64      // when it was there, on the manager's clock
}

// positionPromise is the promise of a position.
type positionPromise struct{ futures.Promise[struct{}] }

// positionKnown returns a future that settles when the round's position is known
// or may have changed. The position may be cleared again by then, with the node:
// look, and if there is none, ask again. A round that is granted or fails at once
// never settles the future.
func (t *roundIO) positionKnown() *futures.Future[struct{}] {
	p := t.promisePosition()
	// setPosition stores the position before it looks for a promise, and this is
	// the other way round: at least one sees the other.
	if t.position.Load() != nil {
		p.Settle(struct{}{}, nil)
	}
	return p.Future()
}

// promisePosition returns the promise of the next position, and makes it on first
// use: few callers wait for one. clearPosition may take it back at any moment.
func (t *roundIO) promisePosition() *positionPromise {
	for {
		if p := t.positionPromise.Load(); p != nil {
			return p
		}
		t.positionPromise.CompareAndSwap(nil, new(positionPromise))
	}
}

// setPosition stores the position. Only steps call it.
//
// A caller that finds the promise settled looks for the position, and if there is
// none waits for the next promise. So a settled promise must not stay without a
// position. setPosition and positionKnown load the promise before the position,
// and only then settle it; clearPosition clears the position before it takes the
// promise. In every interleaving the promise is unsettled, replaced, or has a
// position.
func (t *roundIO) setPosition(p *position) {
	t.waited = true
	t.position.Store(p)
	if promise := t.positionPromise.Load(); promise != nil && t.position.Load() == p {
		promise.Settle(struct{}{}, nil)
	}
}

// clearPosition notes that the position is lost or unknown. Callers that ask for
// it from now on wait for the next one; existing waiters wake and ask again. It
// is called by steps, and by the last waiter to leave a pending round. If a step
// sets a position at the same time, that is newer and may stay.
func (t *roundIO) clearPosition() {
	t.position.Store(nil)
	if t.positionPromise.Load() == nil {
		return // a promise that is made now finds no position
	}
	if p := t.positionPromise.Swap(nil); p != nil {
		p.Settle(struct{}{}, nil)
	}
}
