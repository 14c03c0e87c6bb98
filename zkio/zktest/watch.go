// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// An eventKind is the kind of a change, and of the event that reports it.
type eventKind int32

const (
	eventCreated         = eventKind(jute.EventNodeCreated)
	eventDeleted         = eventKind(jute.EventNodeDeleted)
	eventDataChanged     = eventKind(jute.EventNodeDataChanged)
	eventChildrenChanged = eventKind(jute.EventNodeChildrenChanged)
)

// An event is one change to be reported to watches.
type event struct {
	kind      eventKind
	path      string
	acl       []aclEntry // of the node that changed
	parent    string     // the node whose list of children changed, or ""
	parentACL []aclEntry
}

// frame encodes the notification of a change at path. Its zxid is -1: watch
// events carry none.
func (k eventKind) frame(path string) []byte {
	b := make([]byte, 4, 4+16+8+4+len(path))
	b = jute.AppendInt32(b, jute.XidWatchEvent)
	b = jute.AppendInt64(b, -1)
	b = jute.AppendInt32(b, 0)
	b = jute.AppendInt32(b, int32(k))
	b = jute.AppendInt32(b, 3) // session state: connected
	b = jute.AppendString(b, path)
	return jute.Frame(b)
}

// A watchSide is one of the two independent sets of watches. Watches set by
// getData and exists are data watches, those set by getChildren child watches.
type watchSide int

const (
	dataSide watchSide = iota
	childSide
	watchSides
)

// A watchMode says what a connection's watch of a path covers. There is one per
// path and side: setting a watch replaces the one before it, even a persistent
// one by a one-shot one, as it does in ZooKeeper 3.8.
type watchMode uint8

const (
	unwatched  watchMode = iota
	oneShot              // the first event ends it
	persistent           // stays
	recursive            // stays, and covers the nodes below the path
)

// A watching is a connection's watches of one path.
type watching [watchSides]watchMode

// A watchTable holds the watches of all connections of a view. Each
// connection's conn.watches holds its own watches' modes. service.mu protects
// both.
type watchTable [watchSides]struct {
	conns     map[string][]*conn // by path, in the order of their requests
	recursive int                // recursive watches in conns
}

func newWatchTable() (w watchTable) {
	for side := range w {
		w[side].conns = make(map[string][]*conn)
	}
	return w
}

// set makes mode the mode of c's watch of path.
func (w *watchTable) set(c *conn, path string, side watchSide, mode watchMode) {
	conns := w[side].conns
	switch old := c.watches[path][side]; {
	case old == unwatched && mode != unwatched:
		conns[path] = append(conns[path], c)
	case old != unwatched && mode == unwatched:
		i := slices.Index(conns[path], c)
		w.keep(path, side, slices.Delete(conns[path], i, i+1))
	}
	w.note(c, path, side, mode)
}

// note records mode without adding c to or removing it from the path's list.
func (w *watchTable) note(c *conn, path string, side watchSide, mode watchMode) {
	watches := c.watches[path]
	if watches[side] == recursive {
		w[side].recursive--
	}
	if mode == recursive {
		w[side].recursive++
	}
	watches[side] = mode
	switch {
	case watches == watching{}:
		delete(c.watches, path)
	case c.watches == nil:
		c.watches = map[string]watching{path: watches}
	default:
		c.watches[path] = watches
	}
}

// keep makes conns the list of connections that watch path.
func (w *watchTable) keep(path string, side watchSide, conns []*conn) {
	if len(conns) > 0 {
		w[side].conns[path] = conns
	} else {
		delete(w[side].conns, path)
	}
}

// setBoth makes mode the mode of c's data watch and child watch of path.
func (w *watchTable) setBoth(c *conn, path string, mode watchMode) {
	w.set(c, path, dataSide, mode)
	w.set(c, path, childSide, mode)
}

// drop removes all watches of c and returns them.
func (w *watchTable) drop(c *conn) map[string]watching {
	all := maps.Clone(c.watches)
	for path, watches := range all {
		for side, mode := range watches {
			if mode != unwatched {
				w.set(c, path, watchSide(side), unwatched)
			}
		}
	}
	return all
}

// count counts the watches on one side.
func (w *watchTable) count(side watchSide) (watches, paths int) {
	for _, conns := range w[side].conns {
		watches += len(conns)
	}
	return watches, len(w[side].conns)
}

// watchers returns the connections to notify of an event of the given kind at
// path, and removes their one-shot watches.
func (w *watchTable) watchers(path string, side watchSide, kind eventKind) []*conn {
	var told []*conn
	for at := path; ; at, _ = parentOf(at) {
		if conns := w[side].conns[at]; len(conns) > 0 {
			rest := conns[:0]
			for _, c := range conns {
				mode := c.watches[at][side]
				if at == path && mode == oneShot {
					w.note(c, at, side, unwatched)
				} else {
					rest = append(rest, c)
				}
				reports := at == path
				if mode == recursive {
					// The children of a node that it covers are covered themselves.
					reports = kind != eventChildrenChanged && (at == path || !slices.Contains(told, c))
				}
				if reports {
					told = append(told, c)
				}
			}
			clear(conns[len(rest):])
			w.keep(at, side, rest)
		}
		if w[side].recursive == 0 || at == "/" {
			return told
		}
	}
}

