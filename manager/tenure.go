// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A tenure is a round's time as the holder of the lock.
//
// Goroutines share a lock, so a process in which new ones keep arriving would
// hold it for ever. Therefore the gate of a held round closes to newcomers when
// two looks, Config.Tenure apart, have seen the same conflicting contender wait;
// after one look, a passing TryLock would close it. Holders are not disturbed,
// and the lock goes when they have left.
//
// A round shorter than a tenure pays no request for this. The first look comes
// when the round outlives it, and leaves a watch on the directory's children.
// From then on a contender that comes or goes causes a look, but there are no
// more than two in Config.Tenure, however many come and go.
//
// A process may hold 100,000 locks, so there are 40 first looks a second in all,
// and 200 at once: see pacer. That costs no fairness. Only newcomers can keep a
// lock from the others, and the first newcomer to enter a round without a look
// makes it due. A lock that is held and left alone is looked at some time later.
// That the own node is there is not for these looks to tell: its watch comes by
// itself, and in time, from [zkio.Node.WatchLater].
type tenure struct {
	// Written before the round's word says RETAINED, and never again.
	token, turn uint64 // of the grant; see grant
	path        string // the same
	since       int64  // on the manager's clock
	lease       *zkio.Lease
	session     *zkio.Session

	lookedAt atomic.Int64 // when the last look was taken, on the manager's clock

	timer atomic.Pointer[idleTimer] // runs while the lock lingers for a time; see linger.go

	abandoned bool // written as those above

	// Used by steps only.
	readOwn    bool // the own node was read because a contender uses Curator
	dirWatched bool // the watch of the directory is registered
}

// grant returns what the process was granted. There is a tenure for each lock that it
// holds, so it is small: most of a Grant is in it anyway.
func (n *tenure) grant() Grant {
	return Grant{Token: n.token, Turn: n.turn, Path: n.path, Session: n.session.ID(), Abandoned: n.abandoned}
}

// An incumbent is the roundIO of a round that holds the lock, in its role towards the contenders
// that wait for it: it looks for them, keeps newcomers out for them, and gives way to them when it
// is idle.
type incumbent roundIO

func (t *roundIO) incumbent() *incumbent { return (*incumbent)(t) }

// lookBehindAfter makes a look due after d, unless one is due already or will be.
func (t *incumbent) lookBehindAfter(d time.Duration) {
	// A closed pool runs no look, but its locks are lost.
	t.io.delays().after(d, state.BehindTimer, state.BehindDue)
}

// firstLook makes the first look due after d, if it is not due yet and the manager's
// pace permits it, and reports whether it did. If not, a newcomer does, or the
// rotation.
func (t *incumbent) firstLook(d time.Duration) bool {
	m := t.round.lock.m
	if m.cfg.Tenure < 0 || t.events.Load().Has(state.FirstLookAsked) {
		return false // before take: the pace is for those that have had none
	}
	if !m.looks.take(m.now()) || !t.events.Raise(state.FirstLookAsked) {
		return false
	}
	t.lookBehindAfter(d)
	return true
}

// entered is called when the first newcomer has entered the granted round, and
// perhaps for some others at that time.
func (t *incumbent) entered() {
	m := t.round.lock.m
	m.feed.once(t.io, EventEntered)
	if m.cfg.Tenure >= 0 && t.events.Raise(state.FirstLookAsked) {
		t.lookBehindAfter(m.firstLook())
	}
}

// contentionAsked makes a look due because a holder has called Contended. That is not
// needed if the round has looked before and its gate is open: then the watch of that look
// is set, and its events lead to the next look.
func (t *roundIO) contentionAsked() {
	if t.tenure.lookedAt.Load() != 0 && !t.round.gateClosed() {
		// A look that the watch has made due may be half a tenure away.
		if tenure := t.round.lock.m.cfg.Tenure; tenure >= 0 && tenure <= defaultTenure {
			return
		}
	}
	t.events.Raise(state.FirstLookAsked)
	rest := t.incumbent().lookFrom() - time.Duration(t.round.lock.m.now()-t.tenure.since)
	if rest > 0 {
		t.incumbent().lookBehindAfter(rest)
	} else {
		t.raise(state.BehindDue) // a delayed wake may be due much later
	}
}

// lookFrom returns how long after its grant the round may look behind itself for the first
// time: Config.Tenure, or less if a holder has called Contended.
func (t *incumbent) lookFrom() time.Duration {
	tenure := t.round.lock.m.cfg.Tenure
	if t.round.wantsContention() && (tenure < 0 || tenure > defaultTenure) {
		return defaultTenure
	}
	return tenure
}

