// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// Flags are what a round knows beside its word. Each is set once and never
// cleared. They share one atomic word so that of two goroutines that set
// different flags exactly one finds the other's set before its own: that one
// does what both together make due.
type Flags uint32

const (
	// PrevReleased: the round before this one is RELEASED; this one is the
	// lock's present round and may be fetched. The first round of a lock is
	// born with it.
	PrevReleased Flags = 1 << iota
	// Wanted: somebody's compare-and-swap has started the round. The fetch is
	// due when both PrevReleased and Wanted are set.
	Wanted
	// Over: the round was ended by force. Its end is due when both
	// PrevReleased and Over are set, and a fetch no more.
	Over
	// GateClosed: newcomers go on to the next round.
	GateClosed
	// GrantTold: the round has been granted, and its grant is settled. Who
	// enters a round without it makes sure of that, and sets it.
	GrantTold
)

// Has reports whether all flags of g are set in f.
func (f Flags) Has(g Flags) bool { return f&g == g }

// AtomicFlags are Flags that any number of goroutines may set. The zero value
// has none set.
type AtomicFlags struct{ w atomic.Uint32 }

// Load returns the flags.
func (a *AtomicFlags) Load() Flags { return Flags(a.w.Load()) }

// Set sets the flags g and returns the flags as they were before. A Set
// synchronizes before every later Set and Load that observes it.
func (a *AtomicFlags) Set(g Flags) Flags { return Flags(a.w.Or(uint32(g))) }
