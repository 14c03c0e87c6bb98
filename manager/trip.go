// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A trip is what a round needs to go to ZooKeeper and back: the futures that
// its holders share, and the I/O.
//
// All I/O of a round is done by step, which a worker of the pool runs. At most
// one worker runs it at a time (see wake), so a fetch and a deletion of one
// round can never be under way at once, and the fields that only step uses need
// no lock. Everybody else (a last holder, a watch, the loss of the session)
// changes the word, leaves a note in an atomic field, and wakes the trip; each
// step begins by looking at the word.
type trip struct {
	round *round

	granted  futures.Promise[Grant]    // the lock is this process's
	released futures.Promise[struct{}] // the node is gone
	lost     atomic.Pointer[losing]    // the round was ended by force; nil: nobody has asked. See lostPromise

	run         atomic.Uint32            // idle, queued…, running, again; see wake
	retrying    atomic.Bool              // a delayed wake for a fetch is on its way
	retryingEnd atomic.Bool              // the same for what cannot wait behind a fetch
	ownTouched  atomic.Bool              // something happened to our own node: look at it
	ending      atomic.Pointer[ending]   // why the round ended; set after the CAS that ended it, before the wake
	place       atomic.Pointer[place]    // the place when last looked; nil while it is not known
	placing     atomic.Pointer[placing]  // settles when the place is known; see placed
	losses      atomic.Pointer[lossList] // who is to be told of a loss; see onLoss

	// Written by the granter before its CAS to RETAINED and never again; so
	// whoever has seen the word RETAINED or later may read them, once it knows
	// that the round was granted.
	grant     Grant
	grantedAt int64 // on the manager's clock
	lease     *zkio.Lease
	session   *zkio.Session

	// Of step alone; handed from one worker to the next by the CASes on run. Until
	// the round's turn has come they are of the round before it (see leave), and
	// are handed on by the flag that says that it has.
	node     *zkio.Node // nil before the fetch, and again after the deletion
	besides  *besides   // of a read round that was to have a place beside our own write node; else nil
	leaving  bool       // node is to go, and may have gone: see requeue
	closing  bool       // the first step of the end has been made
	warned   bool       // about a contender that is not ephemeral
	slot     int32      // 1 + its index in Manager.active, or 0; protected by Manager.mu
	attempts int32      // failed tries in a row
	requeues int32      // nodes that were gone in a row
	line                // of a round that waits
	tenure              // of a round that is held

}

// besides is what a read round knows about places beside this process's own
// write nodes.
type besides struct {
	writer Grant  // the one beside which a place was asked for
	gone   string // the write node beside which there was none any more
}

// ending is why a round is over.
type ending struct {
	err  error // nil: its last holder left
	late bool  // it did when the lease was over

	// The node is not to be deleted before this moment on the manager's clock.
	notBefore int64
}

var (
	releasedHeld = &ending{}
	releasedLate = &ending{late: true}
)

func newTrip(r *round) *trip { return &trip{round: r} }

// The values of trip.run.
const (
	idle        uint32 = iota // no worker has it, none will
	queuedFetch               // waits in the queue of fetches
	queuedEnd                 // waits in the queue of releases (and perhaps, stale, in the other one)
	running                   // a worker runs step
	again                     // the same, and it has to look once more before it leaves
)

// wake makes a worker run step soon; if one is running it now, it will look
// again. Wakes that come together count as one. It never blocks and does no I/O.
//
// As long as the round's turn has not come it does nothing: until then the trip
// is in the hands of the round before it, which may be queuing for it (see
// leave). Whoever has something to tell leaves his note first and looks at the
// flags here; the round's turn comes with a flag, and then a wake: that step
// finds the note.
func (t *trip) wake() {
	if !t.round.due() {
		return
	}
	urgent := t.round.urgent()
	for {
		switch run := t.run.Load(); run {
		case idle:
			to := queuedFetch
			if urgent {
				to = queuedEnd
			}
			if t.run.CompareAndSwap(idle, to) {
				t.submit(urgent)
				return
			}
		case queuedFetch:
			if !urgent {
				return
			}
			// Ends go first. Its entry in the queue of fetches becomes stale:
			// Run finds somebody else's state there and does nothing, or does
			// the work early.
			if t.run.CompareAndSwap(queuedFetch, queuedEnd) {
				t.submit(true)
				return
			}
		case running:
			if t.run.CompareAndSwap(running, again) {
				return
			}
		default: // queuedEnd, again: it will look
			return
		}
	}
}

