// SPDX-License-Identifier: Apache-2.0

package state

import "go.uber.org/atomic"

// An Atomic is a [Word] that any number of goroutines may read and change at
// the same time, without blocking. The zero value is free/0 and ready to use.
// It must not be copied after first use.
//
// In the terminology of [the Go memory model], a call of Apply that changed the
// word synchronizes before every later Load or Apply that observes that change
// or one made after it: what the author of a change wrote before it is there
// for everybody who sees it.
//
// [the Go memory model]: https://go.dev/ref/mem
type Atomic struct {
	_ noCopy
	v atomic.Uint32 // a Word; changed by Apply's compare-and-swap only
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Load returns the word. It may have changed by the time that the caller looks
// at it, unless the word is [Released].
func (a *Atomic) Load() Word { return Word(a.v.Load()) }

// Apply carries out the transition t: it loads the word, lets t say what comes
// after it, and swaps one for the other, until no other goroutine has come
// between. It returns the word that t was applied to, the effect, and the
// number of races that it lost on the way. If t leaves the word as it is,
// nothing is written.
//
// The effect belongs to the caller, whose swap it was: see [Effect]. t may be
// called several times, each time with the word as it is then, and only what
// the last call returned counts; so t should do nothing but compute. What t
// reads besides the word (a gate, for example) it reads after the load and
// before the swap.
//
// Apply does not block: a lost race means that another goroutine's change went
// through. It does not allocate.
func (a *Atomic) Apply(t func(Word) (Word, Effect)) (Word, Effect, int) {
	lost := 0
	for {
		old := a.Load()
		next, e := t(old)
		// A failed swap (the right-hand side) costs us only another look: the
		// word has moved on under us, and t decides again by what it is now.
		if next == old || a.v.CompareAndSwap(uint32(old), uint32(next)) {
			return old, e, lost
		}
		lost++
	}
}
