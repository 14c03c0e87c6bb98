// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strconv"
)

// MaxHolders is the largest number of holders that a [Word] can count. A
// transition that would exceed it has the effect [Full].
const MaxHolders = 1<<holderBits - 1

// A Word is the phase of a round and the number of its holders:
//
//	bits [28:32]  phase    Free, Fetching, Retained, Releasing, Released
//	bits  [0:28]  holders  0 … MaxHolders
//
// The count is in the low bits so that it changes by adding and subtracting one,
// and so that the words of a phase are consecutive: "retained and not full" is a
// single comparison. The price is that an overflow would carry into the phase and
// an underflow would borrow from it, so every transition checks the count before
// it changes it.
//
// The zero value is free/0, the word of a round that has not been started.
//
// The methods named after an event ([Word.Arrive], [Word.Leave] and so on) are
// transitions, for use with [Atomic.Apply]: pure functions that return the word
// after the event, and its effect.
//
// A word is corrupt if its phase has no name, or if its count is not 0 in a phase
// where it must be ([Free], [Releasing], [Released]). No transition returns a
// corrupt word, and every transition panics if it is called on one.
type Word uint32

const (
	phaseBits  = 4
	holderBits = 32 - phaseBits
	holderMask = 1<<holderBits - 1

	one Word = 1 // one holder

	free0      = Word(Free) << holderBits
	fetching0  = Word(Fetching) << holderBits
	retained0  = Word(Retained) << holderBits
	releasing0 = Word(Releasing) << holderBits
	released0  = Word(Released) << holderBits
)

// If the phases did not fit into their bits, this constant would be negative and
// the package would not compile.
const _ = uint(1<<phaseBits - numPhases)

// Pack returns the word with phase p and the given number of holders. It panics
// if either does not fit, but not if the word is corrupt.
func Pack(p Phase, holders int) Word {
	if p >= numPhases || holders < 0 || holders > MaxHolders {
		panic("state: no word for " + p.String() + "/" + strconv.Itoa(holders))
	}
	return Word(p)<<holderBits | Word(holders)
}

// Phase returns the word's phase.
func (w Word) Phase() Phase { return Phase(w >> holderBits) }

// Holders returns the word's number of holders, 0 to [MaxHolders].
func (w Word) Holders() int { return int(w & holderMask) }

// String returns the word as "phase/holders", for example "retained/3".
func (w Word) String() string {
	return w.Phase().String() + "/" + strconv.Itoa(w.Holders())
}

// Arrive is the arrival of a goroutine that wants the lock. gateClosed says
// whether the round's gate is closed. It must be read between the load of the
// word and the swap, as in a function given to [Atomic.Apply] that reads it and
// calls Arrive. If the gate closes between that read and the swap, the round
// gains one more holder, which does no harm.
//
//	free/0                    → fetching/1     Started   gate open or closed
//	fetching/n, gate open     → fetching/n+1   Joined
//	retained/n, gate open     → retained/n+1   Entered
//	n = MaxHolders, gate open → unchanged      Full
//	any other                 → unchanged      Next
func (w Word) Arrive(gateClosed bool) (next Word, e Effect) {
	if gateClosed || !w.Admits() { // fast path, short enough to be inlined
		next, e = w.arriveSlow(gateClosed)
		return next, e
	}
	return w + one, Entered
}

// Admits reports whether a caller that arrives at an open gate enters: whether the
// word is retained and not full, which a single comparison finds.
func (w Word) Admits() bool { return w-retained0 < MaxHolders }

func (w Word) arriveSlow(gateClosed bool) (Word, Effect) {
	w.check()
	switch w.Phase() {
	case Free:
		return fetching0 + one, Started
	case Fetching, Retained:
		if gateClosed {
			return w, Next
		}
		return w.addOne()
	default: // Releasing, Released
		return w, Next
	}
}

// Pin counts one more holder on behalf of a caller that is itself counted: for a
// handle to give to another goroutine. It ignores the gate, since its caller
// keeps the round from ending anyway.
//
//	fetching/n, n > 0     → fetching/n+1   Joined
//	retained/n, n > 0     → retained/n+1   Entered
//	n = MaxHolders        → unchanged      Full
//	releasing/0           → unchanged      Dead
//	released/0            → unchanged      Dead
//
// It panics on free/0, fetching/0 and retained/0, where the caller cannot be
// counted.
func (w Word) Pin() (Word, Effect) {
	w.check()
	switch w.Phase() {
	case Fetching, Retained:
		if w.Holders() > 0 {
			return w.addOne()
		}
	case Releasing, Released:
		return w, Dead
	}
	panic("state: pin of a lock with no holders (" + w.String() + ")")
}

// addOne counts one more holder in a word that is Fetching or Retained.
func (w Word) addOne() (Word, Effect) {
	switch {
	case w.Holders() == MaxHolders:
		return w, Full // one more would carry into the phase
	case w.Phase() == Fetching:
		return w + one, Joined
	default:
		return w + one, Entered
	}
}

// Leave is the departure of a goroutine that is counted: a holder that releases
// or a waiter that gives up, depending on the phase.
//
//	fetching/n, n > 1   → fetching/n-1   Left
//	fetching/1          → fetching/0     Withdrawn   the caller submits the cancel
//	retained/n, n > 1   → retained/n-1   Left
//	retained/1          → releasing/0    Ended       the caller submits the deletion
//	releasing/0         → unchanged      Dead        the handle of a dead round
//	released/0          → unchanged      Dead
//
// It panics on free/0, fetching/0 and retained/0, where the caller cannot be
// counted: a departure was counted twice.
func (w Word) Leave() (next Word, e Effect) {
	if !w.Shared() { // fast path, inlined as in Arrive
		next, e = w.leaveSlow()
		return next, e
	}
	return w - one, Left
}

