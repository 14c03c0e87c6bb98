// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/jute"
)

// watchKind is the set of watches that the server is known to keep for a path.
type watchKind uint8

const (
	dataWatch  watchKind = 1 << iota // fires when the node's data changes or the node goes
	existWatch                       // fires when the node, missing so far, is created
	childWatch                       // fires when the node's children change or the node goes
)

// watches maps paths to their watchers. A path with a watcher is armed: every read
// of it, or only every list if no watcher wants more, asks for a watch, and the wire
// notes here which watches the server has. After a reconnect it sets those again.
//
// Nothing here belongs to a single wait, so a wait that is given up leaves
// nothing behind.
type watches struct {
	mu    sync.Mutex // protects what follows, and the watches; held for map accesses only
	paths map[string]*watch
	most  int // the largest number of paths seen by shrinkLocked
}

// mapKeep is the largest number of paths whose map is kept when it is empty:
// a map does not shrink.
const mapKeep = 1024

// A watch is the entry of one path. There are many, so it is small. It is changed
// in place: an assignment to the map would keep the copy of the path that came
// with the request, beside the one that the watcher has anyway.
type watch struct {
	watcher Watcher // or several
	set     watchKind
}

// several are the watchers of one path, two or more. It is never changed, since
// it is read without the mutex.
type several []Watcher

// PathChanged tells all of them.
func (all *several) PathChanged(path string, ev Event) {
	for _, w := range *all {
		w.PathChanged(path, ev)
	}
}

func newWatches() *watches { return &watches{paths: make(map[string]*watch)} }

func (ws *watches) add(path string, w Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[path]
	if e == nil {
		ws.paths[path] = &watch{watcher: w}
		return
	}
	if all := e.all(); !slices.Contains(all, w) {
		all = append(all, w)
		e.watcher = (*several)(&all)
	}
}

// remove removes a registration, and returns the watches that the server has for the
// path.
func (ws *watches) remove(path string, w Watcher) (set watchKind) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[path]
	if e == nil {
		return 0
	}
	switch all := slices.DeleteFunc(e.all(), func(r Watcher) bool { return r == w }); len(all) {
	case 0:
		// The server's watch, if there is one, is left to fire or to end with the
		// connection, unless the caller has the server forget it.
		delete(ws.paths, path)
		ws.shrinkLocked()
	case 1:
		e.watcher = all[0]
	default:
		e.watcher = (*several)(&all)
	}
	return e.set
}

// shrinkLocked gives back the memory of a map that was large and is empty.
func (ws *watches) shrinkLocked() {
	switch n := len(ws.paths); {
	case n > ws.most:
		ws.most = n
	case n == 0 && ws.most > mapKeep:
		ws.paths, ws.most = make(map[string]*watch), 0
	}
}

// all returns the watchers in a slice of its own.
func (e *watch) all() []Watcher {
	if all, ok := e.watcher.(*several); ok {
		return slices.Clone(*all)
	}
	return []Watcher{e.watcher}
}

// childrenOnly is a watcher that hears only of the children of its node, and of the
// node's end.
type childrenOnly struct{ Watcher }

// PathChanged passes those events on.
func (w childrenOnly) PathChanged(path string, ev Event) {
	if ev.What == NodeChildrenChanged || ev.What == NodeDeleted {
		w.Watcher.PathChanged(path, ev)
	}
}

// armed reports whether a read of path by the operation op is to ask for a watch.
func (ws *watches) armed(path string, op int32) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[path]
	return e != nil && (op == jute.OpGetChildren2 || e.wantsData())
}

// disarm has the watches of path forgotten that requests of kind op have set, unless a watcher
// wants them, and reports whether it did. The caller then has the server forget them; what fires
// them is what.
func (ws *watches) disarm(path string, op int32, what Change) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[path]
	switch {
	case e == nil:
		return true
	case op == jute.OpGetChildren2 || e.wantsData():
		return false
	}
	e.set &^= usedBy[what] | existWatch
	return true
}

// wantsData reports whether a watcher wants to hear of the node itself, too.
func (e *watch) wantsData() bool {
	if all, ok := e.watcher.(*several); ok {
		return slices.ContainsFunc(*all, func(w Watcher) bool { return !isChildrenOnly(w) })
	}
	return !isChildrenOnly(e.watcher)
}

func isChildrenOnly(w Watcher) bool {
	_, ok := w.(childrenOnly)
	return ok
}

// note records that the server has a watch of kind k for path. It reports false if the path
// was disarmed while the read was under way that has set it: the watch would fire unheard.
func (ws *watches) note(path string, k watchKind) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[path]
	if e != nil {
		e.set |= k
	}
	return e != nil
}

// watched reports whether the server is known to keep a watch that fires when the node at path
// goes.
func (ws *watches) watched(path []byte) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.paths[string(path)]
	return e != nil && e.set&(dataWatch|childWatch) != 0
}

// claim notes that the server is about to be asked for watches of the nodes at paths.
// It returns, in the same slice, those that have watchers and had no such watch.
func (ws *watches) claim(paths []string) []string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.DeleteFunc(paths, func(path string) bool {
		e := ws.paths[path]
		if e == nil || e.set&dataWatch != 0 {
			return true
		}
		e.set |= dataWatch
		return false
	})
}

// usedBy has the watches that fire with a change.
var usedBy = map[Change]watchKind{
	NodeCreated:         existWatch,
	NodeDeleted:         dataWatch | existWatch | childWatch,
	NodeDataChanged:     dataWatch,
	NodeChildrenChanged: childWatch,
}

// fired records that the server told what happened to path, which used up its watches.
func (ws *watches) fired(path []byte, what Change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if e := ws.paths[string(path)]; e != nil {
		e.set &^= usedBy[what]
	}
}

// tell calls the watchers of path. It runs on the dispatcher goroutine, and
// holds no mutex while it calls.
func (ws *watches) tell(path string, ev Event) {
	var w Watcher
	ws.mu.Lock()
	if e := ws.paths[path]; e != nil {
		w = e.watcher
	}
	ws.mu.Unlock()
	if w != nil {
		w.PathChanged(path, ev)
	}
}

// forget notes that the server has no watches: they went with the session.
func (ws *watches) forget() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, e := range ws.paths {
		e.set = 0
	}
}

// drop notes that the server has no watches on this connection, and returns those that it had.
func (ws *watches) drop() map[string]watchKind {
	all := make(map[string]watchKind)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for path, e := range ws.paths {
		if e.set != 0 {
			all[path], e.set = e.set, 0
		}
	}
	return all
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
