// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// watching is a plan that is being carried out: the watcher of the contenders
// that the plan says to watch, and the news of them.
type watching struct {
	plan
	io    *roundIO
	paths [maxWatched]string // of the watched contenders

	// Used by steps only.
	armed       bool // the watches are set
	inDirectory bool // the directory is watched, too

	// The news, written by the dispatcher.
	gone    [maxWatched]atomic.Bool // of the contender with this index in Watched
	changed atomic.Bool
}

// maxWatched is the largest number of contenders that a plan watches.
const maxWatched = 1

// news returns what the watches have reported so far.
func (w *watching) news() (n news) {
	for i := range w.Watch {
		if w.gone[i].Load() {
			n.gone++
		}
	}
	n.changed = w.changed.Load()
	return n
}

// newWatching returns p as the plan of t's round. Nothing is watched yet.
func newWatching(t *roundIO, p plan) *watching {
	w := &watching{plan: p, io: t}
	dir := t.round.lock.path + "/"
	for i, c := range w.Watched() {
		w.paths[i] = dir + c.Name
		// The same text as a part of the path, so that a waiter does not keep a
		// second string, from the list.
		w.Known[i].Name = w.paths[i][len(dir):]
	}
	return w
}

// PathChanged is called by the dispatcher when something happened to a contender
// ahead, or to the directory of one that may not be read. It does not block.
func (w *watching) PathChanged(path string, ev zkio.Event) {
	if i := slices.Index(w.paths[:w.Watch], path); i >= 0 && ev == zkio.NodeDeleted {
		w.gone[i].Store(true)
	} else {
		w.changed.Store(true)
	}
	w.io.wake()
}

// follow makes p the waiter's plan.
func (t *roundIO) follow(p plan) {
	old := t.watching
	t.watching = newWatching(t, p)
	t.unwatch(old)
}

// unwatchAhead drops the waiter's plan: the queue is to be listed.
func (t *roundIO) unwatchAhead() {
	old := t.watching
	t.watching = nil
	t.unwatch(old)
}

// unwatch takes back the registrations of a plan that is no longer followed.
func (t *roundIO) unwatch(w *watching) {
	if w != nil {
		l := t.round.lock
		for _, path := range w.paths[:w.Watch] {
			l.m.client.Unwatch(path, w)
		}
		if w.inDirectory {
			l.m.client.Unwatch(l.path, w)
		}
	}
}

// watchUnreadable watches a contender that this process may not read. The server
// does not tell what happens to its node, so watch the directory instead: whenever
// a child comes or goes, the waiter lists the queue again. The error is ErrNoNode
// if the contender is gone.
func (w *watching) watchUnreadable(s *zkio.Session, c queue.Contender) error {
	//holdfast:reached fetch: the one ahead may not be read
	l := w.io.round.lock
	w.inDirectory = true
	l.m.client.Watch(l.path, w)
	children, _, err := s.Children(l.path)
	if err == nil && !slices.Contains(children, c.Name) {
		err = zkio.ErrNoNode
	}
	return err
}

// wait takes a round whose node is in the queue further: to the grant, or until
// there is nothing to do but wait for a watch. It returns what fetch is to return.
func (t *roundIO) wait(s *zkio.Session) (more bool) {
	ownDue := false
	for {
		// The order of these reads matters. The own node's deletion must be seen if
		// it was reported before that of the contender ahead. And news that came on
		// a later connection than the plan's must not be taken for news that came
		// on the plan's.
		var (
			p     *plan
			armed bool
			n     news
		)
		if w := t.watching; w != nil {
			p, armed, n = &w.plan, w.armed, w.news()
		}
		events := t.events.Take(state.OwnTouched | state.OwnDue | state.QueueDue)
		conn := s.Connection()

		t.touched = t.touched || events.Has(state.OwnTouched)
		ownDue = ownDue || events.Has(state.OwnDue)
		if events.Has(state.QueueDue) {
			t.unwatchAhead()
			p = nil
		}
		var ok bool
		switch decide(p, armed, n, ownNode{t.touched, ownDue, t.watched, t.seen()}, conn) {
		case doPark:
			return false
		case doLookAtOwn:
			if ok, more = t.lookAtOwn(s); !ok {
				return more
			}
			ownDue = false
		case doList:
			if ok, more = t.listQueue(s, conn); !ok {
				return more
			}
		case doWatchRest:
			//holdfast:reached grant: one of two ahead went, waits for the other
			t.follow(plan{Prospect: p.Rest(), conn: p.conn})
		case doWatch:
			if ok, more = t.watchAhead(s); !ok {
				return more
			}
		case doEnter:
			//holdfast:reached-if armed: grant: the only one ahead went, no list
			return t.grant(s)
		}
	}
}

// seen reports whether the own node is known well enough to exist: a watch would
// have reported its deletion, or the server has confirmed it no longer ago than a
// holder waits before its first look at a node that has no watch.
func (t *roundIO) seen() bool {
	m := t.round.lock.m
	return t.watched || m.now()-t.seenAt < int64(m.firstLook())
}

// lookAtOwn reads the own node, which sets the watch for it. If ok is false the
// node is gone, or that is not known, and more is what fetch is to return.
func (t *roundIO) lookAtOwn(s *zkio.Session) (ok, more bool) {
	_, _, err := s.Get(t.node.Path())
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return false, t.requeue(s)
	case err != nil:
		t.touched = true // look again
		return false, t.failed(err)
	}
	t.watched = true
	if t.touched {
		t.touched = false
		t.unwatchAhead() // our position may have changed
	}
	return true, true
}

