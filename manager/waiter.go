// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A waiter is the roundIO of a round whose node is in the queue, in its role towards the contenders
// ahead: it lists the queue, makes a plan of what it sees, and carries the plan out until nothing
// is ahead.
type waiter roundIO

func (t *roundIO) waiter() *waiter { return (*waiter)(t) }

// watching is a plan that is being carried out.
type watching struct {
	plan  plan
	ahead [maxWatched]*ahead // those that the plan watches, the nearest last
}

// contenders returns the contenders that the plan watches.
func (w *watching) contenders() []*ahead { return w.ahead[:w.plan.watched] }

// maxWatched is the largest number of contenders that a plan watches.
const maxWatched = 2

// news returns what the watches have reported so far, and whether all are set.
func (w *watching) news() (n news, armed bool) {
	var all [maxWatched]heard
	for i, a := range w.contenders() {
		all[i] = a.heard()
	}
	return newsOf(all[:w.plan.watched], w.plan.conn)
}

// follow replaces the waiter's plan by one made of p, which a list on connection conn has
// shown. It takes over the watches of the old plan that are still set. First is the
// contender whose turn it is, if that is known.
func (t *waiter) follow(p queue.Prospect, conn connection, first queue.Contender) {
	old := t.watching
	w := &watching{plan: planOf(p, conn)}
	for i, c := range p.Known {
		if old != nil {
			w.ahead[i] = old.take(c.Name)
		}
		if w.ahead[i] == nil {
			w.ahead[i] = &ahead{io: t.io, path: t.round.lock.pathOf(c.Name)}
		}
	}
	t.noteFirst(w, first)
	t.watching = w
	t.round.lock.unwatch(old)
}

// noteFirst notes the contender whose turn it is: in w's plan if w watches it, and
// otherwise in neighbours.
func (t *waiter) noteFirst(w *watching, first queue.Contender) {
	var other *ahead
	for i, a := range w.contenders() {
		if a.name() == first.Name {
			w.plan.first = int8(i + 1)
		}
	}
	if w.plan.first == 0 && w.plan.ahead > 0 && first.Name != "" {
		other = t.unwatched(first)
	}
	if t.io.near().first != other {
		t.io.meet().first = other
	}
}

// unwatched returns c, which the waiter does not watch, with what its process has said in
// other nodes.
func (t *waiter) unwatched(c queue.Contender) *ahead {
	l := t.round.lock
	by, known := l.m.peers.find(c.Name)
	if old := t.io.near().first; old != nil && old.name() == c.Name && (!old.unread || !known) {
		return old
	}
	said := l.contender(c)
	said.by(by)
	return &ahead{io: t.io, path: said.Path, said: sayingOf(&said), unread: !known}
}

// first returns the contender whose turn it was when w's plan was made; nil if that is
// not known, or it has gone.
func (t *waiter) first(w *watching) *ahead {
	a := t.io.near().first
	if i := w.plan.first; i > 0 {
		a = w.ahead[i-1]
	}
	if a == nil || a.isGone() {
		return nil
	}
	return a
}

// take removes the armed contender of that name from the plan and returns it; nil
// if there is none.
func (w *watching) take(name string) *ahead {
	for i, a := range w.ahead {
		if a != nil && a.armed && a.name() == name {
			w.ahead[i] = nil
			return a
		}
	}
	return nil
}

// outdate notes that the queue is about to be listed.
func (w *watching) outdate() {
	for _, a := range w.contenders() {
		// The directory's watch is not taken over: it fires at every change.
		a.armed = a.heard().outdated().armed && !a.inDirectory
	}
}

// unwatchAhead drops the waiter's plan: the queue is to be listed.
func (t *waiter) unwatchAhead() {
	old := t.watching
	t.watching = nil
	t.round.lock.unwatch(old)
}

// unwatch takes back the registrations of a plan that is no longer followed, but
// for those that were taken over.
func (l *line) unwatch(w *watching) {
	if w == nil {
		return
	}
	for _, a := range w.ahead {
		if a != nil {
			l.m.client.Unwatch(a.path, a)
			if a.inDirectory {
				l.m.client.Unwatch(l.path, a)
			}
		}
	}
}

