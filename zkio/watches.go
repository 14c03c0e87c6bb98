// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"sync"
)

// watchKind is the set of watches that the server is known to keep for a path.
type watchKind uint8

const (
	dataWatch  watchKind = 1 << iota // fires when the node's data changes or the node goes
	existWatch                       // fires when the node, missing so far, is created
	childWatch                       // fires when the node's children change or the node goes
)

// watches maps paths to those who want to know what happens to them. A path
// that somebody is registered for is armed: the wire sets the watch bit of
// every read of it, and notes here which watches the server has. After a
// reconnect it sets those again.
//
// Nothing here is on behalf of a single wait, so a wait that is given up leaves
// nothing behind.
type watches struct {
	mu    sync.Mutex // protects what follows; held for map accesses only
	paths map[string]watch
	most  int // the largest number of paths seen by shrinkLocked
}

// mapKeep is the largest number of paths whose map is kept when it is empty:
// a map does not shrink.
const mapKeep = 1024

// A watch is the entry of one path. There is mostly one watcher for it, and
// there are many paths, so the others are kept apart.
type watch struct {
	first Watcher
	more  *[]Watcher // nil if there are no others
	set   watchKind
}

func newWatches() *watches { return &watches{paths: make(map[string]watch)} }

func (ws *watches) add(path string, w Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e, ok := ws.paths[path]
	switch {
	case !ok:
		e.first = w
	case e.first == w || e.more != nil && slices.Contains(*e.more, w):
		return
	case e.more == nil:
		e.more = &[]Watcher{w}
	default:
		// A new slice, because tell reads the old one without the mutex.
		more := append(slices.Clip(*e.more), w)
		e.more = &more
	}
	ws.paths[path] = e
}

func (ws *watches) remove(path string, w Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e, ok := ws.paths[path]
	if !ok {
		return
	}
	all := e.all()
	i := slices.Index(all, w)
	if i < 0 {
		return
	}
	if len(all) == 1 {
		// The server's watch, if there is one, fires unheard or goes with its
		// node: the protocol has no cheap way to take it back.
		delete(ws.paths, path)
		ws.shrinkLocked()
		return
	}
	all = slices.Delete(all, i, i+1)
	e.first, e.more = all[0], nil
	if len(all) > 1 {
		more := all[1:]
		e.more = &more
	}
	ws.paths[path] = e
}

// shrinkLocked gives back the memory of a map that was large and is empty.
func (ws *watches) shrinkLocked() {
	switch n := len(ws.paths); {
	case n > ws.most:
		ws.most = n
	case n == 0 && ws.most > mapKeep:
		ws.paths, ws.most = make(map[string]watch), 0
	}
}

// all returns the watchers in a slice of its own.
func (e watch) all() []Watcher {
	if e.more == nil {
		return []Watcher{e.first}
	}
	return append([]Watcher{e.first}, *e.more...)
}

// armed reports whether somebody is registered for path.
func (ws *watches) armed(path []byte) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	_, ok := ws.paths[string(path)]
	return ok
}

// note records that the server has a watch of kind k for path.
func (ws *watches) note(path string, k watchKind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// If the path was disarmed meanwhile, the server's watch will fire unheard.
	if e, ok := ws.paths[path]; ok && e.set&k == 0 {
		e.set |= k
		ws.paths[path] = e
	}
}

// fired records that the server told ev of path, which used up its watches.
func (ws *watches) fired(path []byte, ev Event) {
	var used watchKind
	switch ev {
	case NodeCreated:
		used = existWatch
	case NodeDeleted:
		used = dataWatch | existWatch | childWatch
	case NodeDataChanged:
		used = dataWatch
	case NodeChildrenChanged:
		used = childWatch
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if e, ok := ws.paths[string(path)]; ok && e.set&used != 0 {
		e.set &^= used
		ws.paths[string(path)] = e
	}
}

// tell calls the watchers of path. It runs on the dispatcher goroutine, and
// holds no mutex while it calls.
func (ws *watches) tell(path string, ev Event) {
	ws.mu.Lock()
	e, ok := ws.paths[path]
	ws.mu.Unlock()
	if !ok {
		return
	}
	e.first.PathChanged(path, ev)
	if e.more != nil {
		for _, w := range *e.more {
			w.PathChanged(path, ev)
		}
	}
}

// forget notes that the server has no watches: they went with the session.
func (ws *watches) forget() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for path, e := range ws.paths {
		if e.set != 0 {
			e.set = 0
			ws.paths[path] = e
		}
	}
}

// each calls fn for every path for which the server has watches.
func (ws *watches) each(fn func(path string, k watchKind)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for path, e := range ws.paths {
		if e.set != 0 {
			fn(path, e.set)
		}
	}
}

func (ws *watches) len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.paths)
}
