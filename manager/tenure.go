// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// tenure is the part of a trip that gives others their turn. Goroutines share
// a lock, so a process in which new ones keep arriving would hold it for ever.
// Therefore the gate of a round that is held closes to newcomers when the same
// conflicting contender was seen waiting in two looks a tenure apart; one look
// is not enough, or a TryLock that passes by would close it. Those inside are not
// disturbed, and the lock goes when they have left.
//
// A round that is shorter than the tenure pays no request for this. The first
// look is taken when a round outlives it, and leaves a watch for the directory's
// children; from then on a look is taken when somebody came or went, but no more
// than two a tenure, however many come and go.
type tenure struct {
	lookDue     atomic.Bool  // step is to take a look
	lookPending atomic.Bool  // a look is due or will be: events are of no interest
	turnPending atomic.Bool  // of a read round: a writersTurn is on its way
	lookedAt    atomic.Int64 // when the last look was taken, on the manager's clock

	// Of step alone.
	behindWatched bool
	suspect       *suspect // the conflicting contender that waits behind us; nil if none was seen
}

// A suspect is a contender that may have waited long enough to close a gate.
type suspect struct {
	name string
	at   int64 // since when it has been seen
}

// look is the trip as a task of the pool that makes a look due.
type look trip

// Void is asked before the task is queued: most rounds are over by then, and need
// no worker.
func (k *look) Void() bool { return k.round.word.Load().Phase() != state.Retained }

// Run is called by the pool.
func (k *look) Run(*zkio.Session) {
	if !k.Void() {
		t := (*trip)(k)
		t.lookDue.Store(true)
		t.wake()
	}
}

// lookAgainIn makes a look due after d, unless one is due already or will be.
func (t *trip) lookAgainIn(d time.Duration) {
	if t.lookPending.CompareAndSwap(false, true) {
		// A pool that is closed has nobody to be fair to any more.
		t.round.lock.m.client.SubmitAfter(d, zkio.Fetches, (*look)(t))
	}
}

// behindWatch is the trip as the watcher of its directory.
type behindWatch trip

// PathChanged is told by the dispatcher that a contender came or went.
func (b *behindWatch) PathChanged(string, zkio.Event) {
	t := (*trip)(b)
	m := t.round.lock.m
	t.lookAgainIn(m.cfg.Tenure/2 - time.Duration(m.now()-t.lookedAt.Load()))
}

// suspected notes who waits behind us, if anybody was found, and since when.
// Nodes of this process do not count: its own readers and writer see to each
// other.
func (t *trip) suspected(c contender, found bool) {
	if !found {
		t.suspect = nil
	} else if t.suspect == nil || c.name != t.suspect.name {
		t.suspect = &suspect{c.name, t.round.lock.m.now()}
	}
}

// lookBehind takes a look. It reports false if that failed and is to be tried again.
func (t *trip) lookBehind(s *zkio.Session) bool {
	l := t.round.lock
	if l.m.cfg.Tenure < 0 || t.round.flags.Load().Has(state.GateClosed) {
		return true
	}
	if rest := l.m.cfg.Tenure - time.Duration(l.m.now()-t.grantedAt); rest > 0 {
		t.lookPending.Store(false) // this look was for our own node
		t.lookAgainIn(rest)
		return true
	}
	if !t.behindWatched {
		t.behindWatched = true
		l.m.client.Watch(l.path, (*behindWatch)(t))
	}
	t.lookedAt.Store(l.m.now())
	t.lookPending.Store(false) // before the list: what changes from now on is news
	children, stat, err := s.Children(l.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return true // our node is gone, too, and its watch will say so
	} else if err != nil {
		return false
	}
	q := parseQueue(children)
	q.next = nextNumber(stat)
	t.last = q.last(t.node.Name(), l.kind)
	t.suspected(q.excluded(l.kind, func(c contender) bool { return l.m.owns(c.name) }))
	q.free()
	if t.suspect == nil {
		return true
	}
	waited := time.Duration(l.m.now() - t.suspect.at)
	if waited >= l.m.cfg.Tenure {
		if l.kind == KindRead {
			if _, writing := l.rw.held(); writing {
				//holdfast:reached gate: stays open while our own writer is inside
				// They wait for our writer anyway, and our readers may enter as
				// long as it is inside.
				t.lookAgainIn(l.m.cfg.Tenure)
				return true
			}
		}
		//holdfast:reached gate: closed by the tenure
		t.round.flags.Set(state.GateClosed)
		return true
	}
	t.lookAgainIn(l.m.cfg.Tenure - waited)
	return true
}

// unwatchBehind takes back the watch on the directory.
func (t *trip) unwatchBehind() {
	if t.behindWatched {
		t.behindWatched = false
		t.round.lock.m.client.Unwatch(t.round.lock.path, (*behindWatch)(t))
	}
}