// submit hands the trip to the pool. A pool that is closed takes nothing: then
// the round ends here and now, on the caller's goroutine. That does no I/O,
// since the session is over and its calls fail at once.
//
// A lock has one entry in the queue of fetches, for whichever round is present
// when its turn comes. Otherwise rounds that are begun and given up one after
// the other would pile up there as long as no fetch gets through.
func (t *trip) submit(urgent bool) {
	l := t.round.lock
	c := l.m.client
	if !urgent {
		// If there is an entry already, its Run looks for the present round
		// after it has cleared the flag, and so finds us queued.
		if !l.fetchQueued.CompareAndSwap(false, true) || c.Submit(zkio.Fetches, (*fetches)(l)) {
			return
		}
		l.fetchQueued.Store(false)
		// A round that is not pending stays as it is: Close ends it, and that
		// wake is urgent.
		t.round.failPending(t.error("acquire", ErrClosed)) // its wake finds queuedFetch and comes back here, urgent
		// Close may have ended it meanwhile, and the next one have come to its
		// turn, found the flag set, and relied on us.
		if r := l.cur.Load(); r != t.round {
			r.failPending(r.trip().error("acquire", ErrClosed))
		}
		return
	}
	if !c.Submit(zkio.Releases, t) {
		t.Run(c.Session())
	}
}

// fetches is a lock as a task in the queue of fetches.
type fetches Lock

// Run is called by the pool.
func (f *fetches) Run(s *zkio.Session) {
	l := (*Lock)(f)
	l.fetchQueued.Store(false)
	if t := l.cur.Load().made.Load(); t != nil {
		t.Run(s)
	}
}

// Run is called by the pool.
func (t *trip) Run(s *zkio.Session) {
	for {
		run := t.run.Load()
		if run != queuedFetch && run != queuedEnd {
			return // a stale entry: another worker did it
		}
		if run == queuedEnd && !t.round.urgent() {
			// Somebody has joined a round that everybody had left. Fetches must
			// not take the workers that are kept for releases.
			if t.run.CompareAndSwap(run, queuedFetch) {
				t.submit(false)
				return
			}
			continue
		}
		if t.run.CompareAndSwap(run, running) {
			break
		}
	}
	for {
		t.step(s)
		if t.run.CompareAndSwap(running, idle) {
			return
		}
		t.run.Store(running) // from again; only we leave again
	}
}

// retry and retryEnd run the trip again when its time has come.
type (
	retry    trip
	retryEnd trip
)

// Run is called by the pool. The wake may find the trip running: it looks again.
func (r *retry) Run(*zkio.Session) {
	t := (*trip)(r)
	t.retrying.Store(false)
	t.wake()
}

// Run is called by the pool.
func (r *retryEnd) Run(*zkio.Session) {
	t := (*trip)(r)
	t.retryingEnd.Store(false)
	t.wake()
}

const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// retryLater wakes the trip after a while that grows with every try, jittered
// so that many locks that failed together do not come back together. It reports
// false if the client is closed and there will be no later.
func (t *trip) retryLater() bool {
	flag, q, task := &t.retrying, zkio.Fetches, zkio.Task((*retry)(t))
	if t.round.urgent() {
		flag, q, task = &t.retryingEnd, zkio.Releases, (*retryEnd)(t)
	}
	if !flag.CompareAndSwap(false, true) {
		return true
	}
	d := min(firstRetry<<min(t.attempts, 10), lastRetry)
	t.attempts++
	d = d/2 + rand.N(d)
	return t.round.lock.m.client.SubmitAfter(d, q, task)
}

