// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/internal/queue"

// neighbours are what a round's steps know about other nodes in the lock's directory.
// Most locks have no other node there, so steps make it only when there is something to
// note.
type neighbours struct {
	listed    *listed         // a list that came with the node; the next plan is made of it
	tail      *queue.Tail     // the end of the queue, when last listed; for the release
	suspect   *suspect        // a contender behind that conflicts, when last listed; nil: none
	closedFor *ahead          // the contender that the gate is closed for, which is watched; nil: none
	first     *ahead          // whose turn it was when last listed, if the plan does not watch it; nil: not known
	handOn    *handed         // what the release has made for the next round; nil: nothing
	downgrade *downgradeState // of a read round that was to enter beside our own write node; else nil
}

// A nearby is a round's neighbours, if there is something to note.
type nearby struct {
	neighbours *neighbours // nil: nothing is known
}

// near returns a copy of the round's neighbours, for reading.
func (n *nearby) near() neighbours {
	if n.neighbours == nil {
		return neighbours{}
	}
	return *n.neighbours
}

// meet returns the round's neighbours, for writing. It makes them on first use.
func (n *nearby) meet() *neighbours {
	if n.neighbours == nil {
		n.neighbours = new(neighbours)
	}
	return n.neighbours
}

// setTail notes the end of the queue behind the round's node; nil: not known.
func (n *nearby) setTail(tail *queue.Tail) {
	if n.near().tail != tail {
		n.meet().tail = tail
	}
}

// downgradeState is what a read round knows about this process's own write nodes,
// beside which it may enter.
type downgradeState struct {
	writer Grant  // the one beside which a node was requested
	gone   string // the write node that turned out to be gone
}

// A suspect is a contender that may have waited long enough to close a gate.
type suspect struct {
	name string
	at   int64 // when it was first seen
}
