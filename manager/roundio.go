// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A roundIO is what a round needs to go to ZooKeeper and back, and to tell its holders.
//
// A round's steps do all its I/O, and the Runner runs one step at a time. So a
// fetch and a deletion of one round are never under way together, and the fields
// that only steps use need no lock. Other goroutines (the last holder
// to leave, a watch, the loss of the session) change the word or raise an event,
// and wake the Runner; each step begins by looking at the word.
//
// A step changes nothing in another round's roundIO. What a round leaves to the
// next one it puts into [Lock.handed], and it wakes that round.
type roundIO struct {
	promises // that its holders share

	round  *round
	runner errand.Runner
	events state.AtomicEvents

	position atomic.Pointer[position] // in the queue, when last listed; nil while unknown

	// Used by steps only.
	node     *zkio.Node   // nil before the fetch, and again after the deletion
	watching *watching    // the plan of a waiter; nil: the queue is to be listed
	nearby                // what is known about other nodes
	seenAt   int64        // when the own node was last seen to be there, on the manager's clock
	attempts errand.Tries // failed tries in a row
	requeues errand.Tries // how many times in a row it had to queue again
	watched  bool         // the server has a watch for the own node, or had one and OwnTouched tells
	leaving  bool         // the node is to go, and may have gone: see nodeStage

	index int32 // 1 + the index in Manager.active, or 0; protected by its mutex
}

// wake has a worker look what there is to do. Until the round's turn has come it
// does nothing. No event is lost by that: a goroutine raises the event before it
// looks at the round's flags here, and the round's turn comes with a flag and then
// a wake, whose step finds the event.
func (t *roundIO) wake() { t.wakeBy(zkio.Fetches) }

// wakeLater is wake for what can wait until the pool has served the fetches that
// callers have just begun. After the end of a session every lock that the process
// waits for queues again, and a lock that is asked for now must not stand behind
// them.
func (t *roundIO) wakeLater() { t.wakeBy(zkio.Refetches) }

// wakeBy wakes the round's I/O by way of queue q, if the round's turn has come.
func (t *roundIO) wakeBy(q zkio.Queue) {
	for _, tr := range t.traits() {
		if tr.wake(t, q) {
			return
		}
	}
	if t.round.due() {
		t.runner.Wake(t, q)
	}
}

// raise raises e and wakes the round's I/O.
func (t *roundIO) raise(e state.Events) {
	t.events.Raise(e)
	t.wake()
}

// raiseLater is raise with wakeLater.
func (t *roundIO) raiseLater(e state.Events) {
	t.events.Raise(e)
	t.wakeLater()
}

// Urgent reports whether the next step deletes the round's node.
func (t *roundIO) Urgent() bool { return t.round.urgent() }

// Submit hands the round to the pool. If the pool is closed, the round ends here
// and now, on the caller's goroutine. That does no I/O, since the session is over
// and its calls fail at once.
func (t *roundIO) Submit(q zkio.Queue) {
	l := t.round.lock
	c := l.m.client
	ok := true
	switch q {
	case zkio.Releases:
		if !c.Submit(q, t) {
			t.Run(c.Session())
		}
	case zkio.Fetches:
		ok = l.fetches.Submit(c, q, (*lockFetch)(l))
	case zkio.Refetches:
		ok = l.refetches.Submit(c, q, (*lockRefetch)(l))
	}
	if !ok {
		// A round that is not pending stays as it is: Close ends it, and that
		// wake is urgent. The wake of a pending one finds queuedFetch and comes
		// back here, urgent.
		t.round.failPending(t.round.error("acquire", ErrClosed))
		// Close may have ended it in the meantime, and the next round's turn may
		// have come, found the entry queued, and relied on us.
		if r := l.cur.Load(); r != t.round {
			r.failPending(r.error("acquire", ErrClosed))
		}
	}
}

// Run is called by the pool.
func (t *roundIO) Run(s *zkio.Session) { t.runner.Run(t, s) }

// lockFetch is a lock as its entry in the queue of fetches.
type lockFetch Lock

// Run is called by the pool.
func (f *lockFetch) Run(s *zkio.Session) { (*Lock)(f).runPresent(&f.fetches, s) }

// lockRefetch is a lock as its entry in the queue of refetches.
type lockRefetch Lock

// Run is called by the pool.
func (f *lockRefetch) Run(s *zkio.Session) { (*Lock)(f).runPresent(&f.refetches, s) }

// runPresent runs the present round's I/O for an entry that was taken from a queue.
func (l *Lock) runPresent(e *errand.Entry, s *zkio.Session) {
	e.Taken()
	if p := l.cur.Load().promises(); p != nil {
		p.io.Run(s)
	}
}

