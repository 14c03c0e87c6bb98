// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// A tenure is a round's time as the holder of the lock.
//
// Goroutines share a lock, so a process in which new ones keep arriving would
// hold it for ever. Therefore the gate of a held round closes to newcomers when
// the same conflicting contender was seen waiting in two looks Config.Tenure
// apart; one look is not enough, or a passing TryLock would close it. Goroutines
// inside are not disturbed, and the lock goes when they have left.
//
// A round shorter than that pays no request for this. The first look comes when a
// round outlives it, and leaves a watch for the directory's children; from then on
// a look is taken when a contender came or went, but no more than two in
// Config.Tenure, however many come and go.
type tenure struct {
	// Written before the round's word says RETAINED, and never again.
	grant   Grant
	since   int64 // on the manager's clock
	lease   *zkio.Lease
	session *zkio.Session
	io      *roundIO

	lookedAt atomic.Int64 // when the last look was taken, on the manager's clock

	watched bool // the directory's watch is registered; used by steps only
}

// A suspect is a contender that may have waited long enough to close a gate.
type suspect struct {
	name string
	at   int64 // since when it has been seen
}

// lookBehindAfter makes a look due after d, unless one is due already or will be.
func (t *roundIO) lookBehindAfter(d time.Duration) {
	// A pool that is closed runs no look; its locks are lost.
	t.wakeAfter(d, state.BehindTimer, state.BehindDue)
}

// PathChanged is called by the dispatcher when a contender came or went.
func (n *tenure) PathChanged(string, zkio.Event) {
	m := n.io.round.lock.m
	n.io.lookBehindAfter(m.cfg.Tenure/2 - time.Duration(m.now()-n.lookedAt.Load()))
}

// suspected notes which contender waits behind, if one was found, and since when.
// Nodes of this process do not count: its own readers and writer see to each
// other.
func (t *roundIO) suspected(c queue.Contender, found bool) {
	if !found {
		t.suspect = nil
	} else if t.suspect == nil || c.Name != t.suspect.name {
		t.suspect = &suspect{c.Name, t.round.lock.m.now()}
	}
}

// lookBehind takes a look. It reports false if that failed and is to be tried again.
func (t *roundIO) lookBehind(s *zkio.Session) bool {
	l, n := t.round.lock, t.tenure
	m := l.m
	if m.cfg.Tenure < 0 || t.round.flags.Load().Has(state.GateClosed) {
		return true
	}
	if rest := m.cfg.Tenure - time.Duration(m.now()-n.since); rest > 0 {
		t.events.Take(state.BehindTimer) // this look was for the own node
		t.lookBehindAfter(rest)
		return true
	}
	if !n.watched {
		n.watched = true
		m.client.Watch(l.path, n)
	}
	n.lookedAt.Store(m.now())
	t.events.Take(state.BehindTimer) // before the list: what changes from now on is news
	children, stat, err := s.Children(l.path)
	if errors.Is(err, zkio.ErrNoNode) {
		return true // our node is gone, too, and its watch will say so
	} else if err != nil {
		return false
	}
	q := queue.List(children, queue.NextNumber(stat.Cversion, stat.NumChildren))
	t.tail = q.Tail(t.node.Name(), l.kind)
	t.suspected(q.Excluded(l.kind, func(c queue.Contender) bool { return m.owns(c.Name) }))
	q.Free()
	if t.suspect == nil {
		return true
	}
	if waited := time.Duration(m.now() - t.suspect.at); waited < m.cfg.Tenure {
		t.lookBehindAfter(m.cfg.Tenure - waited)
		return true
	}
	if l.kind == queue.Read {
		if _, writing := l.rw.held(); writing {
			//holdfast:reached gate: stays open while our own writer is inside
			// The suspect waits for our writer anyway, and our readers may enter as
			// long as it is inside.
			t.lookBehindAfter(m.cfg.Tenure)
			return true
		}
	}
	//holdfast:reached gate: closed by the tenure
	t.round.flags.Set(state.GateClosed)
	return true
}

// unwatchBehind takes back the watch on the directory.
func (t *roundIO) unwatchBehind() {
	if n := t.tenure; n != nil && n.watched {
		n.watched = false
		t.round.lock.m.client.Unwatch(t.round.lock.path, n)
	}
}
