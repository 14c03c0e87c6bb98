// SPDX-License-Identifier: Apache-2.0

// Package state holds the whole local state of one round of a lock in one
// 32-bit word: a [Phase] and the number of holders.
//
// A round is one trip of a lock from [Free] to [Released]: it is wanted, its
// node is created in ZooKeeper and waits in line, it is held by any number of
// goroutines of this process, and its node is deleted. Everything that changes
// a round does so through a transition, which is a pure function from the old
// [Word] to the new one and an [Effect]. [Atomic.Apply] carries a transition
// out by compare-and-swap; the goroutine whose swap succeeded, and no other,
// must then do what the effect says. So every step of a round has exactly one
// author, and no step needs a mutex.
//
//	            Arrive               Grant                Leave (last), End
//	FREE/0 ─────────────▶ FETCHING/n ─────▶ RETAINED/n ─────────────▶ RELEASING/0 ──▶ RELEASED/0
//	                          │                                            ▲   Finish
//	                          └────────────────────────────────────────────┘
//	                            End; Grant or Cancel when nobody is left
//
// What it is not: this package does no I/O, takes no locks and starts no
// goroutines. It does not know what comes after a round (a lock makes a fresh
// round, with a fresh word; a word that is [Released] never changes again, so
// a compare-and-swap can never mistake one round for another). It does not
// make sure that effects are carried out; it only says by whom. And it orders
// goroutines of one process only: nothing here says anything about another
// process, which is what fencing tokens are for.
//
// The layout of a Word is known to this package alone: nobody else shifts or
// masks.
package state
