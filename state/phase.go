// SPDX-License-Identifier: Apache-2.0

package state

import "strconv"

// A Phase is a stage in the life of a round. A round moves through the phases in
// the order of their values and never backwards. It skips [Retained] if it fails,
// or if every waiter has withdrawn.
type Phase uint8

const (
	// Free: the round has not been started, and has no node. The count is
	// always 0. The first arrival starts the round. This is the zero value.
	Free Phase = iota

	// Fetching: the round's node is about to be created, is being created, or
	// waits in the queue behind other processes. The count is the number of
	// waiters. It is 0 between the withdrawal of the last waiter and the
	// cancel; an arrival may still join then. An arrival joins unless the gate
	// is closed.
	Fetching

	// Retained: the node is first in the queue, so this process owns the lock.
	// The count is the number of holders. It is 0 only while an idle lock is
	// kept for the next arrival. The work that the lock protects may be done
	// in this phase only. An arrival enters unless the gate is closed.
	Retained

	// Releasing: the node is being deleted, or, after a request whose outcome
	// is unknown, looked for. The count is always 0: all handles of the round
	// are dead. An arrival goes to the next round.
	Releasing

	// Released: nothing of the round is left in ZooKeeper. The count is always
	// 0, and the word never changes again. An arrival goes to the next round.
	Released

	numPhases = iota
)

// String returns the phase's name in lower case, for example "retained". For a
// value that is not one of the constants it returns "phase(n)".
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
