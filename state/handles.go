// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// Handles is the state of one holder's handles, packed into a word.
//
// A holder begins with one handle, its first, and gains one with each reentry.
// Each handle can be released once. One holder after another uses the same word,
// so the word has a generation: a handle remembers the generation it was made
// in, and once that has passed, every use of the handle reports that it is dead.
//
//	bits [25:64]  generation
//	bits [24]     the first handle is in doubt
//	bits [23]     the first handle has been released
//	bits [0:23]   depth: handles that are not released
//
// The depth is in the low bits because it changes by one. The generation is in
// the high bits because it only grows, and so cannot carry into a neighbour. A
// word in generation [LastGeneration] must not be used by another holder, so
// generations never repeat.
//
// Between two holders the depth is 0, in a generation that no handle has yet:
//
//	         Take (CAS)          the release of the last handle (CAS)
//	FREE/g ─────────────▶ g, depth 1, 2, … ─────────────────────────▶ SPENT/g+1
//	  ▲                        ▲           Arm                          │
//	  │                        └────────────────────────────────────────┤
//	  └─────────────────────────────────────────────────────────────────┘
//	                                       Free
//
// A word that is spent (depth 0, first handle released) belongs to the goroutine
// whose compare-and-swap spent it, and so does what the word protects. That
// goroutine frees the word, and the caller that takes it by compare-and-swap is the
// next holder; or it passes the word on, and the next owner arms it without one.
type Handles uint64

// MaxDepth is the greatest number of unreleased handles of one holder.
const MaxDepth = 1<<depthBits - 1

// LastGeneration is the last generation of a word.
const LastGeneration = 1<<(64-generationAt) - 1

const (
	depthBits     = 23
	depthMask     = 1<<depthBits - 1
	firstReleased = 1 << depthBits
	inDoubt       = 1 << (depthBits + 1)
	generationAt  = depthBits + 2
)

// Depth returns the number of handles that are not released.
func (h Handles) Depth() int { return int(h & depthMask) }

// Generation returns the generation of the present handles.
func (h Handles) Generation() uint64 { return uint64(h >> generationAt) }

// FirstReleased reports whether the first handle has been released.
func (h Handles) FirstReleased() bool { return h&firstReleased != 0 }

// InDoubt reports whether a withdrawal of the first handle has begun.
func (h Handles) InDoubt() bool { return h&inDoubt != 0 }

// Alive reports whether the first handle of the given generation is not released.
func (h Handles) Alive(generation uint64) bool {
	return h.Generation() == generation && !h.FirstReleased()
}

// Doubt begins the withdrawal of the first handle of the given generation, which
// was not granted when the caller last looked. The grant may have come since,
// and another goroutine may be using the handle. So the caller looks for the
// grant again after Doubt, and calls Confirm if it has come and ReleaseDoubted if
// not; and a goroutine that uses a granted handle in doubt calls Confirm first.
// The effect is Dead if the handle is dead, else Nothing.
func (h Handles) Doubt(generation uint64) (Handles, Effect) {
	if !h.Alive(generation) {
		return h, Dead
	}
	return h | inDoubt, Nothing
}

// Confirm takes a doubt back. The effect is Dead if the handle is dead, else
// Nothing.
func (h Handles) Confirm(generation uint64) (Handles, Effect) {
	if !h.Alive(generation) {
		return h, Dead
	}
	return h &^ inDoubt, Nothing
}

// ReleaseDoubted is ReleaseFirst of a handle that is still in doubt. If the
// handle is not in doubt, the effect is Dead.
func (h Handles) ReleaseDoubted(generation uint64) (Handles, Effect) {
	if !h.InDoubt() {
		return h, Dead
	}
	return h.ReleaseFirst(generation)
}

// free returns the free word of a generation.
func free(generation uint64) Handles { return Handles(generation) << generationAt }

// only returns the word of a holder whose first handle is its only one, and is not
// in doubt.
func only(generation uint64) Handles { return free(generation) + 1 }

// spent returns the word after the last handle of a generation was released.
func spent(generation uint64) Handles { return free(generation+1) | firstReleased }

