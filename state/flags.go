// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// Flags are the state of a round beside its word. A flag is set once and never
// cleared, apart from GateClosed, GateOpening and Interrupted. The flags share one atomic word so
// that, of two goroutines that set different flags, exactly one sees the other's flag
// in the value before its own Set. That one starts what needs both.
type Flags uint32

const (
	// PrevReleased: the round before this one is Released, so this one is the
	// lock's current round and may be fetched. The first round of a lock is
	// created with it.
	PrevReleased Flags = 1 << iota
	// Wanted: a goroutine has started the round. The fetch is due when both
	// PrevReleased and Wanted are set.
	Wanted
	// Over: the round was ended by force. It is never fetched; its clean-up is
	// due when both PrevReleased and Over are set.
	Over
	// GateClosed: newcomers must arrive at the next round. It is cleared when no
	// reason is left for which it was set.
	GateClosed
	// GrantTold: the round has been granted, and its grant future is settled.
	// A goroutine that enters a round without this flag settles the future
	// itself if need be, and sets the flag.
	GrantTold
	// Lingers: the round may stay retained with no holder. Whether it does is
	// decided at each last departure. Newcomers look at the lease as they enter.
	Lingers
	// ReleaseAsked: while the round waited, a caller got the future of its release. The
	// step that merges the round looks at it after that.
	ReleaseAsked
	// GateOpening: a step is about to clear GateClosed. It sets this flag, looks for
	// reasons to leave the gate closed, and clears both flags if this one is still set
	// then. A goroutine that closes the gate makes its reason known, clears this flag
	// and sets GateClosed, in this order. So the step sees the reason, or finds the flag
	// cleared, or is first, and GateClosed is set after it.
	GateOpening
	// ContentionAsked: a holder asked whether other processes wait.
	ContentionAsked
	// Contended: another process was seen to wait.
	Contended
	// Interrupted: a function that ran under the lock did not return.
	Interrupted
	// Recovered: what an earlier holder left half done was repaired.
	Recovered
)

// Has reports whether all flags of g are set in f.
func (f Flags) Has(g Flags) bool { return f&g == g }

// AtomicFlags are Flags that any number of goroutines may set at the same time.
// In the zero value no flag is set.
type AtomicFlags struct{ w atomic.Uint32 }

// Load returns the flags.
func (a *AtomicFlags) Load() Flags { return Flags(a.w.Load()) }

// Set sets the flags g and returns the flags as they were before. A Set
// “synchronizes before” every Set and Load that observes it.
func (a *AtomicFlags) Set(g Flags) Flags { return Flags(a.w.Or(uint32(g))) }

// ClearIf clears the flags g if all of them are set, and reports whether it did. It
// synchronizes as Set does.
func (a *AtomicFlags) ClearIf(g Flags) bool {
	for {
		old := a.w.Load()
		if !Flags(old).Has(g) {
			return false
		}
		if a.w.CompareAndSwap(old, old&^uint32(g)) {
			return true
		}
	}
}

// Clear clears the flags g. It synchronizes as Set does.
func (a *AtomicFlags) Clear(g Flags) { a.w.And(^uint32(g)) }