// step does what the word says is to be done, until that is waiting. It may
// block in ZooKeeper calls.
func (t *trip) step(s *zkio.Session) {
	r := t.round
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

// cancel ends a round that everybody has left before it was granted, if nobody
// has joined meanwhile.
func (t *trip) cancel() {
	if _, e, _ := t.round.word.Apply(state.Word.Cancel); e == state.Abandoned {
		//holdfast:reached withdrawal: of the last one, cancelled before the grant
		t.abandoned()
	}
}

// abandoned settles what is pending in a round that nobody waits for.
func (t *trip) abandoned() {
	err := t.error("acquire", ErrNotGranted)
	t.granted.Settle(Grant{}, err)
	t.ending.Store(&ending{err: err})
}

// end notes why the round is over and wakes the trip. The caller's CAS ended it.
func (t *trip) end(e *ending) {
	t.ending.Store(e)
	t.wake()
}

// settleGrant settles the grant of a round that was seen RETAINED or was so
// until it ended. The granter does it too, and everybody who comes between its
// CAS and its settling; the first one counts, and they all say the same.
func (t *trip) settleGrant() {
	if !t.granted.Settled() {
		t.granted.Settle(t.grant, nil)
	}
}

// fetch takes the round one request further: creates the node, lists the queue,
// watches who is ahead, grants. It reports whether step should look at the word
// and go on; false means that something will wake the trip.
func (t *trip) fetch(s *zkio.Session) (more bool) {
	l := t.round.lock
	if t.node != nil && t.node.Session() != nil && t.node.Session() != s {
		if t.node.Session().Err() == nil {
			return t.later() // it is s that is over: this worker comes late
		}
		// The session that created it is over, and its node with it. Queue
		// again, at the end.
		//holdfast:reached fetch: queues again in a new session
		t.node.Forget()
		t.nodeGone()
	}
	if t.leaving {
		return t.requeue(s) // the last try had no answer
	}
	if t.node == nil {
		t.begin()
	}
	if l.rw != nil {
		// Also if the round before has begun for us: RWLock.granted looks at
		// the present round, which we were not yet.
		l.rw.fetching(l)
	}
	if l.kind == KindRead {
		if w, ok := l.rw.held(); ok && (t.besides == nil || w.Path != t.besides.gone) {
			return t.downgrade(s, w)
		}
	}
	if t.node.Czxid() == 0 {
		return t.queue(s) // not yet, or not known to have succeeded
	}
	return t.inLine(s)
}

// directory is what a lock knows about its directory. It is written by the
// steps of the lock's rounds, of which no two run at the same time but for a
// moment at a hand-over; a stale value costs a request.
type directory struct{ atomic.Uint32 }

const (
	dirUnknown uint32 = iota // not looked at yet, or perhaps not there
	dirEmpty                 // it has no data: one request can create a node and tell whether it is first
	dirPlain                 // it has somebody's data, or we may not write it: create, then list
)

// queue creates the node, and the directory for it if there is none.
func (t *trip) queue(s *zkio.Session) (more bool) {
	l := t.round.lock
	switch l.directory.Load() {
	case dirUnknown:
		data, _, err := s.Get(l.path)
		if err == nil {
			l.m.checkDirectory(s, l.path)
		}
		switch {
		case errors.Is(err, zkio.ErrNoNode):
			if err := s.EnsureDir(l.path, l.m.cfg.ACL); err != nil {
				return t.failed(err)
			}
			if t.attempts++; t.attempts > 3 {
				return t.later() // an empty container can go as soon as it is made
			}
		case err == nil && len(data) == 0:
			l.directory.Store(dirEmpty)
		case err == nil, errors.Is(err, zkio.ErrNoAuth):
			l.directory.Store(dirPlain)
		default:
			return t.failed(err)
		}
		return true
	case dirEmpty:
		children, err := t.node.CreateAndCount(s)
		switch {
		case errors.Is(err, zkio.ErrNoNode):
			l.directory.Store(dirUnknown)
			return true
		case errors.Is(err, zkio.ErrNoAuth):
			l.directory.Store(dirPlain)
			return true
		case err != nil:
			return t.failed(err)
		}
		t.attempts = 0
		t.ownWatched, t.seenAt = children == 0, l.m.now()
		if children == 1 {
			return t.enter(s)
		}
		return true
	}
	err := t.node.Create(s)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		l.directory.Store(dirUnknown)
		return true
	case err != nil:
		return t.failed(err)
	}
	t.attempts = 0
	t.ownWatched = true
	return true
}

