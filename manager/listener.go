// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// listener is the Manager as zkio's Listener. Its methods run on the client's
// dispatcher, one at a time; none blocks.
type listener Manager

// SessionStarted has nothing to wake: tasks that waited for a session are in the
// pool's queues, and SessionOver has woken the parked rounds.
func (m *listener) SessionStarted(s *zkio.Session) {
	m.listeners.session = s
	m.feed.session(s, Event{Kind: EventSessionBegan})
	m.listeners.each(func(l zkio.Listener) { l.SessionStarted(s) })
}

// ConnectionLost has nothing to end: the lease decides.
func (m *listener) ConnectionLost(s *zkio.Session, cause error) {
	m.feed.session(s, Event{Kind: EventConnectionLost, Err: cause})
	m.listeners.each(func(l zkio.Listener) { l.ConnectionLost(s, cause) })
}

// ConnectionResumed has nothing to do but to tell.
func (m *listener) ConnectionResumed(s *zkio.Session, after time.Duration) {
	m.feed.session(s, Event{Kind: EventConnectionResumed, Waited: after})
	m.listeners.each(func(l zkio.Listener) { l.ConnectionResumed(s, after) })
}

// ProcessPaused has nothing to do but to tell: what the pause has cost is told by itself.
func (m *listener) ProcessPaused(lasted time.Duration) {
	m.feed.session(m.listeners.session, Event{Kind: EventPaused, Paused: lasted})
	m.listeners.each(func(l zkio.Listener) { l.ProcessPaused(lasted) })
}

// LeaseLapsed ends the rounds that were granted under the lease. A granter that
// is between its CAS and its own look at the lease finds it lapsed.
func (m *listener) LeaseLapsed(l *zkio.Lease) {
	for _, t := range m.active.list() {
		if t.round.word.Load().Phase() == state.Retained && t.tenure.lease == l {
			//holdfast:reached hold: the lease ended
			t.round.fail(t.round.lost("hold", leaseOver))
		}
	}
	m.listeners.each(func(other zkio.Listener) { other.LeaseLapsed(l) })
}

// SessionOver ends the rounds that were granted in the session, and wakes the
// others: those that wait queue again, and those that are being released find
// their nodes gone.
//
// It is also called for a session that never began because the servers refused
// the credentials. Waiters then fail with that: the client goes on trying, but
// the credentials have to be mended by hand.
func (m *listener) SessionOver(s *zkio.Session, cause error) {
	if s == m.listeners.session {
		m.feed.session(s, Event{Kind: EventSessionOver, Err: cause, Paused: s.Paused()})
		m.listeners.session = nil
	}
	if errors.Is(cause, zkio.ErrAuthFailed) {
		(*Manager)(m).eachShare(func(s *share) { s.failPending(s.error("acquire", cause)) })
	}
	m.observers.sessionOver(cause)
	for _, t := range m.active.list() {
		switch {
		case t.round.word.Load().Phase() == state.Retained && t.tenure.lease.Lapsed():
			t.round.fail(t.round.lost("hold", leaseOver)) // LeaseLapsed has done so before; to be sure
		case t.position.Load() != nil:
			t.wakeLater() // it has waited, and goes on waiting
		default:
			t.wake()
		}
	}
	(*Manager)(m).wakeInquiries()
	m.listeners.each(func(l zkio.Listener) { l.SessionOver(s, cause) })
}
