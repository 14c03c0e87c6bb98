// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// Handles is the second packed word: the life of one holder's handles.
//
// A holder begins with one handle, its first, and gains one for each reentry.
// Every handle can be released once. The word lives in an object that is used
// by one holder after another, so it also carries a generation: a handle knows
// the generation it was made in, and one of an earlier generation finds that
// it is dead, however long ago that was.
//
//	bits [25:64]  generation
//	bits [24]     the first handle is in doubt
//	bits [23]     the first handle has been released
//	bits [0:23]   depth: handles that are not released
//
// Depth is at the bottom because it changes by one; the generation is on top
// because it only grows, and its overflow then cannot disturb its neighbours.
// An object whose generation is [LastGeneration] must not be used again: that
// is how a generation of 39 bits never repeats.
//
// The word of an object that nobody uses is armed: depth 1 in a generation
// that no handle has yet. The next holder takes it by reading it, without a
// compare-and-swap.
type Handles uint64

// MaxDepth is the greatest number of unreleased handles of one holder.
const MaxDepth = 1<<depthBits - 1

// LastGeneration is the generation in which an object is used for the last time.
const LastGeneration = 1<<(64-generationAt) - 1

const (
	depthBits     = 23
	depthMask     = 1<<depthBits - 1
	firstReleased = 1 << depthBits
	inDoubt       = 1 << (depthBits + 1)
	generationAt  = depthBits + 2

	// armed is the word of generation 0 before its first use.
	armed Handles = 1
)

// Depth returns the number of handles that are not released.
func (h Handles) Depth() int { return int(h & depthMask) }

// Generation returns the generation of the present handles.
func (h Handles) Generation() uint64 { return uint64(h >> generationAt) }

// FirstReleased reports whether the first handle has been released.
func (h Handles) FirstReleased() bool { return h&firstReleased != 0 }

// InDoubt reports whether somebody is about to withdraw the first handle.
func (h Handles) InDoubt() bool { return h&inDoubt != 0 }

// Alive reports whether the first handle of the given generation has not been
// released.
func (h Handles) Alive(generation uint64) bool {
	return h.Generation() == generation && !h.FirstReleased()
}

// Doubt begins the withdrawal of the first handle of the given generation by
// somebody who found that it was not granted. Between that look and the
// withdrawal the grant may come, and the handle be used. So he looks again after
// Doubt, takes it back by Confirm if the grant has come, and withdraws by
// ReleaseDoubted if not; and whoever uses a handle that is granted calls Confirm
// first if it is in doubt. Its effect is Dead if the handle is, else Nothing.
func (h Handles) Doubt(generation uint64) (Handles, Effect) {
	if !h.Alive(generation) {
		return h, Dead
	}
	return h | inDoubt, Nothing
}

// Confirm takes a doubt back. Its effect is Dead if the handle is, else Nothing.
func (h Handles) Confirm(generation uint64) (Handles, Effect) {
	if !h.Alive(generation) {
		return h, Dead
	}
	return h &^ inDoubt, Nothing
}

// ReleaseDoubted is ReleaseFirst of a handle that is still in doubt; if it is
// not, its effect is Dead.
func (h Handles) ReleaseDoubted(generation uint64) (Handles, Effect) {
	if !h.InDoubt() {
		return h, Dead
	}
	return h.ReleaseFirst(generation)
}

// next is the armed word of the following generation.
func (h Handles) next() Handles { return Handles(h.Generation()+1)<<generationAt | armed }

// Reenter adds a handle to the holder of the given generation. Its effect is
// Entered; Dead if that generation is over; Full at MaxDepth.
func (h Handles) Reenter(generation uint64) (Handles, Effect) {
	switch {
	case h.Generation() != generation:
		return h, Dead
	case h.Depth() == MaxDepth:
		return h, Full
	}
	return h + 1, Entered
}