// Holders returns how many holders have used the word, counting the present one.
func (h Handles) Holders() uint64 {
	if h.Depth() > 0 {
		return h.Generation() + 1
	}
	return h.Generation()
}

// Reenter adds a handle to the holder of the given generation. The effect is
// Entered, Dead if that generation has passed, or Full at MaxDepth.
func (h Handles) Reenter(generation uint64) (Handles, Effect) {
	switch {
	case h.Generation() != generation:
		return h, Dead
	case h.Depth() == MaxDepth:
		return h, Full
	}
	return h + 1, Entered
}

// ReleaseFirst releases the first handle of the given generation. The effect is
// Dead if it was released before, and Ended if it was the only handle, which ends
// the generation. If the holder has other handles, the effect is Left: the first
// handle is dead but still counted, so that the generation cannot end before the
// caller has cleaned up after the handle and called ReleaseNested.
func (h Handles) ReleaseFirst(generation uint64) (Handles, Effect) {
	switch {
	case !h.Alive(generation):
		return h, Dead
	case h.Depth() == 1:
		return spent(h.Generation()), Ended
	}
	return h&^inDoubt | firstReleased, Left
}

// ReleaseNested takes back the count of a handle that a reentry made, or of a
// first handle whose ReleaseFirst returned Left. The caller must make sure that
// it is called once for each. The effect is Ended if the handle was the last,
// else Left.
func (h Handles) ReleaseNested() (Handles, Effect) {
	if h.Depth() == 1 {
		return spent(h.Generation()), Ended
	}
	return h - 1, Left
}

// AtomicHandles are Handles that any number of goroutines may change at the same
// time. The zero value is free, in generation 0.
type AtomicHandles struct {
	w atomic.Uint64 // from sync/atomic, which aligns it to 64 bits on 32-bit machines
}

// Take makes the caller the next holder if the word is free, and returns the
// generation of its first handle. Of several callers one succeeds. It fails if the
// word is taken or spent, or if another goroutine changes it at this moment.
//
// A Free synchronizes before the Take that succeeds next.
func (a *AtomicHandles) Take() (generation uint64, ok bool) {
	old := a.Load()
	if old&(depthMask|firstReleased) != 0 {
		return 0, false
	}
	return old.Generation(), a.w.CompareAndSwap(uint64(old), uint64(old+1))
}

// Arm is Take for the goroutine that the word belongs to, because it is spent or
// no other goroutine can reach it yet.
func (a *AtomicHandles) Arm() (generation uint64) {
	generation = a.Load().Generation()
	a.w.Store(uint64(only(generation)))
	return generation
}

// Free lets the next holder take a spent word, which is in the given generation.
// Only the goroutine that the word belongs to may call it, and the word is no
// longer its own then.
func (a *AtomicHandles) Free(generation uint64) { a.w.Store(uint64(free(generation))) }

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

// ReleaseFirst applies [Handles.ReleaseFirst] and returns its effect. If several
// goroutines release the same handle, one gets Left or Ended and the others Dead.
func (a *AtomicHandles) ReleaseFirst(generation uint64) Effect {
	for {
		old := a.Load()
		h, e := old.ReleaseFirst(generation)
		if e == Dead || a.w.CompareAndSwap(uint64(old), uint64(h)) {
			return e
		}
	}
}

// ReleaseOnly is ReleaseFirst for the common case, by one compare-and-swap and
// without a load: it releases the first handle of the given generation if that is
// the holder's only handle and not in doubt. It reports whether it did; true
// corresponds to Ended. If it returns false nothing has changed, and the caller
// must call ReleaseFirst.
func (a *AtomicHandles) ReleaseOnly(generation uint64) bool {
	return a.w.CompareAndSwap(uint64(only(generation)), uint64(spent(generation)))
}

// Doubt applies [Handles.Doubt] and returns its effect.
func (a *AtomicHandles) Doubt(generation uint64) Effect { return a.apply(Handles.Doubt, generation) }

// Confirm applies [Handles.Confirm] and returns its effect. If it races with
// ReleaseDoubted, the first compare-and-swap decides and the other call gets Dead.
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
