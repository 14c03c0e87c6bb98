// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/futures"

// place is where a round stands in the queue.
type place struct {
	position int        // contenders ahead that exclude us
	ahead    *Contender // the nearest of them
}

// placing is the promise of a place.
type placing struct{ futures.Promise[struct{}] }

// placed returns a future that settles when the round's place is known to be
// behind somebody. It may have been lost again by then, with the node; a round
// that is granted or fails at once never settles it.
func (t *trip) placed() *futures.Future[struct{}] {
	for {
		if p := t.placing.Load(); p != nil {
			return p.Future()
		}
		t.placing.CompareAndSwap(nil, new(placing))
	}
}

// setPlace notes the place. It is called by step.
func (t *trip) setPlace(p *place) {
	t.place.Store(p)
	t.placed() // makes the promise, if nobody waits for it yet
	t.placing.Load().Settle(struct{}{}, nil)
}

// unplace notes that the place is gone, or not known any more. Who comes from
// now on waits for the next one. It is called by step, and by the last one who
// leaves a pending round; if step sets a place at the same time, that is news,
// and may stay.
func (t *trip) unplace() {
	t.placing.Store(nil)
	t.place.Store(nil)
}
