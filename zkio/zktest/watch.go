// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// An eventKind is the kind of a change, and of the event that tells of it.
type eventKind int32

const (
	eventCreated         = eventKind(jute.EventNodeCreated)
	eventDeleted         = eventKind(jute.EventNodeDeleted)
	eventDataChanged     = eventKind(jute.EventNodeDataChanged)
	eventChildrenChanged = eventKind(jute.EventNodeChildrenChanged)
)

// An event is one change that watches are to be told of.
type event struct {
	kind      eventKind
	path      string
	acl       []aclEntry // of the node that changed
	parent    string     // whose list of children changed; "" if nobody's did
	parentACL []aclEntry
}

// frame encodes the notification of a change at path. Its zxid is -1: a watch
// event carries none.
func (k eventKind) frame(path string) []byte {
	b := make([]byte, 4, 4+16+8+4+len(path))
	b = jute.AppendInt32(b, jute.XidWatchEvent)
	b = jute.AppendInt64(b, -1)
	b = jute.AppendInt32(b, 0)
	b = jute.AppendInt32(b, int32(k))
	b = jute.AppendInt32(b, 3) // the state of the session: connected
	b = jute.AppendString(b, path)
	return jute.Frame(b)
}

// watchKinds is a set of the two kinds of watch that a connection can have on
// a path. A watch for the existence of a node is a data watch.
type watchKinds uint8

const (
	watchData watchKinds = 1 << iota
	watchChild
)

// A watchTable holds the watches of all connections of a view; each is good for one
// event. A connection's own list, conn.watches, mirrors it. Server.mu protects
// both.
type watchTable struct {
	data  map[string][]*conn
	child map[string][]*conn
}

func newWatchTable() watchTable {
	return watchTable{data: make(map[string][]*conn), child: make(map[string][]*conn)}
}

func (w *watchTable) side(kind watchKinds) map[string][]*conn {
	if kind == watchData {
		return w.data
	}
	return w.child
}

// add sets a watch of c's on path. Setting it twice is setting it once.
func (w *watchTable) add(c *conn, path string, kind watchKinds) {
	if c.watches[path]&kind != 0 {
		return
	}
	if c.watches == nil {
		c.watches = make(map[string]watchKinds)
	}
	c.watches[path] |= kind
	side := w.side(kind)
	side[path] = append(side[path], c)
}

// take removes and returns the connections that watch path, in the order in
// which they asked.
func (w *watchTable) take(path string, kind watchKinds) []*conn {
	side := w.side(kind)
	conns := side[path]
	if conns == nil {
		return nil
	}
	delete(side, path)
	for _, c := range conns {
		if c.watches[path] &^= kind; c.watches[path] == 0 {
			delete(c.watches, path)
		}
	}
	return conns
}

// drop removes all watches of c, whose connection has ended.
func (w *watchTable) drop(c *conn) {
	for path, kinds := range c.watches {
		for _, kind := range []watchKinds{watchData, watchChild} {
			if kinds&kind == 0 {
				continue
			}
			side := w.side(kind)
			i := slices.Index(side[path], c)
			if rest := slices.Delete(side[path], i, i+1); len(rest) > 0 {
				side[path] = rest
			} else {
				delete(side, path)
			}
		}
	}
	c.watches = nil
}

// count returns how many watches there are.
func (w *watchTable) count() (n WatchCount) {
	for _, conns := range w.data {
		n.Data += len(conns)
	}
	for _, conns := range w.child {
		n.Child += len(conns)
	}
	return n
}

// fire tells the watches of a change. Since it runs under Server.mu, before
// the change can be seen by anybody, an event stands in a connection's queue
// before every reply that shows the change. Who may not read the node is not
// told; the watch is used up all the same.
func (w *watchTable) fire(e event) {
	told := w.take(e.path, watchData)
	if e.kind == eventDeleted {
		// Who watches a deleted node both ways is told once.
		for _, c := range w.take(e.path, watchChild) {
			if !slices.Contains(told, c) {
				told = append(told, c)
			}
		}
	}
	notify(told, e.kind, e.path, e.acl)
	if e.parent != "" {
		notify(w.take(e.parent, watchChild), eventChildrenChanged, e.parent, e.parentACL)
	}
}

func notify(conns []*conn, kind eventKind, path string, acl []aclEntry) {
	if len(conns) == 0 {
		return
	}
	frame := kind.frame(path) // shared: nobody changes a queued frame
	for _, c := range conns {
		if allows(acl, c.who, permRead) {
			c.send(frame)
		}
	}
}
