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

	// conn is the connection on which the prospect was found out; 0 if events of an
	// earlier one were still to be delivered then. Deletions are reported in order only while it lasts: after a reconnect the
	// server reports those that happened meanwhile in any order.
	conn uint64
}

// planOf returns the plan that follows from p, which was found out on conn.
func planOf(p queue.Prospect, conn uint64) plan {
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
	changed bool // something else happened to one, which used up its watch
}

// heard is what the watcher of one contender knows.
type heard struct {
	armed   bool // the watch is set, and what was reported since is no older than the plan
	gone    bool // the node was deleted
	changed bool // something else happened to it, which used up its watch
}

// newsOf adds up what the watchers of a plan know, and reports whether all watches
// are set.
func newsOf(all []heard) (n news, armed bool) {
	armed = true
	for _, h := range all {
		armed = armed && h.armed
		n.changed = n.changed || h.changed
		if h.gone {
			n.gone++
		}
	}
	return n, armed
}

// outdated returns what is left of h when the queue is about to be listed. If the
// list shows a contender that was reported gone before, because it has come back or
// the server lags behind, the waiter must look at that contender again.
func (h heard) outdated() heard {
	h.armed = h.armed && !h.gone && !h.changed
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
// present connection, 0 if news of an earlier one may still come.
//
// Two rules make it safe. A waiter enters without a list only if the contenders
// ahead were all known, each was reported gone on the connection that the plan was
// made on, and none can come back. And its own node must be known to exist: if an
// administrator has deleted it, the next in line enters as well.
func decide(p *plan, armed bool, n news, own ownNode, conn uint64) action {
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
	case p.complete && p.conn == conn && conn != 0 && own.seen:
		return doEnter
	}
	return doList
}
