// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"unsafe"

	"github.com/holdfast-go/holdfast/state"
)

// A turn is a goroutine's place in the line of a [Mutex], and then its time inside.
// Its Hold points to the turn's own share, of which it is the only holder, so that a
// Hold of a Mutex is like any other Hold. The word of the share decides, as that of a round
// does, whether a waiter gets the lock or gives up, and whether a holder releases the lock or
// loses it:
//
//	FETCHING/1   waits: in the line
//	RETAINED/1   holds: turns.inside
//	RELEASING/0  has left, or has lost the lock; turns.inside until its holder leaves
//
// The turn learns from a round of the private lock, its host, what a holder is told:
// of the grant, of other processes that wait, and of the loss.
type turn struct {
	own    promises // first: see promises.turn
	turns  *turns   // of its Mutex
	share  share
	tenure tenure // the host's, with the number of the turn

	prev, next *turn // in the line; protected by turns.mu
}

// turn returns the turn that the share belongs to; nil if that is a round. A turn begins with
// its promises: a pointer back to it, in all promises, would cost each lock more than it is
// worth to the few that belong to turns.
func (p *promises) turn() *turn {
	if p.io != nil {
		return nil
	}
	return (*turn)(unsafe.Pointer(p))
}

const _ = -unsafe.Offsetof(turn{}.own) // does not compile unless it is 0

// newTurn returns a turn that waits, and is not in the line yet.
func newTurn(x *turns) *turn {
	t := &turn{turns: x}
	t.share.lock = x.lock
	t.share.made.Store(&t.own)
	t.share.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.Arrive(false) })
	return t
}

// left is called when the last handle of the turn's holder has been released: e is what
// that did to the word.
func (t *turn) left(e state.Effect) {
	x := t.turns
	switch e {
	case state.Ended:
		t.own.settleGrant() // the granter may be between its CAS and settling the future
		if t.tenure.lease.InForce() {
			t.own.endReason.Store(releasedHeld)
		} else {
			t.own.endReason.Store(releasedLate)
			t.own.released.Settle(struct{}{}, t.share.lost("release", leaseOver))
			x.host().fail(t.share.lost("hold", leaseOver)) // it is not for the next in the line
		}
		x.advance(t)
	case state.Withdrawn:
		x.leave(t)
		// Unless the granter found it withdrawn, or it was ended by force.
		t.share.word.Apply(state.Word.Cancel)
		t.own.abandoned(t.share.error("acquire", ErrNotGranted))
		_, err, _ := t.own.granted.Future().Poll()
		t.own.released.Settle(struct{}{}, err)
		x.advance(nil) // if it was the last that waited, the process leaves the queue
	default: // it had lost the lock, or its wait had failed
		if x.leave(t) {
			x.advance(nil)
		}
	}
}

// ended is called when the turn was ended by force. It counts in its process until its
// holder releases it.
func (t *turn) ended(_ state.Word, err *Error) {
	t.share.tellEnded(err)
	t.own.released.Settle(struct{}{}, err)
	x := t.turns
	x.mu.Lock()
	waited, holds, host := x.remove(t), x.inside == t, x.hold.share
	x.mu.Unlock()
	switch {
	case waited:
		x.advance(nil)
	case holds:
		host.fail(err) // a caller may have noticed the loss first, by this turn
	}
}

// contentionAsked is called when the holder of the turn, which is inside, has called Contended.
func (t *turn) contentionAsked() {
	if host := t.turns.host(); host != nil {
		host.contention()
	}
}

// isInside reports whether the turn keeps others of its process out.
func (t *turn) isInside() bool {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	return t.turns.inside == t
}

// admitted is called when the turn has been granted the lock, by its host.
func (t *turn) admitted(host *roundIO) {
	host.settleGrant()
	t.learn(host)
	if t.share.wantsContention() {
		host.round.contention()
	}
	t.own.settleGrant()
	if r := host.round; t.tenure.turn > 1 && !r.flags.Load().Has(state.GrantTold) {
		// The second turn is to the other processes what a newcomer is.
		host.incumbent().entered()
		r.flags.Set(state.GrantTold)
	}
}

// learn tells the turn, which holds the lock, what its host's holders are told.
func (t *turn) learn(host *roundIO) {
	if host.round.flags.Load().Has(state.Contended) {
		t.share.seeContention()
	}
	if r := host.revokedBy(); r != nil {
		t.own.signals().revoked.Settle(r, nil)
	}
	if err, lost := errors.AsType[*Error](host.lostErr()); lost {
		t.share.fail(err)
	}
}

// follow settles the turn's release as that of its host h settles, and at once if the
// process keeps the lock.
func (t *turn) follow(h Hold, kept bool) {
	switch {
	case t == nil:
	case kept:
		t.own.released.Settle(struct{}{}, nil)
	default:
		t.own.released.Follow(h.Released())
	}
}