// putOff returns n, which a fetch or a held round has come to. If that is retry, it has the
// round woken after a while, and returns what to do until then.
func (t *roundIO) putOff(n next) next {
	switch {
	case n != retry:
		return n
	case t.delays().retry():
		return sleep
	}
	t.round.fail(t.round.error("acquire", ErrClosed))
	return again
}

// Step does what the word says is to be done, until it has to wait.
func (t *roundIO) Step(s *zkio.Session) {
	t.adopt()
	for {
		switch t.putOff(t.pass(s)) {
		case sleep:
			return
		case requeue:
			t.leaving = true
		}
	}
}

// pass looks at the word once, and does what it says.
func (t *roundIO) pass(s *zkio.Session) next {
	r := t.round
	switch w := r.word.Load(); w.Phase() {
	case state.Fetching:
		switch {
		case r.lock.m.closing():
			r.failPending(r.error("acquire", ErrClosed))
		case w.Holders() == 0:
			//holdfast:reached-if t.node != nil && t.node.Czxid() != 0: withdrawal: of the last one, queued
			t.cancel()
		default:
			return t.fetch(s)
		}
		return again
	case state.Retained:
		return t.keep(s)
	case state.Releasing:
		t.release(s)
	}
	return sleep // FREE, RELEASED: a late wake
}

// cancel ends a round that every waiter has left before it was granted, unless
// another has joined meanwhile.
func (t *roundIO) cancel() {
	if _, e, _ := t.round.word.Apply(state.Word.Cancel); e == state.Abandoned {
		//holdfast:reached withdrawal: of the last one, cancelled before the grant
		t.abandoned()
	}
}

// abandoned settles what is pending in a round that has no waiter left, and tells.
func (t *roundIO) abandoned() {
	err := t.round.error("acquire", ErrNotGranted)
	t.teller().failed(err)
	t.promises.abandoned(err)
}

// end notes why the round is over and wakes its I/O. The caller's CAS ended it.
func (t *roundIO) end(why *endReason) {
	t.endReason.Store(why)
	t.wake()
}

// fetch takes a pending round one request further: it creates the node, looks at
// the queue, watches a contender ahead, grants.
func (t *roundIO) fetch(s *zkio.Session) next {
	switch t.queuer().stage(s) {
	case nodeLater:
		return retry
	case nodeOrphaned: // queue again, at the end
		//holdfast:reached fetch: queues again in a new session
		t.node.Forget()
		t.queuer().nodeGone()
	case nodeLeaving:
		return t.queuer().leaveQueue(s)
	}
	n := goOn
	for _, tr := range t.traits() {
		if n = tr.before(t, s); n != goOn {
			break
		}
	}
	if n == goOn {
		n = t.queue(s)
	}
	if n == goOn || n == atFront {
		return t.grant(s)
	}
	return n
}

// queue takes a pending round further until its node is known to be first.
func (t *roundIO) queue(s *zkio.Session) next {
	if t.queuer().stage(s) == nodeQueued {
		return t.waiter().wait(s)
	}
	return t.queuer().createNode(s)
}

// leaseToBegin returns how much of a lease a grant needs. Soon after answers were
// late there is a short one, and what extends it counts only a quarter of the
// timeout later, or none for a twelfth (see package zkio): a lock granted earlier would
// be lost on a healthy connection. Otherwise there is more than that, unless LostMargin takes most of it
// away.
func (m *Manager) leaseToBegin(s *zkio.Session) time.Duration {
	timeout := s.Timeout()
	return min(timeout/4+timeout/48, (timeout/2-m.cfg.LostMargin)*3/4)
}

// unsettled reports whether s has no lease, and could not begin one by a write that is sent now.
func unsettled(s *zkio.Session) bool { return !s.Lease().InForce() && s.NextProof() > 0 }

