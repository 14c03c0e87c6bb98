// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// position is where a round stands in the queue, behind at least one contender. There
// is one for each lock that the process waits for, so it is small.
type position struct {
	at    int64  // when it was there, on the manager's clock
	of    *ahead // the contender that it waits for; nil if that has just gone
	first *ahead // the one whose turn it is; nil if that is not known
	ahead int32  // contenders ahead that exclude this one
}

// contender returns the contender that the round waits for; nil if that is not known.
func (p *position) contender() *Contender {
	if p.of == nil {
		return nil
	}
	return p.of.contender()
}

// holder returns the contender whose turn it is; nil if that is not known.
func (p *position) holder() *Contender {
	if p.first == nil {
		return nil
	}
	c := p.first.contender()
	c.Holds = true
	return c
}

// A whereabouts is a roundIO in the role of one that stands in a queue, and says where.
type whereabouts roundIO

func (t *roundIO) whereabouts() *whereabouts { return (*whereabouts)(t) }

// positionPromise is the promise of a position.
type positionPromise struct{ futures.Promise[struct{}] }

// known returns a future that settles when the round's position is known
// or may have changed. The position may be cleared again by then, with the node:
// look, and if there is none, ask again. A round that is granted or fails at once
// never settles the future.
func (t *whereabouts) known() *futures.Future[struct{}] {
	p := t.promise()
	// set stores the position before it looks for a promise, and this is
	// the other way round: at least one sees the other.
	if t.position.Load() != nil {
		p.Settle(struct{}{}, nil)
	}
	return p.Future()
}

// promise returns the promise of the next position, and makes it on first
// use: few callers wait for one. clear may take it back at any moment.
func (t *whereabouts) promise() *positionPromise {
	for {
		s := t.signals()
		if p := s.position.Load(); p != nil {
			return p
		}
		s.position.CompareAndSwap(nil, new(positionPromise))
	}
}

// promised returns the promise of the next position; nil if no caller waits for it.
func (t *whereabouts) promised() *positionPromise {
	if s := t.signalled.Load(); s != nil {
		return s.position.Load()
	}
	return nil
}

// set stores the position. Only steps call it.
//
// A caller that finds the promise settled looks for the position, and if there is
// none waits for the next promise. So a settled promise must not stay without a
// position. set and known load the promise before the position, and only then
// settle it; clear clears the position before it takes the promise. In every
// interleaving the promise is unsettled, replaced, or has a position.
func (t *whereabouts) set(p *position) {
	t.events.Raise(state.Waited)
	t.position.Store(p)
	if promise := t.promised(); promise != nil && t.position.Load() == p {
		promise.Settle(struct{}{}, nil)
	}
}

// clear notes that the position is lost or unknown. Callers that ask for
// it from now on wait for the next one; existing waiters wake and ask again. It
// is called by steps, and by the last waiter to leave a pending round. If a step
// sets a position at the same time, that is newer and may stay.
func (t *whereabouts) clear() {
	t.position.Store(nil)
	if t.promised() == nil {
		return // a promise that is made now finds no position
	}
	if p := t.signals().position.Swap(nil); p != nil {
		p.Settle(struct{}{}, nil)
	}
}
