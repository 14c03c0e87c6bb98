// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/futures"

// place is where a round stands in the queue.
type place struct {
	position int        // contenders ahead that exclude us, when the queue was last looked at
	ahead    *Contender // the one of them that is watched
}

// placing is the promise of a place.
type placing struct{ futures.Promise[struct{}] }

// placed returns a future that settles when the round's place is known to be
// behind somebody, or when that may have changed. The place may have been lost
// again by then, with the node: look, and ask anew. A round that is granted or
// fails at once never settles it.
func (t *trip) placed() *futures.Future[struct{}] {
	p := t.promised()
	// Against setPlace, which notes the place and looks for a promise then: one of
	// us sees the other.
	if t.place.Load() != nil {
		p.Settle(struct{}{}, nil)
	}
	return p.Future()
}

// promised returns the promise of the next place, and makes it if nobody waits
// for it yet: few do, so most trips have none. It may be taken back at any
// moment, by unplace.
func (t *trip) promised() *placing {
	for {
		if p := t.placing.Load(); p != nil {
			return p
		}
		t.placing.CompareAndSwap(nil, new(placing))
	}
}

// setPlace notes the place. It is called by step.
//
// Whoever finds the promise settled looks for the place, and if there is none
// takes it that the next promise is the one to wait for. So a settled promise
// must not stay without a place: setPlace and placed look at the promise first and
// at the place then, before they settle it, and unplace takes the place back
// before the promise. In whichever way they are mixed, the promise is not settled,
// or it goes, or the place stays.
func (t *trip) setPlace(p *place) {
	t.place.Store(p)
	if promise := t.placing.Load(); promise != nil && t.place.Load() == p {
		promise.Settle(struct{}{}, nil)
	}
}

// unplace notes that the place is gone, or not known any more. Who comes from
// now on waits for the next one, and so does who was waiting: he is woken to ask
// for it. It is called by step, and by the last one who leaves a pending round;
// if step sets a place at the same time, that is news, and may stay.
func (t *trip) unplace() {
	t.place.Store(nil)
	if t.placing.Load() == nil {
		return // who makes one now finds no place
	}
	if p := t.placing.Swap(nil); p != nil {
		p.Settle(struct{}{}, nil)
	}
}