// downgrade makes a read node at the place of this process's own write node w:
// nobody who queued behind the writer can come in between, and the readers may
// enter, since the writer's process owns the lock. The release of the write lock
// may be under way; whether its node is still there is for the transaction to say.
func (t *trip) downgrade(s *zkio.Session, w Grant) (more bool) {
	if t.node.Czxid() != 0 && t.node.Beside() == "" {
		//holdfast:reached downgrade: was queued behind its own writer
		return t.requeue(s) // queued already, behind our own writer and perhaps others
	}
	if c, _ := parseContender(w.Path[strings.LastIndexByte(w.Path, '/')+1:]); exhausted(c.seq) {
		//holdfast:reached numbers run out: a downgrade is refused
		t.round.fail(t.error("acquire", fmt.Errorf("%w: no read lock can be had beside the write lock %s", ErrSequenceExhausted, w.Path)))
		return true
	}
	if t.besides == nil {
		t.besides = new(besides)
	}
	t.besides.writer = w
	err := t.node.CreateAtSequence(s, w.Path)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		//holdfast:reached downgrade: the write is gone, queues
		t.besides.gone = w.Path // queue like everybody else
		return true
	case err != nil:
		return t.failed(err)
	case t.node.Beside() != w.Path:
		return t.requeue(s) // the same: it was queued by a request whose answer was lost
	}
	t.ownWatched = true
	//holdfast:reached downgrade: at the writer's place
	return t.enter(s)
}

// requeue queues again after our node has gone while we waited, or leaves the
// place in the queue for a better one.
//
// It may take several tries to learn that the node is gone, during which nothing
// else may be made of it: a deletion whose answer was lost may be on its way.
func (t *trip) requeue(s *zkio.Session) (more bool) {
	t.leaving = true
	if err := t.node.Delete(s); err != nil { // makes sure that it is gone
		return t.failed(err)
	}
	t.nodeGone()
	if t.requeues++; t.requeues > 3 {
		return t.later() // somebody deletes it as soon as it is made
	}
	return true
}

// nodeGone notes that there is no node any more, and no place.
func (t *trip) nodeGone() {
	t.unwatchAhead()
	t.unplace()
	t.node = nil
	t.leaving, t.ownWatched, t.first, t.last, t.from = false, false, false, nil, nil
	t.ownTouched.Store(false)
}

// leaseToBegin is how much of a lease there has to be for a hold to begin with. Soon
// after an outage a lease is short, and what makes it longer counts only a quarter
// of the timeout later (see package zkio): a lock that was granted before would be
// lost on a healthy connection. Without an outage there is more than that, unless
// the LostMargin takes most of it away.
func (m *Manager) leaseToBegin(s *zkio.Session) time.Duration {
	timeout := s.Timeout()
	return min(timeout/4+timeout/48, (timeout/2-m.cfg.LostMargin)*3/4)
}

