// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strconv"
)

// MaxHolders is the largest number of holders that a [Word] can count. One
// more is refused with [Full].
const MaxHolders = 1<<holderBits - 1

// A Word is the phase of a round and the number of its holders:
//
//	bits [28:32]  phase    Free, Fetching, Retained, Releasing, Released
//	bits  [0:28]  holders  0 … MaxHolders
//
// The count is in the low bits so that one more and one less are plus one and
// minus one, and so that all words of one phase are neighbours: "retained, and
// not full" is a single comparison. The price is that a count that overflowed
// would carry into the phase, and one that underflowed would borrow from it.
// So every transition looks at the count before it changes it.
//
// The zero value is free/0, the word of a round that nobody has wanted yet.
//
// The methods named after an event ([Word.Arrive], [Word.Leave] and so on) are
// transitions: pure functions that return the word after the event and what is
// to be done about it. If the returned word is the old one, nothing is to be
// swapped. They are for [Atomic.Apply].
//
// A word whose phase has no name, or whose count is not 0 in a phase where it
// is always 0 ([Free], [Releasing], [Released]), is corrupt. No transition
// makes one, and every transition panics when it is given one.
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

// The phases fit into their bits: otherwise this constant is negative, and the
// package does not compile.
const _ = uint(1<<phaseBits - numPhases)

// Pack returns the word with phase p and the given number of holders. It
// panics if either does not fit; it does not ask whether a round can be in
// that state.
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

// Arrive is the arrival of somebody who wants the lock. gateClosed says that
// the round's gate is closed; it must have been read after the word was loaded
// and before it is swapped, which a function that calls Arrive under
// [Atomic.Apply] does by itself. Somebody who slips past a gate that closes
// between the two is one holder more, which does no harm.
//
//	free/0                    → fetching/1     Started   whatever the gate says
//	fetching/n, gate open     → fetching/n+1   Joined
//	retained/n, gate open     → retained/n+1   Entered
//	n = MaxHolders, gate open → unchanged      Full
//	any other                 → unchanged      Next
func (w Word) Arrive(gateClosed bool) (next Word, e Effect) {
	// The path that has to be fast, and is written so that the compiler can
	// inline it: one comparison for "not retained, or full".
	if gateClosed || w-retained0 >= MaxHolders {
		next, e = w.arriveSlow(gateClosed)
		return next, e
	}
	return w + one, Entered
}

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

// Pin counts one holder more, beside one that the caller already has: for a
// handle that is to be handed to another goroutine. It takes no notice of the
// gate, since its caller keeps the round from ending anyway.
//
//	fetching/n, n > 0     → fetching/n+1   Joined
//	retained/n, n > 0     → retained/n+1   Entered
//	n = MaxHolders        → unchanged      Full
//	releasing/0           → unchanged      Dead
//	released/0            → unchanged      Dead
//
// It panics on free/0, fetching/0 and retained/0: the caller's own hold is
// missing from the count.
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

// addOne counts one holder more in a word that is Fetching or Retained.
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

// Leave is the departure of somebody who is counted: a holder who releases, or
// one who waits and gives up. It is whichever of the two the phase makes it.
//
//	fetching/n, n > 1   → fetching/n-1   Left
//	fetching/1          → fetching/0     Withdrawn   the leaver submits the cancel
//	retained/n, n > 1   → retained/n-1   Left
//	retained/1          → releasing/0    Ended       the leaver submits the deletion
//	releasing/0         → unchanged      Dead        the handle of a dead round
//	released/0          → unchanged      Dead
//
// It panics on free/0, fetching/0 and retained/0: somebody left twice.
func (w Word) Leave() (next Word, e Effect) {
	// Fast and inlined, as Arrive is: "not retained, or the last".
	if w-(retained0+2) > MaxHolders-2 {
		next, e = w.leaveSlow()
		return next, e
	}
	return w - one, Left
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

// Grant is the moment when this process owns the lock: the node is there and
// first in line.
//
//	fetching/n, n > 0   → retained/n    Granted
//	fetching/0          → releasing/0   Abandoned   nobody is left to want it
//	any other           → unchanged     Dead        the round was ended meanwhile
//
// It panics on retained/n: a round is granted once.
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

// Cancel carries out a withdrawal, unless somebody has joined since: the cancel
// that was submitted for [Withdrawn] begins with it.
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

// End ends the round by force, whoever waits for it or holds it: it has failed,
// or the lock is lost, or the process is closing. One step takes all holders
// out at once; their handles are dead from then on, and whoever leaves later
// finds [Dead].
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
// It panics on any other word: a round is finished once, by the one who
// released it.
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
