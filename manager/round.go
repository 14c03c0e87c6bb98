// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/state"
)

// A round is one trip of a lock from FREE to RELEASED. It owns the lock's word
// while it is the present one, and everything that its holders share hangs on
// it. A round is never used again, so a compare-and-swap on its word can only
// ever affect that round: a hold of a dead round cannot touch another's count.
//
// The rounds of a lock are a chain, linked by next, of which Lock.cur is the
// present one. Newcomers who meet a round that takes nobody any more go on to
// its next, which they make if need be; being counted there is all it takes to
// be in line. The rules of the chain, which a model checker has gone through:
//
//   - next is made by CAS(nil -> new), once. When the round is RELEASED its
//     releaser makes it if nobody has, stores it in Lock.cur, and only then
//     replaces it by passed: cur moves forward only, and an old Hold that keeps
//     this round alive keeps no later one alive.
//   - Only cur is ever fetched. The fetch is due when the round is wanted (its
//     word has left FREE) and its predecessor is RELEASED; both are flags of
//     one atomic word, and who sets the second of them submits the fetch.
//     Before that nobody else can wake the trip; the predecessor's may queue
//     for it in the request that takes the predecessor's own node away.
//   - A round that is ended by force before its predecessor is RELEASED waits
//     for it: rounds become RELEASED in the order of the chain.
//
// A round that nobody wanted yet is all that an idle lock has, so it is small;
// what it takes to go to ZooKeeper and back is in its trip, made when needed.
type round struct {
	lock  *Lock
	next  atomic.Pointer[round]   // nil, then the next round, then passed
	made  atomic.Pointer[roundIO] // see trip; made by CAS(nil -> new) by whoever needs it first
	word  state.Atomic
	flags state.AtomicFlags
}

// passed is the next of a round that is RELEASED and no longer Lock.cur: who
// finds it loads Lock.cur and starts again.
var passed = new(round)

// io returns the round's roundIO, and makes it on first use.
func (r *round) io() *roundIO {
	if t := r.made.Load(); t != nil {
		return t
	}
	return r.makeIO()
}

func (r *round) makeIO() *roundIO {
	t := &roundIO{round: r}
	if r.made.CompareAndSwap(nil, t) {
		return t
	}
	return r.made.Load() // another goroutine was first
}

// following returns the round after r, or passed.
func (r *round) following() *round {
	if n := r.next.Load(); n != nil {
		return n
	}
	n := &round{lock: r.lock}
	if r.next.CompareAndSwap(nil, n) {
		return n
	}
	return r.next.Load()
}

// arrive counts the caller in: in this round, or in the first after it that
// takes newcomers; one who may pass a closed gate is no newcomer. It returns that
// round, what the caller is there (Started, Joined or Entered; or Full: not
// counted), and the races lost on the way.
//
// It takes no lock, reads no clock and does no I/O. After Started it hands the
// fetch to the pool if it is due.
func (r *round) arrive(pass bool) (_ *round, e state.Effect, lost int) {
	for {
		var n int
		_, e, n = r.word.Apply(func(w state.Word) (state.Word, state.Effect) {
			// The gate is read between the load of the word and its swap. If it
			// closes right after, the newcomer is one more holder: harmless.
			return w.Arrive(!pass && r.flags.Load().Has(state.GateClosed))
		})
		lost += n
		switch e {
		case state.Next:
			//holdfast:reached-if !pass && r.word.Load().Phase() == state.Retained: gate: a newcomer goes to the next round
			if next := r.following(); next != passed {
				r = next
			} else {
				//holdfast:reached arrival: the round is passed, starts again at the present one
				r = r.lock.cur.Load()
			}
		case state.Started:
			// Only now, after the CAS: a fetch that began before it would find
			// the round FREE.
			r.want()
			return r, e, lost
		default:
			//holdfast:reached-if e == state.Entered && !pass && r.flags.Load().Has(state.GateClosed): gate: a newcomer slipped past it as it closed
			//holdfast:reached-if lost > 0: arrival: lost a race
			return r, e, lost
		}
	}
}

// want says that somebody's CAS has started the round. If the predecessor was
// released before, the fetch is due; else its releaser submits it.
func (r *round) want() {
	if old := r.flags.Set(state.Wanted); old.Has(state.PrevReleased) && !old.Has(state.Over) {
		r.io().wake()
	}
}