// fire notifies the watches of a change. It runs under service.mu, before any
// request can see the change, so an event precedes in its connection's queue
// every reply that shows the change. A client that may not read the node is not
// notified; its one-shot watch is used up all the same.
func (w *watchTable) fire(e event) {
	told := w.watchers(e.path, dataSide, e.kind)
	if e.kind == eventDeleted {
		// A connection with watches on both sides is notified once.
		for _, c := range w.watchers(e.path, childSide, e.kind) {
			if !slices.Contains(told, c) {
				told = append(told, c)
			}
		}
	}
	notify(told, e.kind, e.path, e.acl)
	if e.parent != "" {
		notify(w.watchers(e.parent, childSide, eventChildrenChanged), eventChildrenChanged, e.parent, e.parentACL)
	}
}

func notify(conns []*conn, kind eventKind, path string, acl []aclEntry) {
	if len(conns) == 0 {
		return
	}
	frame := kind.frame(path) // shared: a queued frame is never modified
	for _, c := range conns {
		if allows(acl, c.who, permRead) {
			c.send(frame)
		}
	}
}

// The modes of an addWatch request.
const (
	addPersistent = 0
	addRecursive  = 1
)

// addWatch sets a persistent watch.
func (v *view) addWatch(c *conn, r *jute.Reader, out *reply) Code {
	path, mode := r.String(), r.Int32()
	switch {
	case r.Err() != nil:
		return CodeMarshalling
	case mode == addPersistent:
		v.watches.setBoth(c, path, persistent)
	case mode == addRecursive:
		v.watches.setBoth(c, path, recursive)
	default:
		return CodeMarshalling
	}
	out.b = jute.AppendInt32(out.b, 0) // an error code of its own
	return CodeOK
}

// sidesOf returns the sides that a checkWatches or removeWatches request names.
func sidesOf(watcherType int32) []watchSide {
	switch watcherType {
	case 1:
		return []watchSide{childSide}
	case 2:
		return []watchSide{dataSide}
	case 3:
		return []watchSide{dataSide, childSide}
	}
	return nil
}

// findWatches executes checkWatches and removeWatches.
func (v *view) findWatches(c *conn, op Op, r *jute.Reader) Code {
	null, path := r.Null(), r.String()
	sides := sidesOf(r.Int32())
	switch {
	case r.Err() != nil, sides == nil:
		return CodeMarshalling
	case op == OpCheckWatches && path != "" && !strings.HasPrefix(path, "/"), op == OpCheckWatches && null:
		return CodeMarshalling // the real server's search for the parents fails
	}
	code := CodeNoWatcher
	for _, side := range sides {
		switch {
		case op == OpRemoveWatches && c.watches[path][side] != unwatched:
			v.watches.set(c, path, side, unwatched)
			code = CodeOK
		case op == OpCheckWatches && path != "" && len(v.watches[side].conns[path]) > 0:
			code = CodeOK // anyone's: the real server does not look at whose they are
		}
	}
	return code
}

// setWatches sets the watches that a client had on another connection, for
// setWatches and, with two more lists, setWatches2. A one-shot watch that would
// have fired since relativeZxid, the last transaction that the client knows of,
// fires at once instead.
func (v *view) setWatches(c *conn, op Op, r *jute.Reader, quirks *Quirks) Code {
	relative := r.Int64()
	lists := make([][]string, 3)
	if op == OpSetWatches2 {
		lists = make([][]string, 5)
	}
	for i := range lists {
		if r.Null() {
			return CodeMarshalling
		}
		lists[i] = r.Strings()
	}
	if r.Err() != nil {
		return CodeMarshalling
	}
	for _, path := range lists[0] { // set by getData
		switch n := v.tree.node(path); {
		case n == nil:
			c.send(eventDeleted.frame(path))
		case n.mzxid > relative:
			c.send(eventDataChanged.frame(path))
		default:
			v.watches.set(c, path, dataSide, oneShot)
		}
	}
	for _, path := range lists[1] { // set by exists, on missing nodes
		if v.tree.node(path) != nil {
			c.send(eventCreated.frame(path))
		} else {
			v.watches.set(c, path, dataSide, oneShot)
		}
	}
	for _, path := range lists[2] { // set by getChildren
		switch n := v.tree.node(path); {
		case quirks.ForgetsChildWatches:
		case n == nil:
			c.send(eventDeleted.frame(path))
		case quirks.FalseDeletions:
			v.watches.set(c, path, childSide, oneShot)
			v.watches.fire(event{kind: eventDeleted, path: path, acl: n.acl})
		case n.pzxid > relative:
			c.send(eventChildrenChanged.frame(path))
		default:
			v.watches.set(c, path, childSide, oneShot)
		}
	}
	if op == OpSetWatches2 {
		for i, mode := range []watchMode{persistent, recursive} {
			for _, path := range lists[3+i] {
				v.watches.setBoth(c, path, mode)
			}
		}
	}
	return CodeOK
}
