// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// An Atomic is a [Word] that any number of goroutines may read and change at
// the same time, without blocking. The zero value is free/0 and ready to use.
// It must not be copied after first use.
//
// In the terminology of [the Go memory model], a call to Apply that changed the
// word “synchronizes before” every Load or Apply that observes that change or a
// later one.
//
// [the Go memory model]: https://go.dev/ref/mem
type Atomic struct {
	// v is a Word; only Apply, Enter and LeaveOthers change it, by compare-and-swap. It is not of
	// go.uber.org/atomic, whose Uint32 has eight bytes: each idle lock has one.
	v atomic.Uint32
}

// Load returns the word. Unless the word is [Released], it may have changed by
// the time the caller uses it.
func (a *Atomic) Load() Word { return Word(a.v.Load()) }

// Apply carries out the transition t: it loads the word, calls t for the next
// one, and swaps them, and starts over if another goroutine changed the word in
// between. It returns the word that t was applied to, the effect, and how often
// it started over. If t returns the word unchanged, Apply writes nothing.
//
// The caller must carry out the effect: see [Effect]. t may be called several
// times, each time with the current word, and only its last results count, so t
// should do nothing but compute. Whatever else t reads (a gate, for example) it
// reads after the load and before the swap.
//
// Apply does not block: it starts over only if another goroutine made progress.
// It does not allocate.
func (a *Atomic) Apply(t func(Word) (Word, Effect)) (Word, Effect, int) {
	lost := 0
	for {
		old := a.Load()
		next, e := t(old)
		// If the swap fails, the word has changed since the load, and t decides
		// again by what it is now.
		if next == old || a.v.CompareAndSwap(uint32(old), uint32(next)) {
			return old, e, lost
		}
		lost++
	}
}

// LeaveOthers is Apply of [Word.Leave] for the common case, without its loop: if w is
// shared and is still the word, it counts one less and reports true. The effect is
// [Left] then, and nothing has changed otherwise.
func (a *Atomic) LeaveOthers(w Word) bool {
	return w.Shared() && a.v.CompareAndSwap(uint32(w), uint32(w-one))
}

// Enter is Apply of [Word.Arrive] for the common case, without its loop: if w
// admits a holder and is still the word, it counts one more and reports true. The
// effect is [Entered] then, and nothing has changed otherwise. The caller reads
// the gate after it has loaded w and before it calls Enter.
func (a *Atomic) Enter(w Word) bool {
	return w.Admits() && a.v.CompareAndSwap(uint32(w), uint32(w+one))
}
