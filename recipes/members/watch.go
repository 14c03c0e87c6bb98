// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/zkio"
)

// An Info is a member, of any process, as ZooKeeper has it.
type Info struct {
	ID    string
	Data  []byte // must not be changed
	Since uint64 // the transaction by which it joined: the oldest member has the lowest
}

// A View is a group at one moment.
type View struct {
	Members []Info // ordered by ID; must not be changed
	// Err says why ZooKeeper refuses to show the group, and is nil usually. Members is what
	// was seen before. The group is looked at again every few seconds.
	Err error
}

// Watch returns a channel of views: the group as it is, and then as it has changed. A
// receiver gets the newest view that it has not had, so a slow one misses views, and never
// the last. Views can be out of date; while ZooKeeper cannot be reached, none comes.
//
// The channel is closed when ctx ends or the Manager closes. Watch does not block. It
// costs a list and a read of each member; each change costs every watcher a read, or, if
// a member has joined or left, a list and a read.
func (g *Group) Watch(ctx context.Context) <-chan View {
	ctx, done := context.WithCancel(ctx)
	stop := context.AfterFunc(g.access.Context(), done)
	w := &watching{group: g, ctx: ctx, loop: look.New(g.access, g.access.Context()), news: bell.New(), changed: make(map[string]bool), known: make(map[string]*Info), unread: make(map[string]bool)}
	views := make(chan View)
	g.access.Go(func() {
		defer done()
		defer stop()
		w.tell(views)
	})
	g.access.Go(w.follow)
	return views
}

// A watching is a call of Watch. One goroutine follows the group, another tells the
// receiver, who may be slow.
type watching struct {
	group *Group
	ctx   context.Context
	loop  *look.Loop // its bell is rung when there is something to look at
	news  bell.Bell  // rung when there is a view to tell

	mu      sync.Mutex      // protects what follows; held for a few instructions
	changed map[string]bool // paths that were changed since they were read
	view    View            // the newest
	seen    bool            // there is one

	// The I/O goroutine uses these. There is one at a time.
	session *zkio.Session    // the one that has our watches; nil after a failure
	known   map[string]*Info // by the names of nodes; nil if the node is no member, or not read yet
	unread  map[string]bool  // the names in known that are to be read
}

// tell sends the newest view whenever it is another.
func (w *watching) tell(views chan<- View) {
	defer close(views)
	var out chan<- View // nil: there is nothing to tell
	var view View
	for {
		select {
		case <-w.news:
			out, view = views, w.newest()
		case out <- view:
			out = nil
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *watching) newest() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

// follow looks at the group until ctx ends.
func (w *watching) follow() {
	a := w.group.access
	a.Watch(w.group.dir, w)
	_ = w.loop.Run(w.ctx, w.look)
	_ = access.Tell(a, w.unwatch) // or the Manager is closed
}

// over reports whether ctx has ended, or the Manager is closed.
func (w *watching) over() bool { return w.ctx.Err() != nil || w.group.access.Context().Err() != nil }

// publish makes view the newest, unless it says what the last one said.
func (w *watching) publish(view View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.seen && view.Err == nil && w.view.Err == nil && slices.EqualFunc(view.Members, w.view.Members, func(a, b Info) bool {
		return a.ID == b.ID && a.Since == b.Since && bytes.Equal(a.Data, b.Data)
	})
	if w.view, w.seen = view, true; !same {
		w.news.Ring()
	}
}

func (w *watching) members() []Info {
	var all []Info
	for _, m := range w.known {
		if m != nil {
			all = append(all, *m)
		}
	}
	sortByID(all)
	return all
}

// look looks at the group, and publishes what it has seen.
func (w *watching) look(s *zkio.Session) (over bool, err error) {
	if w.over() {
		return true, nil
	}
	err = w.read(s)
	switch {
	case w.over():
		return true, nil
	case err == nil:
		w.loop.Again = 0
		w.publish(View{Members: w.members()})
	case zkio.ClassOf(err) == zkio.Definite:
		w.loop.Again = lookEvery
		w.publish(View{Members: w.newest().Members, Err: w.group.error("watch", err)})
	default:
		return false, err
	}
	return false, nil
}

// read brings known up to date. Each read leaves a watch.
func (w *watching) read(s *zkio.Session) error {
	// Events from now on are about what we have not read yet.
	changed := w.take()
	all := w.session != s // no watch that we know of is there
	w.session = nil
	if all || changed[w.group.dir] {
		if err := w.list(s); err != nil {
			return err
		}
	}
	var names []string
	var reads []*zkio.Read
	for name := range w.known {
		if path := w.group.path(name); all || w.unread[name] || changed[path] {
			names = append(names, name)
			reads = append(reads, &zkio.Read{Path: path, What: zkio.ReadData})
		}
	}
	s.Read(reads...)
	for i, r := range reads {
		w.known[names[i]] = nil
		delete(w.unread, names[i])
		switch {
		case errors.Is(r.Err, zkio.ErrNoNode): // it left after the list, whose watch tells
			w.unread[names[i]] = true // nor is there a watch for it: another may come
		case r.Err != nil:
			return r.Err
		case r.Stat.EphemeralOwner != 0:
			m := infoOf(names[i], r)
			w.known[names[i]] = &m
		}
	}
	w.session = s
	return nil
}

// list finds out which members have joined, and which have left.
func (w *watching) list(s *zkio.Session) error {
	g := w.group
	names, _, err := s.Children(g.dir)
	if errors.Is(err, zkio.ErrNoNode) {
		var there bool
		if _, there, err = s.Exists(g.dir); there { // else there is a watch for it now
			return fmt.Errorf("%w: the group was made just now", zkio.ErrNotSent)
		}
	}
	if err != nil {
		return err
	}
	gone := make(map[string]bool)
	for name := range w.known {
		gone[name] = true
	}
	for _, name := range names {
		delete(gone, name)
		if _, ok := w.known[name]; !ok {
			w.known[name], w.unread[name] = nil, true
			g.access.Watch(g.path(name), w)
		}
	}
	for name := range gone {
		delete(w.known, name)
		delete(w.unread, name)
		s.Unwatch(g.path(name), w) // its watch has fired; another's look at the id may have left one
	}
	return nil
}

// unwatch takes the watches back.
func (w *watching) unwatch(s *zkio.Session) error {
	for name := range w.known {
		s.Unwatch(w.group.path(name), w)
	}
	s.Unwatch(w.group.dir, w)
	return nil
}

// PathChanged is called by the dispatcher.
func (w *watching) PathChanged(path string, _ zkio.Event) {
	w.mu.Lock()
	w.changed[path] = true
	w.mu.Unlock()
	w.loop.Bell.Ring()
}

// take returns the paths that were changed since the last call.
func (w *watching) take() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.changed
	w.changed = make(map[string]bool)
	return changed
}

func infoOf(name string, r *zkio.Read) Info {
	return Info{ID: idOf(name), Data: r.Data, Since: uint64(r.Stat.Czxid)}
}

func sortByID(all []Info) {
	slices.SortFunc(all, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
}
