// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A feed tells Config.Observer what happens, and those that listen to single locks: see
// [Lock.Listen]. A lock that has neither costs nothing.
//
// The goroutine to which something happens queues the event, and never waits. One
// goroutine of the feed's own calls the observer, and each reporter one for its listener.
//
// To wake that goroutine and to call an observer takes longer than to queue an event, and
// on a machine with few cores it takes them from the callers. So events gather for
// eventDelay, and the goroutine wakes once for all of them. What an operator or the program
// may have to act on is told at once, after the events that wait already: see eventKinds.
//
// A round's word is changed by one goroutine, and another may see the change and change
// the word again before the first has told of it. So the order in which events are queued
// is not left to chance: the feed keeps for each round what was told of it, in its trace.
// An event that presupposes the grant tells of the grant first, and after the end of a
// round nothing is told of it.
type feed struct {
	m       *Manager
	observe func(Event)    // nil: there is no observer
	tell    chan struct{}  // has a value when run is to tell what is queued
	due     *time.Timer    // sends to tell once the first of the events that wait has done so for eventDelay
	running sync.WaitGroup // the goroutine of run
	logged  bool           // the observer has not returned, and that was logged; used by run's goroutine

	// mu protects what follows, and all traces. It is held for a few instructions, and
	// no other lock is taken meanwhile.
	mu           sync.Mutex
	events       []Event // a ring: n events from first on
	first        int
	n            int
	closed       bool
	rounds       uint64 // how many have begun
	mergedRounds uint64 // how many of them were merged into others
	dropped      uint64
	reporters    map[*Lock][]*reporter // by what they listen to; nil until there is one
}

// maxEvents is how many events may wait for the observer.
const maxEvents = 4096

// eventDelay is how long the first of the events that wait does so, if none is urgent.
const eventDelay = 10 * time.Millisecond

// A trace is what a feed knows about a round. The feed's mu protects it.
type trace struct {
	round   uint64
	asked   int64  // when the first caller asked, on the manager's clock
	node    string // the path of the round's node; "" if none is known
	granted int64  // when the round was granted, on the manager's clock; 0: not told yet
	token   uint64
	session int64
	told    [len(eventKinds)]bool // by once
	lost    error                 // how the lock was lost while it was idle; else nil
	over    bool                  // the end of the round was told
}

// newFeed returns the feed of m.
func newFeed(m *Manager) *feed {
	f := &feed{m: m, observe: m.cfg.Observer}
	if f.observe != nil {
		f.tell = make(chan struct{}, 1)
		f.due = time.AfterFunc(eventDelay, f.tellNow)
	}
	return f
}

// start starts the goroutine that calls the observer.
func (f *feed) start() {
	if f.observe != nil {
		keepRunning(&f.running, f.run)
	}
}

// close tells all that is queued, and joins the goroutines of the feed and its reporters. What
// happens after that is not told.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	if f.observe != nil {
		f.due.Stop()
		f.tellNow()
	}
	var all []*reporter
	for _, of := range f.reporters {
		all = append(all, of...)
	}
	for _, e := range all {
		e.queued.Signal()
	}
	f.mu.Unlock()
	f.running.Wait()
	for _, e := range all {
		e.running.Wait()
	}
}

// hears reports whether what happens to l is told.
func (f *feed) hears(l *Lock) bool {
	return f != nil && (f.observe != nil || l.noted.Load().Has(state.Listened))
}

// keepRunning runs loop on a goroutine of wg, and begins it anew on another one if user
// code has ended the goroutine, as runtime.Goexit does.
func keepRunning(wg *sync.WaitGroup, loop func()) {
	wg.Go(func() {
		returned := false
		defer func() {
			if !returned {
				keepRunning(wg, loop) // this goroutine still counts: wg is not waited for in vain
			}
		}()
		loop()
		returned = true
	})
}

// run calls the observer, until the feed is closed and no event is left.
func (f *feed) run() {
	for {
		switch e, ok, closed := f.pop(); {
		case ok:
			f.awaitCause(e)
			f.guard("Config.Observer", &f.logged, e.Kind, e.Lock, func() { f.observe(e) })
		case closed:
			return
		default:
			<-f.tell
		}
	}
}