// leave takes one holder's count back, and sets the round's end going if it was
// the last one. It returns the word as it was until then.
//
// On a round that is over it does nothing: the CAS that ended the round took
// all counts with it.
func (r *round) leave() (state.Word, state.Effect) {
	w, e, lost := r.word.Apply(state.Word.Leave)
	r.left(e, lost)
	return w, e
}

// left does what is to be done about a departure with the effect e, after so
// many lost races.
func (r *round) left(e state.Effect, lost int) {
	r.lock.noteRaces(lost)
	switch e {
	case state.Ended:
		t := r.io()
		t.settleGrant() // who ends a round settles what is pending in it
		// The one look at the clock in a Release, by the last of the round's
		// holders: later it could not be told whether the lock was ours now.
		if t.tenure.lease.InForce() {
			t.end(releasedHeld)
		} else {
			//holdfast:reached release: the last holder left when the lease was over
			t.end(releasedLate)
		}
	case state.Withdrawn:
		// The round stays joinable: an arrival may defeat us. If its fetch is
		// not due yet there is nothing to cancel, and the fetch will find out.
		// The fetch looks at the word after both flags are set, and we look at
		// the flags after our change of the word: one of us sees the other.
		due := r.due()
		//holdfast:reached-if !due: withdrawal: of a round whose turn has not come
		if due {
			// Who joins now is not to be told of a place that nobody looks
			// after: the wake has it looked at anew.
			t := r.io()
			t.clearPosition()
			t.raise(state.QueueDue)
		}
	}
}

// due reports whether the round's trip may be woken: its predecessor is RELEASED,
// and somebody wants it or has ended it.
func (r *round) due() bool {
	f := r.flags.Load()
	return f.Has(state.PrevReleased|state.Wanted) || f.Has(state.PrevReleased|state.Over)
}

// waits reports whether somebody waits in the round.
func (r *round) waits() bool {
	w := r.word.Load()
	return w.Phase() == state.Fetching && w.Holders() > 0
}

// urgent reports whether what the trip has to do takes something away from
// ZooKeeper: a round that is over, or that everybody has left.
func (r *round) urgent() bool {
	w := r.word.Load()
	return w.Phase() >= state.Releasing || w.Phase() == state.Fetching && w.Holders() == 0
}

// fail ends the round by force: one CAS to RELEASING/0, whatever its count.
// Its handles are dead from then on; everything that is pending in it settles
// with err, Lost closes, and its contexts end. On a round that is over already
// it does nothing.
func (r *round) fail(err *Error) { r.endBy(state.Word.End, err) }

// failPending is fail for a round that has not been granted.
func (r *round) failPending(err *Error) {
	r.endBy(func(w state.Word) (state.Word, state.Effect) {
		if w.Phase() != state.Fetching {
			return w, state.Nothing
		}
		return w.End()
	}, err)
}

func (r *round) endBy(end func(state.Word) (state.Word, state.Effect), err *Error) {
	_, e, lost := r.word.Apply(end)
	r.lock.noteRaces(lost)
	if e != state.Ended {
		return // FREE, or over already
	}
	t := r.io()
	t.granted.Settle(Grant{}, err)
	t.promiseLoss().Settle(struct{}{}, err)
	t.endReason.Store(&endReason{err: err, notBefore: r.lock.m.graceEnd(err)})
	t.notifyLost(err)
	// If the predecessor is not released yet, its releaser will go on for us.
	due := r.flags.Set(state.Over).Has(state.PrevReleased)
	//holdfast:reached-if !due: forced end: of a round whose turn has not come
	if due {
		t.wake()
	}
}

// finish makes the round RELEASED and hands the lock on to the next one, in
// this order; see the rules above. It is called once, by the trip's step.
func (r *round) finish(h *handed) {
	r.word.Apply(state.Word.Finish)
	n := r.following()
	r.lock.cur.Store(n)
	r.next.Store(passed)
	if h != nil {
		r.lock.handed.Store(h)
	}
	old := n.flags.Set(state.PrevReleased)
	if old.Has(state.Over) || old.Has(state.Wanted) {
		n.io().wake()
	}
}
