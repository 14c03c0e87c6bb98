// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/holdfast-go/holdfast/manager/internal/queue"

// A plan is what a waiter knows about the contenders ahead, and so what it does
// next. It never changes: when the waiter learns more or watches another
// contender, it makes a new plan. News of a watched contender is kept with the
// plan that asked for it (see watching), so stale news cannot be taken for news of
// the present plan.
type plan struct {
	queue.Prospect

	// conn is the connection on which the prospect was found out. Deletions are
	// reported in order only while it lasts: after a reconnect the server reports
	// those that happened meanwhile in any order.
	conn uint64
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
	gone    uint8 // how many of the watched contenders were deleted
	changed bool  // something else happened to one, which used up its watch
}

// An action is the next step of a waiter.
type action int

const (
	doPark      action = iota // wait for news: a watch will tell
	doLookAtOwn               // read the own node, which also leaves a watch
	doList                    // list the queue
	doWatch                   // watch the contenders that the plan says to watch
	doWatchRest               // watch those of the plan that are not watched yet
	doEnter                   // take the lock: nothing is ahead
)

// decide returns what a waiter does next. p is its plan, nil if it knows nothing
// about the queue; armed reports whether p's watches are set; conn is the present
// connection.
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
	case !armed && p.Watch > 0:
		return doWatch
	case n.gone < p.Watch:
		return doPark
	case !p.Complete || p.conn != conn:
		return doList
	case len(p.Known) > int(p.Watch):
		return doWatchRest
	case own.seen:
		return doEnter
	}
	return doList
}