// awaitCause waits until it is known why a lock was lost, for as long as its line in the log
// does: a server that ends a session may tell of the deletion of its nodes first. The losses
// of a moment wait together, so the feed falls back by no more than that, and it does not wait
// if events would soon be dropped.
func (f *feed) awaitCause(e Event) {
	crowded := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.n >= maxEvents/2
	}
	loss, ok := errors.AsType[*lossError](e.Err)
	for ok && e.Kind == EventLost && !loss.known() && time.Since(e.Time) < lossMoment && !crowded() {
		ok = f.m.pause(time.Millisecond) // false: Close has begun
	}
}

// guard calls tell, which calls user code. It logs the first time that this does not return:
// it panics, or ends the goroutine.
func (f *feed) guard(what string, logged *bool, kind EventKind, lock string, tell func()) {
	returned := false
	defer func() {
		p, how := recover(), " panicked"
		if p == nil {
			how = " ended its goroutine, as runtime.Goexit and FailNow of a test do"
		}
		if returned || *logged {
			return
		}
		*logged = true
		f.m.cfg.Logger.Error("holdfast: "+what+how+"; the next time is not logged", //nolint:sloglint // of constants
			"event", kind.String(), "lock", lock, "panic", p, "stack", string(debug.Stack()))
	}()
	tell()
	returned = true
}

// pop takes the oldest event that is queued. If ok is false there is none, and closed
// reports that none will come any more.
func (f *feed) pop() (e Event, ok, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		return Event{}, false, f.closed
	}
	e = f.events[f.first]
	f.events[f.first] = Event{}
	f.first = (f.first + 1) % len(f.events)
	f.n--
	return e, true, false
}

// pushLocked queues e for the observer, unless too many events wait or the feed is closed.
func (f *feed) pushLocked(e Event) {
	switch {
	case f.closed || f.observe == nil:
		return
	case f.n == maxEvents:
		f.dropped++
		return
	case f.n == len(f.events):
		more := make([]Event, max(64, 2*f.n))
		n := copy(more, f.events[f.first:])
		copy(more[n:], f.events[:f.first])
		f.events, f.first = more, 0
	}
	f.events[(f.first+f.n)%len(f.events)] = e
	f.n++
	switch {
	case eventKinds[e.Kind].urgent || f.n == maxEvents/2: // before any has to be dropped
		f.tellNow()
	case f.n == 1:
		f.due.Reset(eventDelay)
	}
}

// tellNow has run tell what is queued.
func (f *feed) tellNow() {
	select {
	case f.tell <- struct{}{}:
	default: // run has not woken since the last time
	}
}

// drops returns how many events were dropped.
func (f *feed) drops() uint64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}

