// SPDX-License-Identifier: Apache-2.0

package state

import "strconv"

// A Phase says where a round is on its way from [Free] to [Released]. A round
// moves through the phases in the order of their values, never backwards; it
// may skip [Retained], when it fails or when nobody is left to want it.
type Phase uint8

const (
	// Free: nobody has wanted this round yet, and it has no node. The count
	// is always 0. The first arrival starts the round. It is the zero value.
	Free Phase = iota

	// Fetching: the round is wanted; its node is about to be created, being
	// created, or waiting in line behind other processes. The count is the
	// number of those who wait for this round. It may be 0, when all of them
	// have withdrawn and the withdrawal has not been carried out yet; an
	// arrival may still join then. An arrival joins unless the gate is closed.
	Fetching

	// Retained: the node is there and first in line: this process owns the
	// lock. The count is the number of those who hold it. It may be 0 only
	// while an idle lock is kept for the next arrival. Only in this phase may
	// the work be done that the lock protects. An arrival enters at once,
	// unless the gate is closed.
	Retained

	// Releasing: the node is being deleted, or is being made sure of, after
	// an operation whose outcome is unknown. The count is always 0: all
	// handles of the round are dead. An arrival goes to the next round.
	Releasing

	// Released: the round is over and nothing of it is left in ZooKeeper.
	// The count is always 0, and the word never changes again. An arrival
	// goes to the next round.
	Released

	numPhases = iota
)

// String returns the phase's name in lower case: "free", "fetching",
// "retained", "releasing" or "released"; for any other value "phase(n)".
func (p Phase) String() string {
	switch p {
	case Free:
		return "free"
	case Fetching:
		return "fetching"
	case Retained:
		return "retained"
	case Releasing:
		return "releasing"
	case Released:
		return "released"
	}
	return "phase(" + strconv.Itoa(int(p)) + ")"
}