// enter grants the round: our node, of session s, is known to be first.
func (t *trip) enter(s *zkio.Session) (more bool) {
	l := t.round.lock
	lease := s.Lease()
	if lease.Remaining() < l.m.leaseToBegin(s) {
		// First in line, as far as we can see; but what we saw may be old. A
		// write that the leader answers shows that the session is alive.
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
	if beside := t.node.Beside(); beside != "" && beside == t.besides.writer.Path {
		// Others may have queued between our writer's node and this one.
		token = t.besides.writer.Token
	}
	t.lease, t.session, t.grantedAt = lease, s, l.m.now()
	t.grant = Grant{Token: token, Path: t.node.Path(), Session: s.ID()}

	_, e, lost := t.round.word.Apply(state.Word.Grant)
	l.noteRaces(lost)
	switch e {
	case state.Granted:
		l.grants.Add(1)
		t.settleGrant()
		t.node.DropCreateData()      // if it goes, the round does
		t.place.Store(nil) // after that: whoever finds no place finds the grant
		// The loss handler marks the lease first and looks at the words then;
		// we changed the word first and look at the lease now. One of us sees
		// the other.
		if !lease.InForce() {
			//holdfast:reached grant: the lease lapsed at that moment
			t.round.fail(t.error("acquire", t.lossCause()))
			return true
		}
		// The same with Close, which sets the stage first and looks at the words
		// then. Shutdown leaves those who hold the lock alone.
		if l.m.stage.Load() == closingDown {
			//holdfast:reached grant: the manager was closed at that moment
			t.round.fail(t.error("acquire", ErrClosed))
			return true
		}
		if l.rw != nil {
			l.rw.granted(l)
		}
		t.lookAgainIn(l.m.firstLook())
	case state.Abandoned:
		//holdfast:reached withdrawal: of the last one, found by the grant
		// Everybody left. We do not leave it to the cancel, which somebody who
		// joins late would defeat.
		t.abandoned()
	}
	return true // Granted: keep looks whether anything came up; else the round is over
}

// keep looks after the node of a lock that this process holds, and after those
// who wait for it.
func (t *trip) keep(s *zkio.Session) (more bool) {
	if t.node.Session() != s {
		if t.node.Session().Err() == nil {
			return t.later() // it is s that is over: this worker comes late
		}
		return false // the loss of the session has been or will be told
	}
	look := t.lookDue.Swap(false)
	if look && !t.ownWatched || t.ownTouched.Swap(false) {
		_, _, err := s.Get(t.node.Path())
		if errors.Is(err, zkio.ErrNoNode) {
			//holdfast:reached hold: a look found its node deleted
			t.round.fail(t.error("hold", errNodeDeleted))
			return true
		}
		if err != nil {
			t.ownTouched.Store(true)
			if look { // not to forget one that has come due meanwhile
				t.lookDue.Store(true)
			}
			return t.later()
		}
		t.ownWatched = true
	}
	if look && !t.lookBehind(s) {
		t.lookDue.Store(true)
		return t.later()
	}
	t.attempts = 0
	return false
}

// release takes the round's node away, and finishes the round when it is surely
// gone: until then the round stays RELEASING, and the next one waits.
func (t *trip) release(s *zkio.Session) {
	why := t.ending.Load()
	if why == nil {
		return // whoever ended the round will note why, and wake us
	}
	m := t.round.lock.m
	first := !t.closing
	if first {
		t.closing = true
		t.attempts = 0
	}
	if rest := why.notBefore - m.now(); rest > 0 && !m.closing() {
		//holdfast:reached release: the node waits for the lost margin
		// If a wake is on its way already, we look again then.
		if !t.retryingEnd.CompareAndSwap(false, true) || m.client.SubmitAfter(time.Duration(rest), zkio.Releases, (*retryEnd)(t)) {
			return
		}
	}
	t.unwatchAhead()
	t.unwatchBehind()
	err := why.err
	if t.node != nil {
		how, derr := t.leave(s, first && why.err == nil)
		switch {
		case derr == nil:
			// Held to the end if it was our deletion that took the node away: it
			// was ours and there until then. Not, if it was not there any more.
			// Where that is not known, the lease said whether it was ours when
			// the last holder left.
			lost := how == zkio.RemovedBefore || how == zkio.RemovedUnknown && why.late
			if err == nil && lost {
				//holdfast:reached release: the lock turns out to have been lost
				err = t.error("release", ErrLost)
			}
		case zkio.ClassOf(derr) == zkio.Closed || m.closed.Load():
			if err == nil {
				err = t.error("release", fmt.Errorf("%w: %w", ErrClosed, derr))
			}
		default:
			if zkio.ClassOf(derr) == zkio.Definite {
				// It will not get better by itself before the session ends. Say
				// so now, and keep trying: rights can be given back.
				t.released.Settle(struct{}{}, t.error("release", errors.Join(why.err, derr)))
			}
			if t.retryLater() {
				return
			}
			if err == nil {
				err = t.error("release", derr)
			}
		}
		t.node.Forget()
		t.node = nil
	}
	m.deactivate(t)
	t.round.finish()
	t.released.Settle(struct{}{}, err)
}

// leave takes the round's node away. If the next round is to queue, and may do
// that in the same request, it does.
//
// The next round's trip is ours until this round is RELEASED: before that, a wake
// of it does nothing. Should all who wait in it give up meanwhile, or should it
// be ended by force, it finds its node when its turn comes.
func (t *trip) leave(s *zkio.Session, together bool) (zkio.Removal, error) {
	var next *trip
	if together {
		next = t.successor(s)
	}
	if next == nil {
		return t.node.Remove(s)
	}
	l := t.round.lock
	next.begin()
	children, err := next.node.Replace(s, t.node)
	switch class := zkio.ClassOf(err); {
	case err == nil:
		//holdfast:reached hand-over: left and queued again in one request
		next.seenAt, next.first, next.from = l.m.now(), children == 1, t.last
		return zkio.RemovedByUs, nil
	case class == zkio.NotSent || class == zkio.Definite:
		//holdfast:reached hand-over: refused, one after the other
		next.node = nil // nothing was done
		l.m.deactivate(next)
	default:
		// Remove finds out what became of our node, and the next round what
		// became of its own.
		//holdfast:reached hand-over: left and queued again, perhaps: the answer is lost
	}
	return t.node.Remove(s)
}

// successor returns the trip of the next round if somebody waits in it and it can
// queue by one request, in session s; else nil.
func (t *trip) successor(s *zkio.Session) *trip {
	l, n := t.round.lock, t.round.next.Load()
	if n == nil || !n.waits() || l.directory.Load() != dirEmpty || s != t.node.Session() || l.m.closing() {
		return nil
	}
	if l.kind == KindRead {
		if _, writing := l.rw.held(); writing {
			return nil // it enters beside the writer: see downgrade
		}
	}
	return n.trip()
}

// begin describes the node that the round is going to have.
func (t *trip) begin() {
	l := t.round.lock
	l.m.activate(t) // before the node can exist: whoever ends sessions must find us
	t.node = zkio.NewNode(l.path, l.kind.mark(), l.m.newGUID, l.m.nodeData(l.kind.String()), l.m.cfg.ACL, t)
}

// failed decides what an error of a fetch means: the round fails, or is tried again.
func (t *trip) failed(err error) (more bool) {
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

// later is retryLater for a fetch.
func (t *trip) later() (more bool) {
	if t.retryLater() {
		return false
	}
	t.round.fail(t.error("acquire", ErrClosed))
	return true
}

// error wraps err with what is known about the lock.
func (t *trip) error(op string, err error) *Error {
	e := &Error{Op: op, Name: t.round.lock.Name(), Err: err}
	if p := t.place.Load(); p != nil {
		e.Position, e.Ahead = p.position, p.ahead
	}
	return e
}

// lossCause says how the lease came to its end.
func (t *trip) lossCause() error {
	if t.session.Err() != nil {
		return errSessionEnded
	}
	return errLeaseEnded
}

// PathChanged is told by the dispatcher that something happened to our own
// node. It does not block.
func (t *trip) PathChanged(path string, ev zkio.Event) {
	r := t.round
	if ev == zkio.NodeDeleted && r.word.Load().Phase() == state.Retained && path == t.grant.Path {
		// The watch says that the lock's node is gone; nobody needs to ask again.
		//holdfast:reached hold: a watch told that its node is deleted
		r.fail(t.error("hold", errNodeDeleted))
		return
	}
	t.ownTouched.Store(true)
	t.wake()
}
