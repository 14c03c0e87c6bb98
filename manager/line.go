// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// line is the part of a trip that waits in the queue for its turn. It watches one
// contender at a time, and knows what is to be done when that one has gone: see
// prospect.
type line struct {
	gone   atomic.Pointer[string] // the path of a watched contender that was deleted
	looked atomic.Int64           // when the place was last looked at; 0: it is to be looked at; see rotate

	news    atomic.Bool // something other than a deletion happened to the one ahead, and used up its watch
	ownDue  atomic.Bool // our own node has had no watch for so long that it is to be looked at
	ownLook atomic.Bool // an ownLook is on its way

	// Of step alone, as the trip's.
	ahead      string     // the path of the contender that is watched; "": none
	then       *contender // when it has gone this is the only one ahead; nil: nobody is. Only if:
	sure       uint64     // its deletion is told on this connection; 0: that is not known
	seenAt     int64      // when our own node was last seen to be there
	ownWatched bool       // the server has a watch for it, or had and ownTouched tells
	parked     bool       // await has set the watch, and nothing has been tried since
	first      bool       // it was the only one in the queue when it was made
	last       *last      // who was behind when the queue was last looked at, by one at its head or next to it
	from       *last      // of a round that has just queued: the last of the round that left for it
}

// A prospect is what a round that waits knows of those ahead that exclude it.
//
// Nobody can come in ahead of us. So whoever knows all those who are there can tell
// without another look when it is his turn: he watches them one after the other. He
// who has many ahead looks at the queue again when the one that he watches has gone.
// If that is the nearest one, the lock is nobody's while he looks. If it is the next
// but one, the nearest one has just got the lock, there is time, and its deletion
// is the grant.
type prospect struct {
	n     int        // how many there are
	watch contender  // the one to watch
	then  *contender // the only one ahead when that one has gone; nil: nobody is
	sure  bool       // that is known; else the queue is to be looked at then
}

// replaced reports whether a read can stand in the place of c when c has gone, and
// exclude one of the given kind: a write may have been downgraded.
func replaced(c contender, kind Kind) bool { return c.kind == KindWrite && kind != KindRead }

// prospect returns what the queue says of those ahead of the one called name; found
// is false if that is not in the queue.
func (q queue) prospect(name string, kind Kind) (p prospect, found bool) {
	own, found := q.find(name)
	if !found {
		return p, false
	}
	var nearest, second contender
	for _, c := range q.contenders {
		if !excludes(c.kind, kind) || compareTurns(c, own) >= 0 {
			continue
		}
		switch p.n++; {
		case p.n == 1 || compareTurns(c, nearest) > 0:
			nearest, second = c, nearest
		case p.n == 2 || compareTurns(c, second) > 0:
			second = c
		}
	}
	p.watch = nearest
	switch {
	case q.exhausted || replaced(nearest, kind):
	case p.n == 1:
		p.sure = true
	case p.n == 2 && !replaced(second, kind):
		p.watch, p.then, p.sure = second, &nearest, true
	}
	return p, true
}

// A last is the end of a queue, as somebody at its head has seen it.
type last struct {
	contender           // the last one
	before    contender // the one before it; nobody if name is ""
	n         int       // how many are behind the one at the head, and are excluded by it
}

// last returns the end of a queue behind the one called name; nil if nobody is
// there, or if the order is not told by the numbers.
func (q queue) last(name string, kind Kind) *last {
	own, found := q.find(name)
	if q.exhausted || !found {
		return nil
	}
	var l last
	for _, c := range q.contenders {
		if compareTurns(c, own) <= 0 {
			continue
		}
		if excludes(kind, c.kind) {
			l.n++
		}
		switch {
		case l.name == "" || compareTurns(c, l.contender) > 0:
			l.contender, l.before = c, l.contender
		case l.before.name == "" || compareTurns(c, l.before) > 0:
			l.before = c
		}
	}
	// Anybody can make a child whose number has not been given out yet.
	if l.name == "" || l.seq >= q.next {
		return nil
	}
	return &l
}

// nextNumber returns the number that the next child of a directory with this Stat
// is given: how many there have been. Cversion counts those and the deletions.
func nextNumber(st zkio.Stat) int64 { return int64(uint32(st.Cversion+st.NumChildren) / 2) }

// prospect returns what is known of those ahead of own, which has queued in the
// transaction that took the head away, from what the end was before; ok is false if
// it takes a look. Each child that is made uses up one number, so own's says how many
// have come since, at the most: not every child is a contender, nor still there.
func (l *last) prospect(own contender) (p prospect, ok bool) {
	mutexes := own.kind == KindExclusive && l.kind == KindExclusive
	switch since := own.seq - l.seq - 1; {
	case exhausted(own.seq) || !excludes(l.kind, own.kind):
		return p, false
	case since == 0 && l.n == 1:
		return prospect{n: 1, watch: l.contender, sure: !replaced(l.contender, own.kind)}, true
	case since == 0 && mutexes && l.before.kind == KindExclusive:
		p = prospect{n: l.n, watch: l.before, sure: l.n == 2}
		if p.sure {
			p.then = &l.contender
		}
		return p, true
	case since == 0:
		return prospect{n: l.n, watch: l.contender}, true
	case since == 1 && mutexes:
		return prospect{n: l.n + 1, watch: l.contender}, true // the next but one, if that other one is a contender
	}
	return p, false
}