// wait takes a round whose node is in the queue further: until it is first, or
// there is nothing to do but wait for a watch.
func (t *waiter) wait(s *zkio.Session) next {
	for {
		// The news before the events: the own node's deletion must be seen if it was
		// reported before that of the contender ahead.
		var (
			p     *plan
			armed bool
			n     news
		)
		w := t.watching
		if w != nil {
			p = &w.plan
			n, armed = w.news()
		}
		events := t.events.Load()
		conn := connectionOf(s)

		if t.events.Take(state.QueueDue) != 0 {
			t.events.Raise(state.WaitsLong)
			t.unwatchAhead()
			p = nil
		}
		then := goOn
		switch decide(p, armed, n, ownNode{events.Has(state.OwnTouched), events.Has(state.OwnDue), t.watched, t.seen()}, conn) {
		case doPark:
			t.park(w, n)
			return sleep
		case doLookAtOwn:
			then = t.lookAtOwn(s)
		case doList:
			then = t.listQueue(s, conn)
		case doWatch:
			then = t.watchAhead(s)
		case doEnter:
			//holdfast:reached-if armed: grant: those ahead went, no list
			return goOn
		}
		if then != goOn {
			return then
		}
	}
}

// seen reports whether the own node is known well enough to exist: a watch would
// have reported its deletion, or the server has confirmed it no longer ago than a
// holder waits before its first look at a node that has no watch.
func (t *waiter) seen() bool {
	m := t.round.lock.m
	return t.watched || m.now()-t.seenAt < int64(m.firstLook())
}

// lookAtOwn reads the own node, which sets the watch for it.
func (t *waiter) lookAtOwn(s *zkio.Session) next {
	events := t.events.Take(state.OwnTouched | state.OwnDue)
	data, stat, err := s.Get(t.node.Path())
	if err == nil {
		err = t.io.incumbent().revokedByCurator(s, data, stat)
	}
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return requeue
	case err != nil:
		t.events.Raise(state.OwnTouched) // look again
		return t.io.failed(err)
	}
	t.watched = true
	if events.Has(state.OwnTouched) {
		t.unwatchAhead() // our position may have changed
	}
	return goOn
}

// lookAtNodeLater has a waiter look at its own node when what is known about that gets old.
func (t *waiter) lookAtNodeLater() {
	d := t.round.lock.m.firstLook() - time.Duration(t.round.lock.m.now()-t.seenAt)
	t.io.delays().add(max(0, d), &delayedWake{io: t.io, timer: state.OwnTimer, event: state.OwnDue, later: true})
}

// listQueue lists the queue and makes the waiter a plan of what it shows. conn was the
// connection before.
func (t *waiter) listQueue(s *zkio.Session, conn connection) next {
	if shown := t.io.near().listed; shown != nil {
		t.neighbours.listed = nil
		return t.consider(s, shown)
	}
	if t.watching != nil {
		t.watching.outdate()
	}
	children, stat, err := s.Children(t.round.lock.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return requeue // the directory is gone, and our node with it
	} else if err != nil {
		return t.io.failed(err)
	}
	return t.consider(s, &listed{children, stat, conn, t.round.lock.m.now()})
}

// consider makes the waiter a plan of what a list shows.
func (t *waiter) consider(s *zkio.Session, shown *listed) next {
	l := t.round.lock
	q := l.queueOf(shown.names, shown.stat)
	defer q.Free()
	l.noteStrangers(&q)
	if q.Exhausted {
		if err := t.order(s, &q); errors.Is(err, ErrSequenceExhausted) {
			t.round.fail(t.round.error("acquire", err))
			return again
		} else if err != nil {
			return t.io.failed(err)
		}
	}
	if c, found := q.OfOtherKind(l.kind); found && l.noted.Raise(state.OtherKindTold) {
		l.m.cfg.Logger.Warn("holdfast: mutexes and read/write locks contend in one directory; here they exclude each other, but some clients grant both at once",
			"lock", l.Name(), "kind", l.kind.String(), "node", l.pathOf(c.Name))
	}
	name := t.node.Name()
	v := t.io.outlook()
	t.io.suspected(q.Behind(name, v.kind, func(name string) bool { return v.passesOver(l, name) }))
	p, found := q.Prospect(name, l.kind)
	for _, tr := range t.io.traits() {
		p = tr.listed(t.io, q, p)
	}
	if !found {
		//holdfast:reached fetch: its node was deleted by another client
		return requeue
	}
	var tail *queue.Tail
	if p.Ahead <= 1 { // it is for our release, and with more ahead it would be outdated by then
		tail = q.Tail(name, l.kind)
	}
	t.io.setTail(tail)
	t.seenAt = shown.at
	first, _ := q.First()
	t.follow(p, shown.conn, first)
	return goOn
}