// A lookout is the roundIO of a held round in its role as a watcher of the directory.
type lookout roundIO

// PathChanged is called by the dispatcher when a contender came or went.
func (o *lookout) PathChanged(_ string, ev zkio.Event) {
	t := (*roundIO)(o)
	t.events.Take(state.BehindWatched)
	if !t.round.word.Load().Idle() || !t.incumbent().idleChanged(ev) {
		t.incumbent().lookSoon()
	}
}

// mayClose reports whether looks may close the gate.
func (t *incumbent) mayClose() bool {
	return t.round.lock.m.cfg.Tenure >= 0 && !t.round.gateClosed()
}

// lookSoon makes a look due because the watch has fired.
func (t *incumbent) lookSoon() {
	t.lookBehindAfter(t.lookFrom()/2 - time.Duration(t.round.lock.m.now()-t.tenure.lookedAt.Load()))
}

// noSuspect is for suspected.
var noSuspect queue.Contender

// suspected notes which contender waits behind, if one was found, and since when.
func (t *roundIO) suspected(c queue.Contender, found bool) {
	switch known := t.near().suspect; {
	case !found && known != nil:
		t.neighbours.suspect = nil
	case found && (known == nil || c.Name != known.name):
		t.meet().suspect = &suspect{strings.Clone(c.Name), t.round.lock.m.now()} // not the whole list
	}
}

// lookBehind takes a look.
func (t *incumbent) lookBehind(s *zkio.Session) next {
	l := t.round.lock
	m := l.m
	// Before the list: what changes from now on is news. And before the look at who
	// has asked: a holder that asks from now on finds no look on its way.
	t.events.Take(state.BehindTimer)
	gate := t.mayClose()
	rest := t.lookFrom() - time.Duration(m.now()-t.tenure.since)
	switch idle := t.round.word.Load().Idle(); {
	case idle && t.events.Load().Has(state.BehindWatched):
		return goOn // the watch will tell
	case idle: // now: see linger.go
	case !gate && !t.round.wantsContention():
		return goOn
	case rest > 0:
		t.lookBehindAfter(rest) // too early: the first look comes after 100 ms at most
		return goOn
	}
	if !t.tenure.dirWatched {
		t.tenure.dirWatched = true
		m.client.Watch(l.path, (*lookout)(t))
	}
	t.tenure.lookedAt.Store(m.now())
	t.events.Raise(state.BehindWatched)
	children, stat, err := s.Children(l.path)
	if err != nil {
		t.events.Take(state.BehindWatched)
	}
	if errors.Is(err, zkio.ErrNoNode) {
		return goOn // our node is gone too, and its watch will say so
	} else if err != nil {
		return retry
	}
	q := l.queueOf(children, stat)
	l.noteStrangers(&q)
	t.io.setTail(q.Tail(t.node.Name(), l.kind))
	v := t.io.outlook()
	t.io.suspected(q.Excluded(v.kind, func(c queue.Contender) bool { return c.Name == t.node.Name() || v.passesOver(l, c.Name) }))
	q.Free()
	first := t.io.near().suspect
	if first == nil {
		return goOn
	}
	t.round.seeContention()
	t.round.endIdle()
	if !t.tenure.readOwn && queue.OfCurator(first.name) {
		// Curator's Revoker may have written our node before we watched it.
		t.tenure.readOwn = true
		t.io.raise(state.OwnTouched)
	}
	if !gate {
		return goOn
	}
	if waited := time.Duration(m.now() - first.at); waited < m.cfg.Tenure {
		t.lookBehindAfter(m.cfg.Tenure - waited)
		return goOn
	}
	if v.open {
		//holdfast:reached gate: stays open while our own writer is inside
		t.lookBehindAfter(m.cfg.Tenure)
		return goOn
	}
	return t.closeFor(s, first.name)
}

// unwatchBehind removes the watches of the directory and of the contender that the gate is
// closed for.
func (t *incumbent) unwatchBehind() {
	t.unwatchClosedFor()
	if n := t.tenure; n != nil && n.dirWatched {
		n.dirWatched = false
		t.round.lock.m.client.Unwatch(t.round.lock.path, (*lookout)(t))
	}
}

// firstLook returns how long after its grant a round has its own node watched, which
// has no watch yet if one request both created and granted it, and takes its first
// look at the queue behind it. The watch must not be late, whatever Tenure is.
func (m *Manager) firstLook() time.Duration {
	if m.cfg.Tenure < 0 || m.cfg.Tenure > defaultTenure {
		return defaultTenure
	}
	// A waiter enters if it has listed the queue no longer ago than this, so it
	// takes more than the time between two instructions.
	return max(m.cfg.Tenure, defaultTenure/10)
}