// session tells of e, an event of the session s, or of none if s is nil.
func (f *feed) session(s *zkio.Session, e Event) {
	if f == nil || f.observe == nil {
		return
	}
	if s != nil {
		e.Session = s.ID()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Time = time.Now()
	f.pushLocked(e)
}

// The methods below tell what has happened to the round of t.

// began notes that the first caller has asked for the round.
func (f *feed) began(t *roundIO) {
	f.note(t, func(*trace, time.Time) {})
}

// merged notes that the round was merged into another before its turn came. To the observer
// its callers are newcomers there.
func (f *feed) merged(t *roundIO) {
	f.note(t, func(tr *trace, _ time.Time) {
		tr.over = true
		f.mergedRounds++
	})
}

// queuedAt tells that the round has the node at path, if that was not told yet.
func (f *feed) queuedAt(t *roundIO, path string) {
	f.note(t, func(tr *trace, at time.Time) {
		if tr.node == path {
			return
		}
		tr.node = path
		f.pushLocked(f.event(t, tr, EventQueued, at))
	})
}

// placed tells where the round stands in the queue.
func (f *feed) placed(t *roundIO, p Place) {
	f.note(t, func(tr *trace, at time.Time) {
		e := f.event(t, tr, EventPlaced, at)
		e.Position, e.Ahead = p.Position, p.Ahead
		f.pushLocked(e)
		f.noticeLocked(t, notice{kind: EventPlaced, round: tr.round, place: p})
	})
}

// granted tells that the round was granted, if that was not told yet. The caller has seen
// the word RETAINED.
func (f *feed) granted(t *roundIO) {
	f.note(t, func(tr *trace, at time.Time) { f.grantLocked(t, tr, at) })
}

func (f *feed) grantLocked(t *roundIO, tr *trace, at time.Time) {
	if tr.granted != 0 {
		return
	}
	n := t.tenure
	tr.granted, tr.token, tr.session, tr.node = n.since, n.token, n.session.ID(), n.path
	f.pushLocked(f.event(t, tr, EventGranted, at))
	f.noticeLocked(t, notice{kind: EventGranted, round: tr.round, grant: n.grant()})
}

// once tells what has happened to the round, which was granted, if that was not told yet.
func (f *feed) once(t *roundIO, kind EventKind) {
	f.note(t, func(tr *trace, at time.Time) {
		f.grantLocked(t, tr, at)
		if !tr.told[kind] {
			tr.told[kind] = true
			f.pushLocked(f.event(t, tr, kind, at))
		}
	})
}

// revoked tells that another process asks for the lock.
func (f *feed) revoked(t *roundIO, r Revocation) {
	f.note(t, func(tr *trace, at time.Time) {
		e := f.event(t, tr, EventRevoked, at)
		if r.From != (Contender{}) {
			e.From = &r.From
		}
		e.Reason = r.Reason
		f.pushLocked(e)
	})
}

// lost tells that the round, which was granted, was ended by force.
func (f *feed) lost(t *roundIO, err error) {
	f.note(t, func(tr *trace, at time.Time) {
		f.grantLocked(t, tr, at)
		f.endLocked(t, tr, EventLost, err, at)
		f.noticeLocked(t, notice{kind: EventLost, round: tr.round, err: err})
	})
}

// lostIdle notes that the round was ended by force while it was idle. Its release tells the
// observer; to listeners the process has lost the lock.
func (f *feed) lostIdle(t *roundIO, err error) {
	f.note(t, func(tr *trace, at time.Time) {
		f.grantLocked(t, tr, at)
		tr.lost = err
		f.noticeLocked(t, notice{kind: EventLost, round: tr.round, err: err})
	})
}

// failed tells that the round, which was not granted, is over.
func (f *feed) failed(t *roundIO, err error) {
	f.note(t, func(tr *trace, at time.Time) {
		f.endLocked(t, tr, EventFailed, err, at)
		f.noticeLocked(t, notice{kind: EventFailed, round: tr.round, err: err})
	})
}

// released tells the observer that the round, which was granted and not ended by force, is
// over: its node is gone, or err says why that is not known. Listeners hear from gone.
func (f *feed) released(t *roundIO, err error) {
	f.note(t, func(tr *trace, at time.Time) {
		f.grantLocked(t, tr, at)
		if err == nil {
			err = tr.lost
		}
		f.endLocked(t, tr, EventReleased, err, at)
	})
}

func (f *feed) endLocked(t *roundIO, tr *trace, kind EventKind, err error, at time.Time) {
	e := f.event(t, tr, kind, at)
	e.Err = err
	if loss, ok := errors.AsType[*Error](err); ok {
		e.Paused = loss.Paused
	}
	f.pushLocked(e)
	tr.over = true
}

// note calls do, with mu held, if the round is not over. It begins the round's trace on
// first use.
func (f *feed) note(t *roundIO, do func(tr *trace, at time.Time)) {
	if !f.hears(t.round.lock) {
		return
	}
	s := t.signals()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Now() // under mu: the times of a lock's events are in their order
	if s.trace == nil {
		f.rounds++
		s.trace = &trace{round: f.rounds, asked: f.m.clock(at)}
	}
	if !s.trace.over {
		do(s.trace, at)
	}
}

// event returns an event of the round of t, at the time at.
func (f *feed) event(t *roundIO, tr *trace, kind EventKind, at time.Time) Event {
	l := t.round.lock
	e := Event{
		Kind:     kind,
		Time:     at,
		Lock:     l.Name(),
		LockKind: l.lockKind(),
		Round:    tr.round,
		Token:    tr.token,
		Session:  tr.session,
	}
	now := f.m.clock(at)
	if tr.granted == 0 {
		e.Waited = time.Duration(now - tr.asked)
	} else {
		e.Waited = time.Duration(tr.granted - tr.asked)
		e.Held = time.Duration(now - tr.granted)
	}
	return e
}

// traceOf returns a copy of what is known of the round.
func (f *feed) traceOf(t *roundIO) trace {
	s := t.signalled.Load()
	if f == nil || s == nil {
		return trace{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.trace == nil {
		return trace{}
	}
	return *s.trace
}
