// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
)

// An ahead is a contender ahead that is watched, and its watcher. If the next plan
// watches it as well, that takes it over, with the watch that the server has and what
// was reported since the list was asked for that the next plan is made of.
type ahead struct {
	io   *roundIO
	path string

	// Used by steps only.
	armed       bool // the watch is set, and what was reported since is no older than the plan
	inDirectory bool // the directory is watched, too: the node may not be read
	missing     bool // there was no such node when the watch was set; gone will tell

	unread bool // nothing is known but the name; it is not watched, and this never changes

	// What the node says. A step writes it when it arms the watch, before it puts the
	// contender into a position, which other goroutines read.
	said

	// The news, written by the dispatcher.
	gone    atomic.Uint32 // the node was deleted, as was reported on this connection; 0: it was not
	changed atomic.Bool   // something else happened, which used up the watch
}

// isGone reports whether the node was deleted.
func (a *ahead) isGone() bool { return a.gone.Load() != 0 }

// name returns the last segment of the contender's path.
func (a *ahead) name() string { return a.path[len(a.io.round.lock.path)+1:] }

// heard returns what the watcher knows. Only steps call it.
func (a *ahead) heard() heard { return heard{a.armed, connection(a.gone.Load()), a.changed.Load()} }

// PathChanged is called by the dispatcher when something happened to the contender,
// or to the directory of one that may not be read. It does not block.
func (a *ahead) PathChanged(path string, ev zkio.Event) {
	if path == a.path && ev.What == zkio.NodeDeleted {
		a.gone.Store(uint32(ev.Connection))
	} else {
		a.changed.Store(true)
	}
	a.io.wake()
}

// watchUnreadable watches a contender that this process may not read, and asks
// whether it is there. The server does not tell what happens to such a node, so watch
// the directory instead: whenever a child comes or goes, the waiter lists the queue
// again. The Stat is zero if the server does not tell it: see [zkio.Session.Look]. The
// error is ErrNoNode if the contender is gone.
func (a *ahead) watchUnreadable(s *zkio.Session) (zkio.Stat, error) {
	//holdfast:reached fetch: the one ahead may not be read
	l := a.io.round.lock
	a.inDirectory = true
	l.m.client.Watch(l.path, a)
	names, _, err := s.Children(l.path)
	if err != nil {
		return zkio.Stat{}, err
	}
	if !slices.Contains(names, a.name()) {
		return zkio.Stat{}, zkio.ErrNoNode
	}
	_, stat, _, err := s.Look(a.path)
	return stat, err
}

// read returns a copy of a with what r shows that its node says.
func (a *ahead) read(r *zkio.Read) *ahead {
	if r.Err != nil {
		return a
	}
	c := a.contender()
	a.io.round.lock.m.peers.describe(c, r.Data, r.Stat)
	return &ahead{io: a.io, path: a.path, said: sayingOf(c)}
}

// arm sets the watch of a contender, which is registered, and notes what its node says, and
// whether it has gone. It reports false if that is not known. No other goroutine may know a yet,
// or read what it says.
func (a *ahead) arm(s *zkio.Session) (ok bool) {
	a.changed.Store(false)
	data, stat, err := s.Get(a.path)
	if errors.Is(err, zkio.ErrNoAuth) {
		stat, err = a.watchUnreadable(s)
	}
	if errors.Is(err, zkio.ErrNoNode) {
		a.gone.Store(uint32(connectionOf(s)))
		err = nil
	}
	if err != nil {
		a.changed.Store(true)
		return false
	}
	if a.gone.Load() == 0 {
		c := a.contender()
		a.io.round.lock.m.peers.describe(c, data, stat)
		a.said = sayingOf(c)
	}
	return true
}

// contender returns what is known about a.
func (a *ahead) contender() *Contender {
	l := a.io.round.lock
	entry, _ := queue.ParseName(a.name())
	c := l.contender(entry)
	c.Persistent = a.persistent
	if a.said.by != (unique.Handle[peer]{}) {
		by := a.said.by.Value()
		c.by(by.author)
		c.Session = by.session
	}
	if a.unread { // perhaps another look has met the process since
		if by, known := l.m.peers.find(a.name()); known {
			c.by(by)
		}
	}
	if a.since != 0 {
		c.Since = time.Unix(0, a.since).UTC()
	}
	return &c
}
