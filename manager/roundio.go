// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A roundIO is what a round needs to go to ZooKeeper and back: the futures that
// its holders share, and the I/O.
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
	round  *round
	runner errand.Runner
	events state.AtomicEvents

	granted   futures.Promise[Grant]    // this process has the lock
	released  futures.Promise[struct{}] // the node is gone
	signalled atomic.Pointer[signals]   // nil: no holder listens, and the round was not ended by force

	endReason atomic.Pointer[endReason] // set after the CAS that ended the round, before the wake

	position atomic.Pointer[position] // in the queue, when last listed; nil while unknown

	// tenure is what a held round needs. The granter writes it before its CAS to
	// RETAINED. A goroutine that has seen the word RETAINED may read it, and so may
	// one that knows that the round was granted.
	tenure *tenure

	// Used by steps only.
	node       *zkio.Node   // nil before the fetch, and again after the deletion
	watching   *watching    // the plan of a waiter; nil: the queue is to be listed
	neighbours *neighbours  // nil: nothing is known; see near and meet
	seenAt     int64        // when the own node was last seen to be there, on the manager's clock
	attempts   errand.Tries // failed tries in a row
	requeues   errand.Tries // how many times in a row it had to queue again
	watched    bool         // the server has a watch for the own node, or had one and OwnTouched tells
	touched    bool         // the own node's watch has fired, and it has not been looked at since
	leaving    bool         // the node is to go, and may have gone: see requeue
	ending     bool         // the first step of the end has been made
	warned     bool         // about a contender that is not ephemeral
	waited     bool         // it has had a position in a queue
	long       bool         // it has waited so long that the rotation has come by
	dirWatched bool         // the watch of the directory is registered

	index int32 // 1 + the index in Manager.active, or 0; protected by Manager.mu
}

// endReason is why a round is over.
type endReason struct {
	err  error // nil: its last holder left
	late bool  // it did when the lease was over
	idle bool  // it had left before, when the lock was held: see linger.go

	// The node must not be deleted before this moment on the manager's clock.
	notBefore int64
}

var (
	releasedHeld = &endReason{}
	releasedLate = &endReason{late: true}
	releasedIdle = &endReason{idle: true}
)

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