// inLine takes a round whose node is in the queue further: to the grant, or to a
// contender to wait for. It returns what fetch is to return.
func (t *trip) inLine(s *zkio.Session) (more bool) {
	l := t.round.lock
	gone := t.gone.Load() // before ownTouched: our own node's deletion is told first, if it was first
	if t.ownTouched.Swap(false) {
		// Our node's watch has fired: look, which also sets it again.
		if ok, more := t.lookAtOwn(s); !ok {
			return more
		}
		t.sure, t.first, t.from = 0, false, nil // list: our place may not be what it was
	}
	connection := s.Connection() // read after it: what is told on a new one counts for that
	if t.ownDue.Swap(false) && !t.ownWatched {
		if ok, more := t.lookAtOwn(s); !ok {
			return more
		}
		if t.parked && gone == nil && !t.news.Load() && t.place.Load() != nil && t.looked.Load() != 0 {
			return false // nothing else is to be looked at
		}
	}
	t.parked = false
	t.news.Store(false) // before the list, or the look that sets the watch
	switch {
	case t.first:
		t.first, t.from = false, nil
		if t.seen() {
			//holdfast:reached hand-over: nobody else was in the queue
			return t.enter(s)
		}
	case t.from != nil:
		from := t.from
		t.from = nil
		own, _ := parseContender(t.node.Name())
		if p, ok := from.prospect(own); ok {
			//holdfast:reached hand-over: behind those it has seen, no list
			return t.await(s, p, connection)
		}
	case gone == nil || *gone != t.ahead || t.sure != connection:
	case t.then != nil:
		//holdfast:reached grant: one of two ahead went, waits for the other
		return t.await(s, prospect{n: 1, watch: *t.then, sure: true}, connection)
	case t.seen():
		// The only contender ahead is gone, and nobody can come in before us: the
		// lock is ours, without another look.
		//holdfast:reached grant: the only one ahead went, no list
		return t.enter(s)
	}
	q, more, ok := t.list(s)
	if !ok {
		return more
	}
	p, found := q.prospect(t.node.Name(), l.kind)
	t.last = nil
	if p.n <= 1 { // it is for our release, and would be of no use then if there were more ahead
		t.last = q.last(t.node.Name(), l.kind)
	}
	q.free()
	if !found {
		//holdfast:reached fetch: its node was deleted by somebody
		return t.requeue(s)
	}
	t.seenAt = l.m.now()
	if p.n == 0 {
		return t.enter(s)
	}
	return t.await(s, p, connection)
}

// seen reports whether our own node is known well enough to be there: we would have
// heard if it had gone, or the server has said so not longer ago than what keep
// lets pass before its first look at a node that has no watch.
func (t *trip) seen() bool {
	m := t.round.lock.m
	return t.ownWatched || m.now()-t.seenAt < int64(m.firstLook())
}

// list reads the queue. If ok is false, more is what fetch is to return.
func (t *trip) list(s *zkio.Session) (q queue, more, ok bool) {
	l := t.round.lock
	children, stat, err := s.Children(l.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return q, t.requeue(s), false // the directory is gone, and our node with it
	} else if err != nil {
		return q, t.failed(err), false
	}
	q = parseQueue(children)
	q.next = nextNumber(stat)
	l.foreign.Store(int32(q.foreign))
	if q.exhausted {
		if err := t.order(s, &q); errors.Is(err, ErrSequenceExhausted) {
			t.round.fail(t.error("acquire", err))
			return q, true, false
		} else if err != nil {
			return q, t.failed(err), false
		}
	}
	if c, found := q.foreignKind(l.kind); found && l.mixed.CompareAndSwap(false, true) {
		l.m.cfg.Logger.Warn("holdfast: mutexes and read/write locks contend in one directory; here they exclude each other, but some clients grant both at once",
			"lock", l.Name(), "kind", l.kind.String(), "node", l.path+"/"+c.name)
	}
	t.suspected(q.behind(t.node.Name(), l.kind, l.m.owns))
	return q, true, true
}

