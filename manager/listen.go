// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A Listener has functions that are told what becomes of a lock in this process: see
// [Lock.Listen]. A function that is nil is not called.
type Listener struct {
	// Queued says where this process waits in the lock's queue. It is called again when
	// that changes. If no contender is ahead, Acquired is called without it.
	Queued func(Place)

	// Acquired says that this process owns the lock. One call of Lost or Released
	// follows, and no other of Acquired before it.
	Acquired func(Grant)

	// Lost says that this process does not own the lock any more, although it has not
	// given it up. The error wraps [ErrLost], or [ErrClosed] if the Manager was closed.
	Lost func(error)

	// Released says that this process has given the lock up and its node is gone: another
	// process can have the lock. An error says that it is not known whether the node is
	// gone, because the Manager was closed ([ErrClosed]), or that the node went otherwise
	// after ZooKeeper had refused to delete it.
	Released func(error)

	// Failed says that the process has stopped waiting, without a grant. The error is
	// [ErrNotGranted] if no caller waits any more; else it says why the lock cannot be had.
	Failed func(error)
}

// A Place is where a process waits in a lock's queue.
type Place struct {
	Path     string     // its node; another path than before means that it has queued anew, at the end
	Position int        // how many contenders are ahead
	Ahead    *Contender // the nearest of them, or the first of two; nil if it is not known
}

// Listen has the functions of ln called with what becomes of the lock in this process, until
// stop is called or the Manager is closed. It is about the process, which owns the lock once
// however many callers hold it. If the process owns the lock when Listen is called, Acquired is
// called first. Listen acquires nothing and does not block. A lock can have any number of
// Listeners, which any goroutine may add at any time.
//
// A Listener has a goroutine of its own, which makes its calls one at a time and in the order of
// what happened, so its functions need no mutex among themselves. The calls come a moment later
// than what they tell of. So a slow function delays neither a lock nor another Listener, and a
// holder that must stop in time uses [Hold.Lost], not a Listener. What a slow function has
// missed is made shorter: of several places only the last is told, and if more than 256 calls
// wait, rounds that are over are left out, each as a whole. An end is never left out of which
// the beginning was told. If a function panics or ends its goroutine,
// that is logged, once for each Listener, and the next call is made.
//
// What [Manager.LockAll] does is not told, nor are the turns of a [Mutex]. Each lock of an
// [RWLock] has its own listeners. A lock with a Listener stays in memory.
//
// Stop blocks while a call is under way, and nothing is called after it has returned. It may
// be called again. Close of the Manager blocks until all that has happened is told. So no
// function of ln may call stop or Close. If the Manager is closed already, nothing is told.
func (l *Lock) Listen(ln Listener) (stop func()) {
	f := l.m.feed
	e := &reporter{Listener: ln, feed: f, lock: l}
	e.queued.L = &f.mu
	if !f.add(e) {
		return func() {}
	}
	// A granter changes the word before it looks for listeners, and the lock has one since
	// add: at least one of the two sees the other.
	if r := l.cur.Load(); r.word.Load().Phase() == state.Retained {
		f.present(r.io(), e)
	}
	return e.stop
}

// A reporter tells a Listener what happens to its lock, on a goroutine of its own.
type reporter struct {
	Listener
	feed    *feed
	lock    *Lock
	running sync.WaitGroup // the goroutine of run

	logged bool // one of the functions has not returned, and that was logged; used by run's goroutine

	// The feed's mu protects what follows.
	queued  sync.Cond // of that mu: there is a notice, or run is to end
	notices []notice  // what is to be told, the oldest first
	telling uint64    // the round of the last notice that was taken to be told
	inside  uint64    // the round of which Acquired is the last that was noted; 0: none
	stopped bool
}

// A notice is one call of a Listener's function.
type notice struct {
	kind  EventKind // EventPlaced, EventGranted, EventLost, EventReleased or EventFailed
	round uint64
	place Place
	grant Grant
	err   error
}

// maxNotices is how many calls may wait before a Listener is told of fewer rounds.
const maxNotices = 256

// run tells the notices, until stop is called, or the feed is closed and none is left.
func (e *reporter) run() {
	for {
		n, ok := e.next()
		if !ok {
			return
		}
		e.feed.guard("a Listener", &e.logged, n.kind, e.lock.Name(), func() { e.tell(n) })
	}
}