// grant grants the round: its node, of session s, is known to be first.
func (t *roundIO) grant(s *zkio.Session) next {
	l := t.round.lock
	began := &tenure{token: uint64(t.node.Czxid()), path: t.node.Path(), session: s}
	for _, tr := range t.traits() {
		if n := tr.first(t, s, began); n != goOn {
			return n
		}
	}
	if unsettled(s) {
		return t.delays().awaitLease(s)
	}
	lease := s.Lease()
	if lease.Remaining() < l.m.leaseToBegin(s) {
		// We were first in line when we last looked, which may be long ago. A write
		// that the leader answers shows that the session is alive.
		//holdfast:reached grant: no lease, a proof first
		if err := s.Prove(t.node.Path()); errors.Is(err, zkio.ErrNoNode) {
			return requeue
		} else if err != nil {
			return t.failed(err)
		}
		if lease = s.Lease(); lease.Remaining() < l.m.leaseToBegin(s) {
			return t.delays().awaitLease(s)
		}
	}
	t.node.KeepAlive(true)
	t.waiter().unwatchAhead()
	began.since, began.lease = l.m.now(), lease
	t.tenure = began
	if o := l.observer.Load(); o != nil {
		o.forget() // before any caller learns of the grant
	}
	_, e, lost := t.round.word.Apply(state.Word.Grant)
	l.noteRaces(lost)
	switch e {
	case state.Granted:
		t.teller().granted()
		if _, revoked := t.revocation(); revoked {
			t.round.flags.Set(state.GateClosed)
		}
		t.settleGrant()
		t.node.DropCreateData() // if it goes, the round does
		t.position.Store(nil)   // after that: a caller that finds no position finds the grant
		for _, tr := range t.traits() {
			tr.granted(t)
		}
		// The loss handler marks the lease before it looks at the words; the granter
		// has changed the word before it looks at the lease. At least one sees the other.
		if !lease.InForce() {
			//holdfast:reached grant: the lease lapsed at that moment
			t.round.fail(t.round.lost("acquire", leaseOver))
			return again
		}
		// The same with Close, which sets the stage before it looks at the words.
		// Shutdown leaves holders alone.
		if l.m.stage.Load() == closingDown {
			//holdfast:reached grant: the manager was closed at that moment
			t.round.fail(t.round.error("acquire", ErrClosed))
			return again
		}
		if !t.watched {
			// The server has no watch for the node yet: one request has made it and
			// granted the lock, or the grant came soon after it was queued. The watch
			// will tell, even of a deletion that came before it.
			t.watched = true
			t.node.WatchLater(l.m.firstLook())
		}
		if t.round.wantsContention() {
			t.contentionAsked()
		} else {
			t.incumbent().firstLook(l.m.firstLook())
		}
		t.teller().logGranted()
	case state.Abandoned:
		//holdfast:reached withdrawal: of the last one, found by the grant
		// All waiters left. cancel cannot be relied on here: a late joiner would
		// defeat it.
		t.abandoned()
	}
	return again // granted: keep handles what came up meanwhile; else the round is over
}

// keep looks after the node of a lock that this process holds, and after the
// contenders that wait for it.
func (t *roundIO) keep(s *zkio.Session) next {
	switch t.queuer().stage(s) {
	case nodeLater:
		return retry
	case nodeOrphaned:
		return sleep // the dispatcher has reported the loss of the session, or will
	}
	events := t.events.Take(state.QueueDue | state.BehindDue)
	look := events.Has(state.BehindDue) || t.incumbent().idleUnwatched()
	if t.events.Take(state.OwnTouched) != 0 {
		data, stat, err := s.Get(t.node.Path())
		if err == nil {
			err = t.incumbent().revokedByCurator(s, data, stat)
		}
		if errors.Is(err, zkio.ErrNoNode) {
			//holdfast:reached hold: a look found its node deleted
			t.round.fail(t.round.lost("hold", nodeMissed))
			return again
		}
		if err != nil {
			t.events.Raise(state.OwnTouched) // for the next try
			if look {
				t.events.Raise(state.BehindDue)
			}
			return retry
		}
	}
	if look {
		if n := t.incumbent().lookBehind(s); n != goOn {
			t.events.Raise(state.BehindDue)
			return n
		}
	}
	for _, tr := range t.traits() {
		if n := tr.held(t, s); n != goOn {
			return n
		}
	}
	if n := t.incumbent().seeToGate(s, events.Has(state.QueueDue)); n != goOn {
		return n
	}
	t.attempts = 0
	return sleep
}

// failed decides what an error of a fetch means: the round fails, or tries again.
func (t *roundIO) failed(err error) next {
	switch class := zkio.ClassOf(err); {
	case errors.Is(err, zkio.ErrNoNode):
		// A directory that is deleted as soon as it is made: try again.
	case class == zkio.Definite:
		t.round.fail(t.round.error("acquire", err))
		return again
	case class == zkio.Closed:
		t.round.fail(t.round.error("acquire", ErrClosed))
		return again
	}
	return retry
}

// PathChanged is called by the dispatcher when something happened to the own
// node. It does not block.
func (t *roundIO) PathChanged(path string, ev zkio.Event) {
	r := t.round
	if ev.What == zkio.NodeDeleted && r.word.Load().Phase() == state.Retained && path == t.tenure.path {
		// The watch says that the lock's node is gone: no need to ask again.
		//holdfast:reached hold: a watch told that its node is deleted
		r.fail(t.round.lost("hold", nodeGone))
		return
	}
	if t.position.Load() != nil {
		// It has waited, and goes on waiting. When a session ends, some servers tell it
		// of the deletion of all its nodes.
		t.raiseLater(state.OwnTouched)
		return
	}
	t.raise(state.OwnTouched)
}
