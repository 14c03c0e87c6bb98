// SPDX-License-Identifier: Apache-2.0

package state

import "strconv"

// An Effect says what must be done about a transition. If the transition changed
// the word, the goroutine whose compare-and-swap won must carry the effect out,
// and no other goroutine may. If the transition left the word unchanged ([Next],
// [Full], [Dead], [Nothing]), the effect is only an answer to the caller.
type Effect uint8

const (
	// Nothing: the word is unchanged, and there is nothing to do. This is the
	// zero value.
	Nothing Effect = iota

	// Started: the caller is counted, as the first of the round, and must have
	// the round fetched.
	Started

	// Joined: the caller is counted among the waiters of the round and shares
	// their future. It submits nothing.
	Joined

	// Entered: the caller is counted among the holders, and this process owns
	// the lock. The caller may go to work.
	Entered

	// Next: the round admits no more callers, because it is over, or being
	// released, or its gate is closed. The caller is not counted, and must
	// arrive at the next round.
	Next

	// Full: the count is at [MaxHolders]. The caller is not counted, and must
	// report an error.
	Full

	// Dead: the round ended before the transition. A leaver or pinner has the
	// handle of a dead round, and is not counted. A granter has no waiter to
	// grant to, and the goroutine that ended the round deletes its node.
	Dead

	// Left: the caller is no longer counted, and others are. There is nothing
	// else to do.
	Left

	// Withdrawn: the caller was the last waiter of the round. It must submit
	// the cancel, which has no effect if another goroutine joins before it.
	Withdrawn

	// Ended: the round is over. The caller, which was the last holder, or ended
	// the round by force or while it was idle, must settle the round's pending futures and submit
	// the deletion of its node.
	Ended

	// Granted: this process owns the lock. The granter must settle the grant
	// that the waiters share.
	Granted

	// Abandoned: the round is over, because it had no waiter left. The caller
	// must settle the round's pending futures and delete its node, if any.
	Abandoned

	// Finished: nothing of the round is left in ZooKeeper. The caller must
	// hand over to the next round and settle the release.
	Finished

	// Idled: the caller is no longer counted, and it was the last: the lock lingers.
	// The caller must look again for those who want the round to end, and see to
	// it that contenders are noticed.
	Idled

	// Merged: the waiters of the round are holders of the round before it. The caller
	// must settle what they wait for, and take the round out of the chain.
	Merged

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
	Idled:     "idled",
	Merged:    "merged",
}

// String returns the effect's name in lower case, for example "entered". For a
// value that is not one of the constants it returns "effect(n)".
func (e Effect) String() string {
	if int(e) < len(effectNames) {
		return effectNames[e]
	}
	return "effect(" + strconv.Itoa(int(e)) + ")"
}
