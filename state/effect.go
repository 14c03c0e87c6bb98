// SPDX-License-Identifier: Apache-2.0

package state

import "strconv"

// An Effect says what has to be done about a transition. Where the transition
// changed the word, the goroutine whose compare-and-swap won has to do it, and
// nobody else may. Where it left the word as it was ([Next], [Full], [Dead],
// [Nothing]), the effect is an answer to the caller, and binds nobody else.
type Effect uint8

const (
	// Nothing: the word is unchanged and there is nothing to do. It is the
	// zero value.
	Nothing Effect = iota

	// Started: the caller is the first to want this round, and is counted.
	// It must see to it that the round is fetched.
	Started

	// Joined: the caller is counted among those who wait for this round. It
	// shares their future; it submits nothing.
	Joined

	// Entered: the caller is counted among the holders of a lock that this
	// process owns. It may go to work.
	Entered

	// Next: this round takes nobody any more, because it is over, or nearly,
	// or because its gate is closed. The caller is not counted, and must
	// arrive at the round after this one.
	Next

	// Full: the count is at [MaxHolders]. The caller is not counted, and gets
	// an error.
	Full

	// Dead: the round was over before the caller came. For one who leaves:
	// the handle is of a dead round, and there is nothing to give back. For
	// one who wants to pin: there is nothing to pin. For the granter: there
	// is nobody to grant to; whoever ended the round sees to its node.
	Dead

	// Left: the caller is no longer counted; others are. Nothing else is to
	// be done.
	Left

	// Withdrawn: the caller was the last of those who waited for this round.
	// It must submit the cancel, which looks again whether anybody has joined
	// since.
	Withdrawn

	// Ended: the round is over from this moment, for everybody. The caller,
	// who either was the last holder or ended the round by force, must settle
	// what is still pending in it and submit the deletion of its node.
	Ended

	// Granted: this process owns the lock. The granter must settle the
	// round's grant for all who wait.
	Granted

	// Abandoned: nobody waits for this round any more, and from this moment
	// nobody can. The caller must settle what is still pending in it and
	// delete its node, if it has one.
	Abandoned

	// Finished: nothing of the round is left in ZooKeeper. The releaser must
	// hand the lock on to the next round and settle the release.
	Finished

	numEffects = iota
)

var effectNames = [numEffects]string{
	Nothing:   "nothing",
	Started:   "started",
	Joined:    "joined",
	Entered:   "entered",
	Next:      "next",
	Full:      "full",
	Dead:      "dead",
	Left:      "left",
	Withdrawn: "withdrawn",
	Ended:     "ended",
	Granted:   "granted",
	Abandoned: "abandoned",
	Finished:  "finished",
}

// String returns the effect's name in lower case, for example "entered"; for a
// value that is none of the constants "effect(n)".
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return "effect(" + strconv.Itoa(int(e)) + ")"
}
