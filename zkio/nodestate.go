// SPDX-License-Identifier: Apache-2.0

package zkio

import "fmt"

// A nodeState is what a [Node] knows about the nodes that ZooKeeper has, or may
// have, under its name. There should be one at most; a request whose answer is
// lost leaves that open.
type nodeState uint8

const (
	// never marks an event that cannot come in a state.
	never nodeState = iota
	// nodeAbsent: there is none.
	nodeAbsent
	// nodeMaybe: there may be any number. A create was sent, and its outcome is
	// not known.
	nodeMaybe
	// nodeThere: there is one, the one at path, as far as we know: others may
	// delete it at any time.
	nodeThere
	// nodeThereAndMaybe: there is the one at path, and there may be others.
	nodeThereAndMaybe
	// nodeDeleting: there may be the one at path, and no other. A delete was
	// sent, and its outcome is not known.
	nodeDeleting

	nodeStates
)

// A nodeEvent is something that a Node has done or learnt.
type nodeEvent uint8

const (
	// createSent: a create is about to be sent. The obligation to find out what
	// became of it begins here.
	createSent nodeEvent = iota
	created
	notCreated
	// createLost: the create may have been carried out.
	createLost
	// adopted: one of the nodes of our name was found to be ours; it is the one
	// at path from now on.
	adopted
	// settled: all nodes of our name but the one at path are surely gone.
	settled
	// vanished: the one at path is gone.
	vanished
	// deleteLost: the delete of the one at path may have been carried out, or
	// may yet be.
	deleteLost

	nodeEvents
)

// transitions has the state after each event. It is all that a Node concludes
// from lost answers; the rest of it is requests.
var transitions = [nodeStates][nodeEvents]nodeState{
	nodeAbsent: {createSent: nodeMaybe},
	nodeMaybe: {
		created: nodeThere, notCreated: nodeAbsent, createLost: nodeMaybe,
		adopted: nodeThereAndMaybe, settled: nodeAbsent, deleteLost: nodeMaybe,
	},
	nodeThere:         {vanished: nodeAbsent, deleteLost: nodeDeleting},
	nodeThereAndMaybe: {settled: nodeThere, deleteLost: nodeThereAndMaybe},
	nodeDeleting:      {deleteLost: nodeDeleting},
}

// after returns the state after ev.
func (st nodeState) after(ev nodeEvent) nodeState {
	next := transitions[st][ev]
	if next == never {
		panic(fmt.Sprintf("zkio: event %d of a node in state %d", ev, st))
	}
	return next
}

// createEvent returns what the error of a create means.
func createEvent(err error) nodeEvent {
	switch {
	case err == nil:
		return created
	case mayHaveHappened(err):
		return createLost
	default:
		return notCreated
	}
}

// mayHaveHappened reports whether a request that failed with err may have been
// carried out.
func mayHaveHappened(err error) bool {
	class := ClassOf(err)
	return class != NotSent && class != Definite
}
