// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"

	"github.com/holdfast-go/holdfast/state"
)

// A turn is a goroutine's place in the line of a [Mutex], and then its time inside.
// Its Hold points to the turn's own round, of which it is the only holder, so that a
// Hold of a Mutex is like any other Hold. That round has no node and no steps; it is
// not in the chain of the lock's rounds, and nothing wakes its I/O. Its word decides, as
// any round's does, whether a waiter gets the lock or gives up, and whether a holder
// releases the lock or loses it:
//
//	FETCHING/1   waits: in the line
//	RETAINED/1   holds: Mutex.inside
//	RELEASING/0  has left, or has lost the lock; Mutex.inside until its holder leaves
//
// The turn learns from a round of the private lock, its host, what a holder is told:
// of the grant, of other processes that wait, and of the loss.
type turn struct {
	membership
	round   round
	io      roundIO
	signals signals
	tenure  tenure // the host's, with the number of the turn

	// Protected by Mutex.mu.
	prev, next *turn
	waits      bool // it is in the line
}

// A membership ties a round to a Mutex. That of a turn's round has the turn. That of a
// round of the private lock has none.
type membership struct {
	mutex *Mutex
	turn  *turn
}

// newTurn returns a turn that waits, and is not in the line yet.
func newTurn(x *Mutex) *turn {
	t := new(turn)
	t.membership = membership{x, t}
	t.round.lock = x.lock
	t.round.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.Arrive(false) })
	t.io.round = &t.round
	t.signals.member.Store(&t.membership)
	t.io.signalled.Store(&t.signals)
	t.round.made.Store(&t.io)
	return t
}

// turn returns the turn that r is the round of; nil if r is not one's.
func (r *round) turn() *turn {
	if t := r.made.Load(); t != nil {
		return t.turn()
	}
	return nil
}

// turn returns the turn that t belongs to; nil if it does not belong to one.
func (t *roundIO) turn() *turn {
	if m := t.membership(); m != nil {
		return m.turn
	}
	return nil
}

// membership returns the round's membership of a Mutex; nil if it has none.
func (t *roundIO) membership() *membership {
	if s := t.signalled.Load(); s != nil {
		return s.member.Load()
	}
	return nil
}

// tellMutex tells the Mutex of news, if this is a round of its private lock: the round
// was granted, ended or revoked, or has seen that another process waits.
//
// The caller notes the news first. Mutex.ask stores the membership before the Mutex
// looks for news: at least one of the two sees the other.
func (t *roundIO) tellMutex() {
	if m := t.membership(); m != nil && m.turn == nil {
		m.mutex.heard(t)
	}
}

// left is called when the last handle of the turn's holder has been released: e is what
// that did to the word.
func (t *turn) left(e state.Effect) {
	x := t.mutex
	switch e {
	case state.Ended:
		t.io.settleGrant() // the granter may be between its CAS and settling the future
		if t.tenure.lease.InForce() {
			t.io.endReason.Store(releasedHeld)
		} else {
			t.io.endReason.Store(releasedLate)
			t.io.released.Settle(struct{}{}, t.io.lost("release", leaseOver))
			x.host().fail(t.io.lost("hold", leaseOver)) // it is not for the next in the line
		}
		x.advance(t)
	case state.Withdrawn:
		x.leave(t)
		// Unless the granter found it withdrawn, or it was ended by force.
		t.round.word.Apply(state.Word.Cancel)
		t.io.abandoned()
		_, err, _ := t.io.granted.Future().Poll()
		t.io.released.Settle(struct{}{}, err)
		x.advance(nil) // if it was the last that waited, the process leaves the queue
	default: // it had lost the lock, or its wait had failed
		if x.leave(t) {
			x.advance(nil)
		}
	}
}

// ended is called when the turn was ended by force. It counts in its process until its
// holder releases it.
func (t *turn) ended(err *Error) {
	t.io.released.Settle(struct{}{}, err)
	x := t.mutex
	x.mu.Lock()
	waited, holds, host := x.remove(t), x.inside == t, x.hold.round
	x.mu.Unlock()
	switch {
	case waited:
		x.advance(nil)
	case holds:
		host.fail(err) // a caller may have noticed the loss first, by this turn
	}
}

// isInside reports whether the turn keeps others of its process out.
func (t *turn) isInside() bool {
	t.mutex.mu.Lock()
	defer t.mutex.mu.Unlock()
	return t.mutex.inside == t
}

// admitted is called when the turn has been granted the lock, by its host.
func (t *turn) admitted(host *roundIO) {
	host.settleGrant()
	t.learn(host)
	if t.io.wantsContention() {
		host.contention()
	}
	t.io.settleGrant()
	if r := host.round; t.tenure.turn > 1 && !r.flags.Load().Has(state.GrantTold) {
		// The second turn is to the other processes what a newcomer is.
		host.entered()
		r.flags.Set(state.GrantTold)
	}
}

// learn tells the turn, which holds the lock, what its host's holders are told.
func (t *turn) learn(host *roundIO) {
	if host.events.Load().Has(state.Contended) {
		t.io.seeContention()
	}
	if r := host.revokedBy(); r != nil {
		t.signals.revoked.Settle(r, nil)
	}
	if err, lost := errors.AsType[*Error](host.lostErr()); lost {
		t.round.fail(err)
	}
}

// follow settles the turn's release as that of its host h settles, and at once if the
// process keeps the lock.
func (t *turn) follow(h Hold, kept bool) {
	switch {
	case t == nil:
	case kept:
		t.io.released.Settle(struct{}{}, nil)
	default:
		t.io.released.Follow(h.Released())
	}
}