// listQueue lists the queue and makes the waiter a plan of what it shows. If ok
// is false, more is what fetch is to return. conn was the connection before.
func (t *roundIO) listQueue(s *zkio.Session, conn uint64) (ok, more bool) {
	l := t.round.lock
	children, stat, err := s.Children(l.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return false, t.requeue(s) // the directory is gone, and our node with it
	} else if err != nil {
		return false, t.failed(err)
	}
	q := queue.List(children, queue.NextNumber(stat.Cversion, stat.NumChildren))
	defer q.Free()
	l.foreign.Store(int32(q.Strangers))
	if q.Exhausted {
		if err := t.order(s, &q); errors.Is(err, ErrSequenceExhausted) {
			t.round.fail(t.error("acquire", err))
			return false, true
		} else if err != nil {
			return false, t.failed(err)
		}
	}
	if c, found := q.OfOtherKind(l.kind); found && l.noted.Raise(state.OtherKindTold) {
		l.m.cfg.Logger.Warn("holdfast: mutexes and read/write locks contend in one directory; here they exclude each other, but some clients grant both at once",
			"lock", l.Name(), "kind", l.kind.String(), "node", l.path+"/"+c.Name)
	}
	name := t.node.Name()
	t.suspected(q.Behind(name, l.kind, l.m.owns))
	p, found := q.Prospect(name, l.kind)
	if !found {
		//holdfast:reached fetch: its node was deleted by another client
		return false, t.requeue(s)
	}
	t.tail = nil
	if p.Ahead <= 1 { // it is for our release, and with more ahead it would be outdated by then
		t.tail = q.Tail(name, l.kind)
	}
	t.seenAt = l.m.now()
	t.follow(plan{Prospect: p, conn: conn})
	return true, true
}

// order finds out in which order the contenders of a queue whose sequence numbers
// have run out were created: by which transactions. Other clients do not do that,
// so with one of theirs in the queue there is no order to agree on.
func (t *roundIO) order(s *zkio.Session, q *queue.Queue) error {
	kept := q.Contenders[:0]
	for _, c := range q.Contenders {
		data, stat, err := s.Get(t.round.lock.path + "/" + c.Name)
		switch {
		case errors.Is(err, zkio.ErrNoNode) && c.Name == t.node.Name():
			continue // the caller finds it missing
		case errors.Is(err, zkio.ErrNoNode):
			// It has gone since the list was made, and so may our own node have, or
			// a read may have taken a write's place, which the list does not show.
			// So it stays, as the first of those whose number says nothing: if no
			// other is ahead, the waiter finds it gone, and lists again.
			//holdfast:reached numbers run out: a contender goes while the queue is put in order
			kept = append(kept, c)
			continue
		case err != nil:
			return err
		case !new(Contender).describe(data):
			return fmt.Errorf("%w, and another client's contender is in the queue: %s", ErrSequenceExhausted, c.Name)
		}
		if queue.Exhausted(c.Seq) {
			c.Czxid = stat.Czxid
		}
		kept = append(kept, c)
	}
	q.Contenders = kept
	return nil
}

// watchAhead sets the watches that the plan asks for. From then on the round
// costs no goroutine: a watch, the loss of the session or the rotation wakes it.
// If ok is false, more is what fetch is to return.
func (t *roundIO) watchAhead(s *zkio.Session) (ok, more bool) {
	l, w := t.round.lock, t.watching
	var ahead *Contender
	for i, c := range w.Watched() {
		path := w.paths[i]
		// Before the request: an event that comes right behind the answer must
		// find the watcher.
		l.m.client.Watch(path, w)
		data, stat, readable, err := s.Look(path)
		if err == nil && !readable {
			err = w.watchUnreadable(s, c)
		}
		if errors.Is(err, zkio.ErrNoNode) {
			// It went between the list and now. Have the watcher notified in order
			// with the other events: our own node may have gone before.
			//holdfast:reached fetch: the one ahead went between the list and the watch
			s.NotifyDeleted(path)
			w.armed = true
			return true, true
		} else if err != nil {
			return false, t.failed(err)
		}
		ahead = &Contender{Path: path, Kind: Kind(c.Kind), Sequence: c.Seq, Persistent: stat.EphemeralOwner == 0}
		ahead.describe(data)
		if ahead.Persistent && !t.warned {
			t.warned = true
			l.m.cfg.Logger.Warn("holdfast: waiting for a contender whose node is not ephemeral; it stays until it is deleted by hand",
				"lock", l.Name(), "node", path)
		}
	}
	w.armed = true
	if t.node.Beside() == "" { // else enterBeside may look at it, and make it again
		t.node.DropCreateData()
	}
	t.setPosition(newPosition(w.Ahead, ahead, l.m.now()))
	// Only the next in line needs a lease. The others prove their sessions when
	// their turn comes: a periodic write by every waiter would be a burden on the
	// servers that grows with the queue.
	t.node.KeepAlive(w.Ahead == 1)
	// An administrator may delete our node while we wait. A waiter that enters
	// without a list must know that its own node exists: see seen. So the next in
	// line looks when that knowledge gets old, and not before: if its turn comes
	// soon the look would be wasted. The others notice when they list the queue
	// before they enter, or when the rotation looks.
	if w.Ahead == 1 && !t.watched {
		t.delay(max(0, l.m.firstLook()-time.Duration(l.m.now()-t.seenAt)),
			&delayedWake{io: t, timer: state.OwnTimer, event: state.OwnDue, later: true})
	}
	t.attempts, t.requeues = 0, 0
	return true, true
}
