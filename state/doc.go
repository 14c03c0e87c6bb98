// SPDX-License-Identifier: Apache-2.0

// Package state holds the whole local state of one round of a lock in one
// 32-bit word: a [Phase] and the number of holders.
//
// A round is the life of a lock from [Free] to [Released]: a goroutine asks for
// the lock, the round's node is created in ZooKeeper and waits in the queue, any
// number of goroutines of this process hold the lock, and the node is deleted.
// Every change of a round is a transition: a pure function from the old [Word]
// to the new one and an [Effect]. [Atomic.Apply] carries a transition out by
// compare-and-swap; the goroutine whose swap succeeded, and no other, must then
// carry out the effect. So exactly one goroutine is responsible for each step,
// and no step needs a mutex.
//
//	            Arrive               Grant                Leave (last), End
//	FREE/0 ─────────────▶ FETCHING/n ─────▶ RETAINED/n ─────────────▶ RELEASING/0 ──▶ RELEASED/0
//	                          │                                            ▲   Finish
//	                          └────────────────────────────────────────────┘
//	                          End; Grant or Cancel of fetching/0
//
// A round that waits for the one before it may join it instead: Merge makes FETCHING/n
// RELEASED/0, and LetIn adds the n to the RETAINED word of the other.
//
// A lock may linger: LeaveIdle, the last holder's departure, makes it RETAINED/0.
// The next Arrive makes that RETAINED/1, and EndIdle RELEASING/0.
//
// The package does no I/O, takes no locks and starts no goroutines. It says
// which goroutine must carry out an effect, and cannot make it do so. It knows
// one round only: a lock begins each round with a fresh word, and a word that is
// [Released] never changes again, so a compare-and-swap cannot mistake one round
// for another. It orders the goroutines of one process only; fencing tokens
// order processes.
//
// Only this package knows the layout of a word: no other shifts or masks one.
package state
