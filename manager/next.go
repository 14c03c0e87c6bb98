// SPDX-License-Identifier: Apache-2.0

package manager

// A next is what is to be done after a function of a step, as that function has found out.
// Step acts on all but goOn and atFront.
type next uint8

const (
	goOn    next = iota // what the function was to see to is seen to: its caller goes on
	atFront             // nothing is ahead of the node, wherever the queue ends
	again               // the round has come further, or is over: look at the word again
	sleep               // there is nothing to do until something wakes the round
	retry               // a request has failed: wake the round after a while
	requeue             // the node is gone, or is at the wrong place in the queue: leave it, and queue again
)
