// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// A basics says whether a client makes do with the requests that every server knows. It does so,
// from then on, once a server has no container nodes, or seems not to know another request that
// ZooKeeper 3.4 did not have. Such a server is a very old ZooKeeper, or only speaks its protocol.
// Then the client
//
//   - sends no optional request: see optional;
//   - has servers set no watches again (setWatches), which one of them is known to get wrong: after
//     a reconnect it has all watchers look again;
//   - takes no event's word for a deletion: watchers are told that something has changed, and look.
type basics struct {
	on atomic.Bool
	// owed counts, for each kind of optional request, the signs since the last answer that the
	// server does not know it: one for a connection that has ended while an answer was due, and two
	// if it has answered a later request. An answer makes it negative.
	owed [len(optionals)]atomic.Int32
}

const (
	// owedMost is how many signs it takes. One connection that answers a later request can be
	// chance, and two that end.
	owedMost = 3
	// owedBusy is how many it takes of setWatches, which is the first request on a connection,
	// and of bundles, of which one is under way as long as many tasks wait: so they are what a
	// server in a bad way leaves unanswered.
	owedBusy = 10
	// owedKnown is how many more it takes if servers have answered such a request before: most
	// likely, they are only in a bad way.
	owedKnown = 30
)

// optionals are the kinds of requests that the client can do without.
var optionals = [...]int32{jute.OpCreateContainer, jute.OpMultiRead, jute.OpRemoveWatches, jute.OpSetWatches}

// optional reports whether the client can do without requests of this kind.
func optional(op int32) bool { return slices.Contains(optionals[:], op) }

// notKnown reports whether this code, of a whole request that ZooKeeper could not call malformed,
// says that the server does not know such requests. Servers that are not ZooKeeper have their own
// view of which code that is.
func notKnown(code int32) bool { return code == jute.ErrUnimplemented || code == jute.ErrBadArguments }

// basicsOnly has the client make do with the basics, for a reason that is logged once.
func (c *Client) basicsOnly(why string) {
	if !c.basics.on.Swap(true) {
		c.cfg.Logger.Warn("this is no current zookeeper server: using only what every server knows; holdfast doctor says what that means. If it is zookeeper, restart this process when the servers are well",
			"cause", why)
	}
}

// heard notes an answer to a request of this kind.
func (b *basics) heard(op int32) {
	if i := slices.Index(optionals[:], op); i >= 0 {
		b.owed[i].Store(-owedKnown)
	}
}

// ended notes that the server has closed the connection w, and looks for optional requests that it
// has left unanswered: it may have done so because it does not know them. A connection that this
// client has given up, because an answer was late, says nothing of that.
func (w *wire) ended() {
	var due [len(optionals)]*call
	w.mu.Lock()
	for i := range w.pending.len() {
		c := w.pending.at(i)
		if at := slices.Index(optionals[:], c.op); at >= 0 && (due[at] == nil || c.parts == nil) {
			due[at] = c
		}
	}
	w.mu.Unlock()
	for at, op := range optionals {
		if op == jute.OpMultiRead && w.s.noMultiRead.Load() {
			continue // ZooKeeper before 3.6 has answered in its way: see answered
		}
		if due[at] != nil {
			w.owes(due[at], 1)
		}
	}
}

// owes notes signs that the server does not know optional requests of the kind of due.
func (w *wire) owes(due *call, signs int32) {
	c := w.s.client
	most := int32(owedMost)
	if due.op == jute.OpSetWatches || due.parts != nil {
		most = owedBusy
	}
	if c.basics.owed[slices.Index(optionals[:], due.op)].Add(signs) >= most {
		c.basicsOnly(w.addr + ": no answer to " + opName(due.op) + ", on several connections")
	}
}

// lookAgain has the watchers of all watches that the server had look again. The server has none of
// them any more, on this connection.
func (w *wire) lookAgain() {
	c := w.s.client
	for path, set := range c.watches.drop() {
		w.changed(path, set)
	}
}

// changed has the watchers of path look at what these watches are for.
func (w *wire) changed(path string, set watchKind) {
	d := w.s.client.dispatcher
	if set&(dataWatch|existWatch) != 0 {
		d.push(notice{path: path, event: Event{NodeDataChanged, w.connection}})
	}
	if set&childWatch != 0 {
		d.push(notice{path: path, event: Event{NodeChildrenChanged, w.connection}})
	}
}