// wakeBy wakes the round's I/O by way of queue q, if the round's turn has come. The I/O of
// a round that belongs to a group is the group's.
func (t *roundIO) wakeBy(q zkio.Queue) {
	if p := t.place(); p != nil {
		p.group.errand.WakeBy(q)
	} else if t.round.due() {
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
		t.round.failPending(t.error("acquire", ErrClosed))
		// Close may have ended it in the meantime, and the next round's turn may
		// have come, found the entry queued, and relied on us.
		if r := l.cur.Load(); r != t.round {
			r.failPending(r.io().error("acquire", ErrClosed))
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
	if t := l.cur.Load().made.Load(); t != nil {
		t.Run(s)
	}
}

// A delayedWake wakes a round's I/O when its time has come. Its timer bit keeps a
// second one from being started meanwhile.
type delayedWake struct {
	io    *roundIO
	timer state.Events
	event state.Events // what it raises; may be none
	later bool         // what it wakes can wait: see wakeLater
}

// Void is called before the task is queued: a round is often over by then, or in
// another phase, and then needs no worker.
func (w *delayedWake) Void() bool {
	phase := w.io.round.word.Load().Phase()
	switch w.timer {
	case state.OwnTimer, state.DelayTimer:
		return phase != state.Fetching
	case state.BehindTimer, state.WriterTimer, state.UpgradeTimer:
		return phase != state.Retained
	}
	return phase == state.Released
}

// Run is called by the pool. The wake may find a step running: there will be another.
func (w *delayedWake) Run(*zkio.Session) {
	if w.timer != state.BehindTimer { // lookBehind lowers that one, when it lists
		w.io.events.Take(w.timer)
	}
	switch {
	case w.Void():
	case w.later:
		w.io.raiseLater(w.event)
	default:
		w.io.raise(w.event)
	}
}

// wakeAfter wakes the round's I/O after d, with the event, unless a wake of this
// timer is on its way. It reports false if the pool is closed, so that no wake will
// come.
func (t *roundIO) wakeAfter(d time.Duration, timer, event state.Events) bool {
	return t.delay(d, &delayedWake{io: t, timer: timer, event: event})
}

// delay is wakeAfter for w. The wake itself does no I/O, so it is a fetch even if
// what it wakes can wait.
func (t *roundIO) delay(d time.Duration, w *delayedWake) bool {
	if !t.events.Raise(w.timer) {
		return true
	}
	q := zkio.Fetches
	if w.timer == state.EndTimer {
		q = zkio.Releases
	}
	return t.round.lock.m.client.SubmitAfterFor(t, d, q, w)
}

// dropDelays forgets the wakes of a round that is RELEASED, and the timer of its idle time:
// they may be due in hours, and would keep the round until then. A goroutine that has found
// the round as it was before puts off nothing any more: see [delayedWake.Void].
func (t *roundIO) dropDelays() {
	c := t.round.lock.m.client
	c.Drop(t)
	if t.tenure != nil {
		t.tenure.dropTimer(c)
	}
}

// lookAtNodeLater has a waiter look at its own node when what is known about that gets old.
func (t *roundIO) lookAtNodeLater() {
	d := t.round.lock.m.firstLook() - time.Duration(t.round.lock.m.now()-t.seenAt)
	t.delay(max(0, d), &delayedWake{io: t, timer: state.OwnTimer, event: state.OwnDue, later: true})
}

// retryLater wakes the round's I/O after a while. It reports false if the pool is
// closed.
func (t *roundIO) retryLater() bool {
	timer := state.FetchTimer
	if t.Urgent() {
		timer = state.EndTimer
	}
	d := t.attempts.Wait()
	return t.delay(d, &delayedWake{io: t, timer: timer, later: t.waited || t.attempts > promptTries})
}

// promptTries is how often a round that has not waited in a queue yet is tried again
// among the fetches that callers have just begun. A session that ends, or a connection
// that breaks, at the very moment at which a caller asks costs it one or two.
const promptTries = 3

// later is retryLater for a fetch or a held round.
func (t *roundIO) later() (more bool) {
	if t.retryLater() {
		return false
	}
	t.round.fail(t.error("acquire", ErrClosed))
	return true
}

// Step does what the word says is to be done, until it has to wait.
func (t *roundIO) Step(s *zkio.Session) {
	r := t.round
	t.adopt(s)
	for more := true; more; {
		switch w := r.word.Load(); w.Phase() {
		case state.Fetching:
			switch {
			case r.lock.m.closing():
				r.failPending(t.error("acquire", ErrClosed))
			case w.Holders() == 0:
				//holdfast:reached-if t.node != nil && t.node.Czxid() != 0: withdrawal: of the last one, queued
				t.cancel()
			default:
				more = t.fetch(s)
			}
		case state.Retained:
			more = t.keep(s)
		case state.Releasing:
			t.release(s)
			return
		default: // FREE, RELEASED: a late wake
			return
		}
	}
}

// cancel ends a round that every waiter has left before it was granted, unless
// another has joined meanwhile.
func (t *roundIO) cancel() {
	if _, e, _ := t.round.word.Apply(state.Word.Cancel); e == state.Abandoned {
		//holdfast:reached withdrawal: of the last one, cancelled before the grant
		t.abandoned()
	}
}

// abandoned settles what is pending in a round that no one waits for.
func (t *roundIO) abandoned() {
	err := t.error("acquire", ErrNotGranted)
	if t.turn() == nil {
		t.tellFailed(err)
	}
	t.settleWait(Grant{}, err)
	t.endReason.Store(&endReason{err: err})
}

// end notes why the round is over and wakes its I/O. The caller's CAS ended it.
func (t *roundIO) end(why *endReason) {
	t.endReason.Store(why)
	t.wake()
}

// settleGrant settles the grant of a round that was seen RETAINED, or was until
// it ended. The granter does it too, and every goroutine that comes between its
// CAS and its settling; the first one counts, and they all settle it alike. A
// forced end may come before them, and settles it with its error.
func (t *roundIO) settleGrant() {
	if !t.granted.Settled() {
		t.settleWait(t.tenure.grant(), nil)
	}
}

// settleWait settles the grant, and the futures of Ready with it.
func (t *roundIO) settleWait(g Grant, err error) {
	if t.granted.Settle(g, err) {
		t.notifyReady()
		t.tellMutex()
	}
}

// fetch takes a pending round one request further: it creates the node, looks at
// the queue, watches a contender ahead, grants. It reports whether step should
// look at the word and go on; false means that something will wake the round.
func (t *roundIO) fetch(s *zkio.Session) (more bool) {
	l := t.round.lock
	if t.node != nil && t.node.Session() != nil && t.node.Session() != s {
		if t.node.Session().Err() == nil {
			return t.later() // s is over: this worker comes late
		}
		// The session that created the node is over, and the node goes with it.
		// Queue again, at the end.
		//holdfast:reached fetch: queues again in a new session
		t.node.Forget()
		t.nodeGone()
	}
	if t.leaving {
		return t.requeue(s) // the last try had no answer
	}
	if l.rw != nil {
		// Also for a node that the round before has made: RWLock.granted looks only
		// at the present round, which this one was not yet.
		l.rw.fetching(l)
		if t.node == nil && l.rw.idleLeaves(l) {
			//holdfast:reached linger: waits until an idle lock of its own pair is gone
			return false
		}
	}
	if l.kind == queue.Read {
		before := t.near().downgrade
		if w, ok := l.rw.held(); ok && (before == nil || w.Path != before.gone) {
			return t.enterBeside(s, w)
		}
	}
	if t.node == nil || t.node.Czxid() == 0 {
		return t.createNode(s) // not yet, or not known to have succeeded
	}
	return t.wait(s)
}

// leaseToBegin returns how much of a lease a grant needs. Soon after an outage a
// lease is short, and what extends it counts only a quarter of the timeout later
// (see package zkio): a lock granted earlier would be lost on a healthy
// connection. Without an outage there is more than that, unless LostMargin takes
// most of it away.
func (m *Manager) leaseToBegin(s *zkio.Session) time.Duration {
	timeout := s.Timeout()
	return min(timeout/4+timeout/48, (timeout/2-m.cfg.LostMargin)*3/4)
}

// grant grants the round: its node, of session s, is known to be first.
func (t *roundIO) grant(s *zkio.Session) (more bool) {
	if p := t.place(); p != nil {
		return p.reserve()
	}
	l := t.round.lock
	mark := l.mark()
	if mark != nil {
		if ok, more := t.leaveMark(s, mark); !ok {
			return more
		}
	}
	lease := s.Lease()
	if lease.Remaining() < l.m.leaseToBegin(s) {
		// We were first in line when we last looked, which may be long ago. A write
		// that the leader answers shows that the session is alive.
		//holdfast:reached grant: no lease, a proof first
		if err := s.Prove(t.node.Path()); errors.Is(err, zkio.ErrNoNode) {
			return t.requeue(s)
		} else if err != nil {
			return t.failed(err)
		}
		if lease = s.Lease(); lease.Remaining() < l.m.leaseToBegin(s) {
			return t.later()
		}
	}
	t.node.KeepAlive(true)
	t.unwatchAhead()
	token := uint64(t.node.Czxid())
	if beside := t.node.Beside(); beside != "" && beside == t.near().downgrade.writer.Path {
		// Other contenders may have queued between our writer's node and this one.
		token = t.near().downgrade.writer.Token
	}
	t.tenure = &tenure{
		token:     token,
		path:      t.node.Path(),
		since:     l.m.now(),
		lease:     lease,
		session:   s,
		abandoned: mark != nil && mark.taken,
	}

	if o := l.observer.Load(); o != nil {
		o.forget(t.tenure) // before any caller learns of the grant
	}
	if l.lingersFor() > 0 {
		t.round.flags.Set(state.Lingers) // before any caller enters
	}
	_, e, lost := t.round.word.Apply(state.Word.Grant)
	l.noteRaces(lost)
	switch e {
	case state.Granted:
		t.tellGranted()
		if mark != nil {
			mark.told = true
		}
		if _, revoked := t.revocation(); revoked {
			t.round.flags.Set(state.GateClosed)
		}
		t.settleGrant()
		t.node.DropCreateData() // if it goes, the round does
		t.position.Store(nil)   // after that: a caller that finds no position finds the grant
		// The loss handler marks the lease before it looks at the words; the granter
		// has changed the word before it looks at the lease. At least one sees the other.
		if !lease.InForce() {
			//holdfast:reached grant: the lease lapsed at that moment
			t.round.fail(t.lost("acquire", leaseOver))
			return true
		}
		// The same with Close, which sets the stage before it looks at the words.
		// Shutdown leaves holders alone.
		if l.m.stage.Load() == closingDown {
			//holdfast:reached grant: the manager was closed at that moment
			t.round.fail(t.error("acquire", ErrClosed))
			return true
		}
		if l.rw != nil {
			l.rw.granted(l)
		}
		if !t.watched {
			// The server has no watch for the node yet: one request has made it and
			// granted the lock, or the grant came soon after it was queued. The watch
			// will tell, even of a deletion that came before it.
			t.watched = true
			t.node.WatchLater(l.m.firstLook())
		}
		if t.wantsContention() {
			t.lookForContention()
		} else {
			t.firstLook(l.m.firstLook())
		}
		t.logGranted()
	case state.Abandoned:
		//holdfast:reached withdrawal: of the last one, found by the grant
		// All waiters left. cancel cannot be relied on here: a late joiner would
		// defeat it.
		t.abandoned()
	}
	return true // granted: keep handles what came up meanwhile; else the round is over
}

// keep looks after the node of a lock that this process holds, and after the
// contenders that wait for it.
func (t *roundIO) keep(s *zkio.Session) (more bool) {
	if t.node.Session() != s {
		if t.node.Session().Err() == nil {
			return t.later() // s is over: this worker comes late
		}
		return false // the dispatcher has reported the loss of the session, or will
	}
	events := t.events.Take(state.OwnTouched | state.QueueDue | state.BehindDue | state.WriterDue)
	if events.Has(state.WriterDue) {
		t.round.lock.rw.writerDue(t.round)
	}
	look := events.Has(state.BehindDue) || t.idleUnwatched()
	t.touched = t.touched || events.Has(state.OwnTouched)
	if t.touched {
		data, stat, err := s.Get(t.node.Path())
		if err == nil {
			err = t.revokedByCurator(s, data, stat)
		}
		if errors.Is(err, zkio.ErrNoNode) {
			//holdfast:reached hold: a look found its node deleted
			t.round.fail(t.lost("hold", nodeMissed))
			return true
		}
		if err != nil {
			if look { // for the next try
				t.events.Raise(state.BehindDue)
			}
			return t.later()
		}
		t.touched = false
	}
	if look && !t.lookBehind(s) {
		t.events.Raise(state.BehindDue)
		return t.later()
	}
	if u := t.raised(); u != nil && !u.step(s) {
		return t.later()
	}
	if !t.seeToGate(s, events.Has(state.QueueDue)) {
		return t.later()
	}
	t.answerWatch()
	t.attempts = 0
	return false
}

// failed decides what an error of a fetch means: the round fails, or tries again.
func (t *roundIO) failed(err error) (more bool) {
	switch class := zkio.ClassOf(err); {
	case errors.Is(err, zkio.ErrNoNode):
		// A directory that is deleted as soon as it is made: try again.
	case class == zkio.Definite:
		t.round.fail(t.error("acquire", err))
		return true
	case class == zkio.Closed:
		t.round.fail(t.error("acquire", ErrClosed))
		return true
	}
	return t.later()
}

// error wraps err with what is known about the lock.
func (t *roundIO) error(op string, err error) *Error {
	e := &Error{Op: op, Name: t.round.lock.Name(), Err: err, Outage: t.round.lock.m.outage()}
	if p := t.position.Load(); p != nil {
		e.Position, e.Ahead, e.Holder = int(p.ahead), p.contender(), p.holder()
	}
	return e
}

// PathChanged is called by the dispatcher when something happened to the own
// node. It does not block.
func (t *roundIO) PathChanged(path string, ev zkio.Event) {
	r := t.round
	if ev == zkio.NodeDeleted && r.word.Load().Phase() == state.Retained && path == t.tenure.path {
		// The watch says that the lock's node is gone: no need to ask again.
		//holdfast:reached hold: a watch told that its node is deleted
		r.fail(t.lost("hold", nodeGone))
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
