// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/internal/queue"

// A plan is what a waiter knows about the contenders ahead, and so what it does
// next. It never changes: when the waiter learns more it makes a new plan. There is
// one for each lock that the process waits for, so it is small: a prospect without
// the names.
type plan struct {
	ahead    int32 // how many contenders ahead exclude the waiter
	watched  int8  // how many of them it watches
	first    int8  // which of those has its turn, from 1 up; 0: none of them, or not known
	complete bool  // when those it watches are gone, nothing is ahead; else the queue must be listed when one of them goes

	// conn is the connection that the session had when the prospect was asked for. Deletions
	// are reported in order only while it lasts: after a reconnect the server reports those
	// that happened meanwhile in any order.
	conn connection
}

// A connection is the number of a connection of a session, as [zkio.Session.Connection], in
// little space.
type connection uint32

// planOf returns the plan that follows from p, which was found out on conn.
func planOf(p queue.Prospect, conn connection) plan {
	return plan{ahead: p.Ahead, watched: int8(len(p.Known)), complete: p.Complete, conn: conn}
}

// ownNode is what a waiter knows about its own node, which an administrator may
// have deleted.
type ownNode struct {
	touched bool // its watch fired
	due     bool // it has had no watch for so long that a look is needed
	watched bool // the server has a watch for it: touched will tell
	seen    bool // watched, or seen a moment ago
}

// news is what the watches of a plan have reported so far.
type news struct {
	gone    int8 // how many of the watched contenders were deleted
	other   bool // a deletion was reported on another connection than the plan's
	changed bool // something else happened to one, which used up its watch
}

// heard is what the watcher of one contender knows.
type heard struct {
	armed   bool       // the watch is set, and what was reported since is no older than the plan
	gone    connection // the node was deleted, as was reported on this connection; 0: it was not
	changed bool       // something else happened to it, which used up its watch
}

// newsOf adds up what the watchers of a plan know that was made on connection conn, and
// reports whether all watches are set.
func newsOf(all []heard, conn connection) (n news, armed bool) {
	armed = true
	for _, h := range all {
		armed = armed && h.armed
		n.changed = n.changed || h.changed
		if h.gone != 0 {
			n.gone++
			n.other = n.other || h.gone != conn
		}
	}
	return n, armed
}

// outdated returns what is left of h when the queue is about to be listed. If the
// list shows a contender that was reported gone before, because it has come back or
// the server lags behind, the waiter must look at that contender again.
func (h heard) outdated() heard {
	h.armed = h.armed && h.gone == 0 && !h.changed
	return h
}

// An action is the next step of a waiter.
type action int

const (
	doPark      action = iota // wait for news: a watch will tell
	doLookAtOwn               // read the own node, which also leaves a watch
	doList                    // list the queue
	doWatch                   // set the watches
	doEnter                   // take the lock: nothing is ahead
)

// decide returns what a waiter does next. p is its plan, nil if it knows nothing
// about the queue; armed reports whether all of p's watches are set; conn is the
// present connection.
//
// Two rules make it safe. A waiter enters without a list only if the contenders
// ahead were all known, each was reported gone on the connection that the plan was
// made on, and none can come back. And its own node must be known to exist: if an
// administrator has deleted it, the next in line enters as well.
func decide(p *plan, armed bool, n news, own ownNode, conn connection) action {
	switch {
	case own.touched:
		return doLookAtOwn
	case own.due && !own.watched:
		return doLookAtOwn
	case p == nil || n.changed:
		return doList
	case n.gone > 0 && !p.complete:
		return doList
	case n.gone < p.watched && !armed:
		return doWatch
	case n.gone < p.watched:
		return doPark
	case p.complete && p.conn == conn && !n.other && own.seen:
		return doEnter
	}
	return doList
}