// order finds out in which order the contenders of a queue whose sequence numbers
// have run out were created: by which transactions. Other clients do not do that,
// so with one of theirs in the queue there is no order to agree on.
func (t *waiter) order(s *zkio.Session, q *queue.Queue) error {
	kept := q.Contenders[:0]
	for _, c := range q.Contenders {
		data, stat, err := s.Get(t.round.lock.pathOf(c.Name))
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
		case !new(Contender).describe(data, stat):
			return fmt.Errorf("%w, and another client's contender is in the queue: %s", ErrSequenceExhausted, c.Name)
		}
		if queue.Exhausted(c.Seq) {
			c.Czxid = stat.Czxid
		}
		if c.Name == t.node.Name() {
			t.watched = true // since it was read. The list may be old when all have been
		}
		kept = append(kept, c)
	}
	q.Contenders = kept
	return nil
}

// watchAhead sets the watches of the plan that are not set yet, in one packet, and
// notes what the contenders say of themselves.
func (t *waiter) watchAhead(s *zkio.Session) next {
	l, w := t.round.lock, t.watching
	var reads [maxWatched + 1]*zkio.Read
	n := 0
	for _, a := range w.contenders() {
		if !a.armed {
			// Before the request: an event that comes right behind the answer must
			// find the watcher.
			l.m.client.Watch(a.path, a)
			reads[n] = &zkio.Read{Path: a.path, What: zkio.ReadData}
			n++
		}
	}
	// The holder may belong to a process of which no node was ever read. Read this one,
	// so that errors can name the process. For a short wait that is not worth a request.
	first := t.first(w)
	meet := first != nil && first.unread && t.events.Load().Has(state.WaitsLong)
	if meet {
		reads[n] = &zkio.Read{Path: first.path, What: zkio.ReadData}
		n++
	}
	s.Read(reads[:n]...)
	if meet {
		t.io.meet().first = first.read(reads[n-1])
	}
	n = 0
	for _, a := range w.contenders() {
		if a.armed {
			continue
		}
		read := reads[n]
		n++
		stat, err := read.Stat, read.Err
		if errors.Is(err, zkio.ErrNoAuth) {
			stat, err = a.watchUnreadable(s)
		}
		if errors.Is(err, zkio.ErrNoNode) {
			// It went between the list and now. Have the watcher notified in order
			// with the other events: our own node may have gone before.
			//holdfast:reached fetch: one ahead went between the list and the watch
			s.NotifyDeleted(a.path)
			a.missing = true
		} else if err != nil {
			return t.io.failed(err)
		}
		a.armed = true
		c := Contender{Path: a.path}
		if err == nil {
			l.m.peers.describe(&c, read.Data, stat)
		}
		a.said = sayingOf(&c)
		if c.Persistent && t.events.Raise(state.PersistentTold) {
			l.m.cfg.Logger.Warn("holdfast: waiting for a contender whose node is not ephemeral; it stays until it is deleted by hand",
				"lock", l.Name(), "node", a.path)
		}
	}
	return goOn
}

// park prepares for a wait. From then on the round costs no goroutine: a watch, the
// loss of the session or the rotation wakes it.
func (t *waiter) park(w *watching, n news) {
	m := t.round.lock.m
	t.attempts, t.requeues = 0, 0
	p := &position{ahead: w.plan.ahead - int32(n.gone), at: m.now()}
	gone := 0
	for _, a := range w.contenders() {
		switch {
		case a.isGone():
			gone++
		case a.missing:
			return // the dispatcher is about to tell, so this is no wait
		case p.of == nil || !w.plan.complete: // the nearest; but if no other is ahead of the two, the holder
			p.of = a
		}
	}
	if gone > int(n.gone) {
		return // the dispatcher has just told, so this is no wait either: the wake is due
	}
	p.first = t.first(w)
	if p.first == nil && w.plan.complete && p.ahead == 1 && t.round.lock.kind != queue.Read {
		p.first = p.of // every contender ahead is known, and this one is left
	}
	if old := t.position.Load(); old == nil || old.ahead != p.ahead || old.of != p.of || old.first != p.first {
		t.io.whereabouts().set(p)
		t.io.teller().placed(old, p)
		// Only the next in line needs a lease. The others prove their sessions when
		// their turn comes: a periodic write by every waiter would be a burden on the
		// servers that grows with the queue.
		t.node.KeepAlive(p.ahead == 1)
		if t.node.Beside() == "" { // else enterBeside may look at it, and make it again
			t.node.DropCreateData()
		}
	}
	// An administrator may delete our node while we wait. A waiter that enters
	// without a list must know that its own node exists: see seen. So one that will
	// not list any more looks when that knowledge gets old, and not before: if its
	// turn comes soon the look would be wasted. The others notice when they list the
	// queue, or when the rotation looks.
	if (p.ahead == 1 || w.plan.complete) && !t.watched {
		t.lookAtNodeLater()
	}
}