// ReleaseFirst releases the first handle of the given generation. Its effect
// is Dead if that was done before, and Ended if it was the only handle: the
// generation is then over. If there are others it is Left, and the first handle,
// though dead, still counts: so the object cannot be used again before the
// caller has done what there is to do about the handle, and has taken the count
// back by ReleaseNested.
func (h Handles) ReleaseFirst(generation uint64) (Handles, Effect) {
	switch {
	case !h.Alive(generation):
		return h, Dead
	case h.Depth() == 1:
		return h.next(), Ended
	}
	return h&^inDoubt | firstReleased, Left
}

// ReleaseNested takes back the count of a handle that a reentry made, or of a
// first handle whose ReleaseFirst has Left it. The caller has made sure that
// nobody else does, so that there is something to take back. Its effect is Left,
// or Ended if it was the last.
func (h Handles) ReleaseNested() (Handles, Effect) {
	if h.Depth() == 1 {
		return h.next(), Ended
	}
	return h - 1, Left
}

// AtomicHandles is a Handles word that any number of goroutines may change.
// It is changed by compare-and-swap only. Make one with Arm.
//
// It is an atomic of package sync/atomic because that one is aligned to 64
// bits on 32-bit machines.
type AtomicHandles struct{ w atomic.Uint64 }

// Arm makes the word that of an object that nobody has used. It may be called
// only before the object is shared.
func (a *AtomicHandles) Arm() { a.w.Store(uint64(armed)) }

// Load returns the word.
func (a *AtomicHandles) Load() Handles { return Handles(a.w.Load()) }

// Reenter applies [Handles.Reenter] and returns its effect.
func (a *AtomicHandles) Reenter(generation uint64) Effect {
	for {
		old := a.Load()
		h, e := old.Reenter(generation)
		if e != Entered || a.w.CompareAndSwap(uint64(old), uint64(h)) {
			return e
		}
	}
}

// ReleaseFirst applies [Handles.ReleaseFirst] and returns its effect. Of the
// goroutines that release the same handle, the one whose compare-and-swap wins
// gets Left or Ended, every other one Dead.
func (a *AtomicHandles) ReleaseFirst(generation uint64) Effect {
	for {
		old := a.Load()
		h, e := old.ReleaseFirst(generation)
		if e == Dead || a.w.CompareAndSwap(uint64(old), uint64(h)) {
			return e
		}
	}
}

// ReleaseOnly is ReleaseFirst for the usual case, without a look at the word: it
// releases the first handle of the given generation if that is the only one, and
// nobody doubts it, by one compare-and-swap. It reports whether it did, which is
// ReleaseFirst's Ended. If not, nothing has changed, and ReleaseFirst says why.
func (a *AtomicHandles) ReleaseOnly(generation uint64) bool {
	only := Handles(generation)<<generationAt | armed
	return a.w.CompareAndSwap(uint64(only), uint64(only.next()))
}

// Doubt applies [Handles.Doubt] and returns its effect.
func (a *AtomicHandles) Doubt(generation uint64) Effect { return a.apply(Handles.Doubt, generation) }

// Confirm applies [Handles.Confirm] and returns its effect. Of a Confirm and a
// ReleaseDoubted that race, the one whose compare-and-swap is first decides.
func (a *AtomicHandles) Confirm(generation uint64) Effect {
	return a.apply(Handles.Confirm, generation)
}

// ReleaseDoubted applies [Handles.ReleaseDoubted] and returns its effect.
func (a *AtomicHandles) ReleaseDoubted(generation uint64) Effect {
	return a.apply(Handles.ReleaseDoubted, generation)
}

func (a *AtomicHandles) apply(t func(Handles, uint64) (Handles, Effect), generation uint64) Effect {
	for {
		old := a.Load()
		h, e := t(old, generation)
		if h == old || a.w.CompareAndSwap(uint64(old), uint64(h)) {
			return e
		}
	}
}

// ReleaseNested applies [Handles.ReleaseNested] and returns its effect.
func (a *AtomicHandles) ReleaseNested() Effect {
	for {
		old := a.Load()
		h, e := old.ReleaseNested()
		if a.w.CompareAndSwap(uint64(old), uint64(h)) {
			return e
		}
	}
}
