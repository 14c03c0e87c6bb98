// SPDX-License-Identifier: Apache-2.0

package zkio

import "time"

// A Listener is told what happens to the sessions of a Client. Its methods are
// called on the client's dispatcher goroutine, one at a time and in order.
// They must not block, make a session's calls, or call [Client.Close], which
// waits for that goroutine. They may call [Client.Submit].
type Listener interface {
	// SessionStarted says that s is the client's session from now on. It is
	// queued for telling before any task is run with s.
	SessionStarted(s *Session)

	// ConnectionLost says that s has lost its connection, and why. The client is
	// connecting again. It is not told of a connection that ends with the session, or
	// by Close.
	ConnectionLost(s *Session, cause error)

	// ConnectionResumed says that s has a connection again, and for how long it had
	// none. It is told once for each ConnectionLost, unless the session ends before.
	ConnectionResumed(s *Session, after time.Duration)

	// ProcessPaused says that this process did not run, for so long at least: it was stopped
	// or suspended, or got no processor. It is told of pauses of a second or more, or of a
	// third of Config.SessionTimeout if that is less, and before anything that was noticed
	// after the pause and may have come of it.
	ProcessPaused(lasted time.Duration)

	// LeaseLapsed says that l, which was in force, is over: l.InForce is false
	// for ever. The session may live on; it will then have another lease after
	// the next proof. It is told once for each lease.
	LeaseLapsed(l *Lease)

	// SessionOver says that s has ended, and why. Its leases have lapsed before,
	// and LeaseLapsed was called for them. SessionOver is also called for a
	// session that never started, with [ErrAuthFailed], each time that the
	// servers refuse the client's credentials.
	SessionOver(s *Session, cause error)
}

// A Watcher is told that something happened to its path: a watch fired, or a
// request found the node gone. The client's dispatcher goroutine calls it, so it
// must not block. Watchers are compared with ==, so they are usually pointers.
type Watcher interface{ PathChanged(path string, ev Event) }

// An Event says that something happened to a path. Take it as a reason to look again: more
// may have happened since.
type Event struct {
	What Change
	// Connection is the number of the session's connection on which the server told it: see
	// [Session.Connection]. Events of one connection are told in the order in which the
	// changes happened, and before the answer to any read that saw those. Events of two
	// connections are in no order: the server tells at once what happened in an outage.
	Connection uint64
}

func (e Event) String() string { return e.What.String() }

// A Change is what happened to a path.
type Change int

// The changes of a path.
const (
	NodeCreated         Change = iota + 1 // a node that Exists found missing was created
	NodeDeleted                           // the node was deleted
	NodeDataChanged                       // the node's data was set
	NodeChildrenChanged                   // a child of the node was created or deleted
)

func (c Change) String() string {
	names := [...]string{NodeCreated: "created", NodeDeleted: "deleted", NodeDataChanged: "data changed", NodeChildrenChanged: "children changed"}
	if c < NodeCreated || int(c) >= len(names) {
		return "invalid change"
	}
	return names[c]
}