// order finds out in which order the contenders of a queue whose sequence numbers
// have run out were created: by which transactions. Other clients do not do that: with
// one of theirs in the queue there is no order to agree on.
func (t *trip) order(s *zkio.Session, q *queue) error {
	kept := q.contenders[:0]
	for _, c := range q.contenders {
		data, stat, err := s.Get(t.round.lock.path + "/" + c.name)
		switch {
		case errors.Is(err, zkio.ErrNoNode) && exhausted(c.seq):
			continue
		case errors.Is(err, zkio.ErrNoNode):
			// It has gone since the list was made. It may have been a write that
			// has become a read at its place, which the list does not show. So it
			// stays: who is behind it finds it gone, and lists again.
			//holdfast:reached numbers run out: a contender goes while the queue is put in order
		case err != nil:
			return err
		case !new(Contender).describe(data):
			return fmt.Errorf("%w, and another client's contender is in the queue: %s", ErrSequenceExhausted, c.name)
		}
		if exhausted(c.seq) {
			c.czxid = stat.Czxid
		}
		kept = append(kept, c)
	}
	q.contenders = kept
	return nil
}

// lookAtOwn reads our own node, which sets the watch for it. If ok is false the
// node is gone, or it is not known, and more is what fetch is to return.
func (t *trip) lookAtOwn(s *zkio.Session) (ok, more bool) {
	_, _, err := s.Get(t.node.Path())
	switch {
	case err == nil:
		t.ownWatched = true
		return true, true
	case errors.Is(err, zkio.ErrNoNode):
		return false, t.requeue(s)
	}
	t.ownTouched.Store(true)
	return false, t.failed(err)
}

// await watches a contender ahead and parks the round. From here on it costs no
// goroutine: a watch, the loss of the session or the rotation wakes it. connection
// is the one that was there before the prospect was found out.
func (t *trip) await(s *zkio.Session, p prospect, connection uint64) (more bool) {
	l := t.round.lock
	path := l.path + "/" + p.watch.name
	if t.ahead != path {
		t.unwatchAhead()
		t.ahead = path
		// Before the request: an event that comes right behind the reply must
		// find us.
		l.m.client.Watch(path, (*aheadWatch)(t))
	}
	t.then, t.sure = p.then, 0
	if p.sure {
		t.sure = connection
	}
	data, stat, err := s.Get(path)
	if errors.Is(err, zkio.ErrNoNode) {
		// It went between the list and now.
		//holdfast:reached fetch: the one ahead went between the list and the watch
		t.gone.Store(&path)
		return true
	} else if err != nil {
		return t.failed(err)
	}
	c := &Contender{Path: path, Kind: p.watch.kind, Sequence: p.watch.seq, Persistent: stat.EphemeralOwner == 0}
	c.describe(data)
	if c.Persistent && !t.warned {
		t.warned = true
		l.m.cfg.Logger.Warn("holdfast: waiting for a contender whose node is not ephemeral; it stays until somebody deletes it",
			"lock", l.Name(), "node", path)
	}
	if t.node.Beside() == "" { // else downgrade may look at it, and make it again
		t.node.DropCreateData()
	}
	t.setPlace(&place{position: p.n, ahead: c})
	// A lease is of use to who is next. The others can do without until it is
	// their turn, and prove themselves then: a write now and then by everybody who
	// waits would be a burden on the servers that grows with the queue.
	t.node.KeepAlive(p.n == 1)
	// An administrator may delete our node while we wait. Who enters without a look
	// at the queue has to know that his own node is there: from a look that is not
	// long ago, or since he is told of it: see seen. So who is next looks when
	// that time is over, and not before: it is not worth a request if his turn comes
	// soon. The others list the queue before they enter, and see it then, or when
	// the rotation looks.
	if p.n == 1 && !t.ownWatched && t.ownLook.CompareAndSwap(false, true) {
		l.m.client.SubmitAfter(max(0, l.m.firstLook()-time.Duration(l.m.now()-t.seenAt)), zkio.Fetches, (*ownLook)(t))
	}
	t.attempts, t.requeues = 0, 0
	t.looked.Store(l.m.now())
	t.parked = true
	return false
}

// unwatchAhead takes back the watch on the contender ahead.
func (t *trip) unwatchAhead() {
	if t.ahead != "" {
		t.round.lock.m.client.Unwatch(t.ahead, (*aheadWatch)(t))
		t.ahead = ""
	}
	t.then, t.sure = nil, 0
	t.gone.Store(nil)
}

// ownLook is the trip as a task of the pool that makes a look at its own node due.
type ownLook trip

// Void is asked before the task is queued: most rounds are over by then, or held.
func (o *ownLook) Void() bool {
	return o.round.word.Load().Phase() != state.Fetching
}

// Run is called by the pool.
func (o *ownLook) Run(*zkio.Session) {
	o.line.ownLook.Store(false)
	if !o.Void() {
		t := (*trip)(o)
		t.ownDue.Store(true)
		t.wake()
	}
}

// aheadWatch is the trip as the watcher of the contender ahead.
type aheadWatch trip

// PathChanged is told by the dispatcher that something happened to the
// contender ahead. Whatever it was, the trip looks again; that it was deleted
// is noted, with its path, since news of an earlier one may come late.
func (a *aheadWatch) PathChanged(path string, ev zkio.Event) {
	t := (*trip)(a)
	if ev == zkio.NodeDeleted {
		t.gone.Store(&path)
	} else {
		t.news.Store(true)
	}
	t.wake()
}