// next waits for a notice and takes it; false if run is to end.
func (e *reporter) next() (notice, bool) {
	f := e.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(e.notices) == 0 && !e.stopped && !f.closed {
		e.queued.Wait()
	}
	if len(e.notices) == 0 || e.stopped {
		return notice{}, false
	}
	n := e.notices[0]
	e.notices = slices.Delete(e.notices, 0, 1)
	e.telling = n.round
	return n, true
}

// tell calls the function that n is for.
func (e *reporter) tell(n notice) {
	switch {
	case n.kind == EventPlaced && e.Queued != nil:
		e.Queued(n.place)
	case n.kind == EventGranted && e.Acquired != nil:
		e.Acquired(n.grant)
	case n.kind == EventLost && e.Lost != nil:
		e.Lost(n.err)
	case n.kind == EventReleased && e.Released != nil:
		e.Released(n.err)
	case n.kind == EventFailed && e.Failed != nil:
		e.Failed(n.err)
	}
}

// stop ends the calls.
func (e *reporter) stop() {
	e.feed.remove(e)
	e.running.Wait()
}

// noteLocked has n told. It drops what makes no sequence: a second grant of a round, and an
// end without a grant.
func (e *reporter) noteLocked(n notice) {
	switch n.kind {
	case EventPlaced:
		e.notices = slices.DeleteFunc(e.notices, func(old notice) bool { return old.kind == EventPlaced && old.round == n.round })
	case EventGranted:
		if e.inside == n.round {
			return
		}
		e.inside = n.round
	case EventLost, EventReleased:
		if e.inside != n.round {
			return
		}
		e.inside = 0
	}
	e.notices = append(e.notices, n)
	if len(e.notices) > maxNotices {
		e.shortenLocked()
	}
	e.queued.Signal()
}

// shortenLocked leaves out the oldest round of which nothing was told and all is known.
func (e *reporter) shortenLocked() {
	whole := func(end notice) bool {
		switch end.kind {
		case EventFailed:
			return end.round != e.telling
		case EventLost, EventReleased:
			return slices.ContainsFunc(e.notices, func(n notice) bool { return n.kind == EventGranted && n.round == end.round }) &&
				end.round != e.telling
		}
		return false
	}
	if i := slices.IndexFunc(e.notices, whole); i >= 0 {
		round := e.notices[i].round
		e.notices = slices.DeleteFunc(e.notices, func(n notice) bool { return n.round == round })
	}
}

// add registers e and starts its goroutine. It reports false if the feed is closed.
func (f *feed) add(e *reporter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	if f.reporters == nil {
		f.reporters = make(map[*Lock][]*reporter)
	}
	f.reporters[e.lock] = append(f.reporters[e.lock], e)
	e.lock.noted.Raise(state.Listened)
	keepRunning(&e.running, e.run) // before close can wait for it
	return true
}

// remove undoes add, and ends its goroutine.
func (f *feed) remove(e *reporter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.stopped, e.notices = true, nil
	e.queued.Signal()
	f.reporters[e.lock] = slices.DeleteFunc(f.reporters[e.lock], func(other *reporter) bool { return other == e })
	if len(f.reporters[e.lock]) == 0 {
		delete(f.reporters, e.lock)
		e.lock.noted.Take(state.Listened)
	}
}

// present tells e, which is new, that the round was granted. The caller has seen the word
// RETAINED.
func (f *feed) present(t *roundIO, e *reporter) {
	f.note(t, func(tr *trace, at time.Time) {
		f.grantLocked(t, tr, at)
		if tr.lost == nil {
			e.noteLocked(notice{kind: EventGranted, round: tr.round, grant: t.tenure.grant()})
		}
	})
}

// gone tells the listeners that the round, which was granted and not ended by force, is
// over and its node is gone, or err says why that is not known. Released was called before.
func (f *feed) gone(t *roundIO, err error) {
	if !f.hears(t.round.lock) {
		return
	}
	s := t.signals()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.trace != nil {
		f.noticeLocked(t, notice{kind: EventReleased, round: s.trace.round, err: err})
	}
}

// noticeLocked tells the listeners of the lock. The rounds of a group are not for them.
func (f *feed) noticeLocked(t *roundIO, n notice) {
	if t.place() != nil {
		return
	}
	for _, e := range f.reporters[t.round.lock] {
		e.noteLocked(n)
	}
}