// LeaveIdle is Leave for a lock that lingers: its last holder leaves it to the next
// arrival, and the round goes on with no holder.
//
//	retained/1   → retained/0   Idled
//	any other    → as Leave
//
// Whether a lock may linger is up to the caller, who reads that between the load of
// the word and the swap, as the gate in [Word.Arrive], and again after the swap: a
// goroutine that wants the round to end says so first, and then tries EndIdle.
func (w Word) LeaveIdle() (Word, Effect) {
	if w.Last() {
		return retained0, Idled
	}
	return w.Leave()
}

// Last reports whether the round is held by one holder, whose departure ends it or
// leaves it idle.
func (w Word) Last() bool { return w == retained0+one }

// Shared reports whether the round is held by more than one holder, which a single
// comparison finds.
func (w Word) Shared() bool { return w-(retained0+2) <= MaxHolders-2 }

// Idle reports whether the round is retained and has no holder.
func (w Word) Idle() bool { return w == retained0 }

// EndIdle ends a round that is idle. A holder that has entered keeps it.
//
//	retained/0   → releasing/0   Ended
//	any other    → unchanged     Nothing
func (w Word) EndIdle() (Word, Effect) {
	w.check()
	if w.Idle() {
		return releasing0, Ended
	}
	return w, Nothing
}

func (w Word) leaveSlow() (Word, Effect) {
	w.check()
	switch {
	case w >= releasing0:
		return w, Dead
	case w.Holders() == 0: // one less would borrow from the phase
		panic("state: leave of a lock with no holders (" + w.String() + ")")
	case w == fetching0+one:
		return fetching0, Withdrawn
	case w == retained0+one:
		return releasing0, Ended
	default:
		return w - one, Left
	}
}

// Grant is the moment at which this process owns the lock, because the round's
// node is first in the queue.
//
//	fetching/n, n > 0   → retained/n    Granted
//	fetching/0          → releasing/0   Abandoned   every waiter has withdrawn
//	any other           → unchanged     Dead        the round has ended meanwhile
//
// It panics on retained/n, since a round is granted once.
func (w Word) Grant() (Word, Effect) {
	w.check()
	switch {
	case w == fetching0:
		return releasing0, Abandoned
	case w.Phase() == Fetching:
		return w + (retained0 - fetching0), Granted
	case w.Phase() == Retained:
		panic("state: grant of a lock that is granted already (" + w.String() + ")")
	default:
		return w, Dead
	}
}

// LetIn counts the n waiters of the next round as holders of this one, which they enter
// together: see [Word.Merge]. The gate is the caller's to look at.
//
//	retained/m, m+n <= MaxHolders → retained/m+n   Entered
//	retained/m, m+n > MaxHolders  → unchanged      Full
//	any other                     → unchanged      Dead
func (w Word) LetIn(n int) (Word, Effect) {
	w.check()
	switch {
	case w.Phase() != Retained:
		return w, Dead
	case n > MaxHolders-w.Holders():
		return w, Full
	default:
		return w + Word(n), Entered
	}
}

// Merge ends a round that waits for the round before it, because its waiters have become
// holders of that one: the caller has counted them there, by [Word.LetIn]. Such a round
// never had a node, so it is released at once.
//
//	fetching/n   → released/0   Merged
//	any other    → unchanged    Dead
func (w Word) Merge() (Word, Effect) {
	w.check()
	if w.Phase() != Fetching {
		return w, Dead
	}
	return released0, Merged
}

// Cancel ends a round whose last waiter has [Withdrawn], unless another goroutine
// has joined since.
//
//	fetching/0   → releasing/0   Abandoned
//	any other    → unchanged     Nothing
func (w Word) Cancel() (Word, Effect) {
	w.check()
	if w == fetching0 {
		return releasing0, Abandoned
	}
	return w, Nothing
}

// End ends the round by force, in spite of its waiters or holders: it has failed,
// the lock is lost, or the process is closing. All handles of the round are dead
// from then on, and a later [Word.Leave] has the effect [Dead].
//
//	fetching/n   → releasing/0   Ended
//	retained/n   → releasing/0   Ended
//	any other    → unchanged     Nothing
func (w Word) End() (Word, Effect) {
	w.check()
	switch w.Phase() {
	case Fetching, Retained:
		return releasing0, Ended
	default:
		return w, Nothing
	}
}

// Finish is the end of a round's clean-up: nothing of it is left in ZooKeeper.
//
//	releasing/0   → released/0   Finished
//
// It panics on any other word, since a round is finished once, after it has ended.
func (w Word) Finish() (Word, Effect) {
	w.check()
	if w != releasing0 {
		panic("state: finish of a round that is not releasing (" + w.String() + ")")
	}
	return released0, Finished
}

// check panics if w is corrupt.
func (w Word) check() {
	switch w.Phase() {
	case Fetching, Retained:
		return
	case Free, Releasing, Released:
		if w.Holders() == 0 {
			return
		}
	}
	panic(fmt.Sprintf("state: corrupt word %#08x (%v)", uint32(w), w))
}
