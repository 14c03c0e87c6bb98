// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A chronicle is an observer that keeps the events of a manager. Each manager that a
// cluster opens has one, and the end of the test checks it.
type chronicle struct {
	mu     sync.Mutex
	events []Event
	marked int // how many events there were at the last mark
}

func (c *chronicle) add(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// all returns the events so far.
func (c *chronicle) all() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// mark has lines begin with the next event.
func (c *chronicle) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked = len(c.events)
}

// lines returns the events since the mark, each in a few words: those of locks, and then
// those of sessions.
func (c *chronicle) lines() []string {
	var locks, sessions []string
	for _, e := range c.all()[c.marked:] {
		if e.Lock != "" {
			locks = append(locks, inWords(e))
		} else {
			sessions = append(sessions, inWords(e))
		}
	}
	return append(locks, sessions...)
}

// inWords says what an event tells.
func inWords(e Event) string {
	words := []string{e.Kind.String()}
	add := func(when bool, format string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(e.Position > 0, "%d", e.Position)
	if e.Ahead != nil {
		add(true, "behind %s", cmp.Or(e.Ahead.Label, e.Ahead.Path))
	}
	if e.From != nil {
		add(true, "by %s", e.From.Label)
	}
	add(e.Reason != "", "%q", e.Reason)
	switch e.Kind {
	case EventGranted, EventFailed, EventConnectionResumed:
		add(true, "after %v", e.Waited.Truncate(time.Second)) // a reconnect takes a random time
	case EventReleased, EventLost:
		add(true, "held %v", e.Held.Truncate(time.Second))
	}
	add(e.Err != nil, "(%s)", e.Cause())
	return strings.Join(words, " ")
}

// unobserved is an option of open, for a test that measures memory, or makes a round do what
// no round does.
func unobserved(cfg *Config) { cfg.Observer = nil }

// check checks that the events of a manager, which is closed, make sense: those of each
// round, and those of its sessions.
func (c *chronicle) check(t *testing.T, m *Manager) {
	t.Helper()
	if m.Stats().DroppedEvents > 0 || len(c.all()) == 0 {
		return // there are gaps, or the test has an observer of its own
	}
	rounds := make(map[uint64][]Event)
	var sessions []Event
	var grants, losses, failures uint64
	for _, e := range c.all() {
		switch e.Kind {
		case EventGranted:
			grants++
		case EventLost:
			losses++
		case EventFailed:
			failures++
		}
		if e.Lock == "" {
			sessions = append(sessions, e)
		} else {
			rounds[e.Round] = append(rounds[e.Round], e)
		}
	}
	m.feed.mu.Lock()
	begun := m.feed.rounds - m.feed.mergedRounds // those have no events
	m.feed.mu.Unlock()
	if n := uint64(len(rounds)); n != begun {
		t.Errorf("%s: %d rounds have events, and %d have begun", m.cfg.Label, n, begun)
	}
	if st := m.Stats(); st.Grants != grants || st.Losses != losses || st.Failures != failures {
		t.Errorf("%s: events tell of %d grants, %d losses and %d failures; counted %d, %d and %d",
			m.cfg.Label, grants, losses, failures, st.Grants, st.Losses, st.Failures)
	}
	for n, events := range rounds {
		if wrong := wrongInRound(events); wrong != "" {
			t.Errorf("%s: round %d of %s: %s:\n%s", m.cfg.Label, n, events[0].Lock, wrong, table(events))
		}
	}
	if wrong := wrongInSessions(sessions); wrong != "" {
		t.Errorf("%s: sessions: %s:\n%s", m.cfg.Label, wrong, table(sessions))
	}
}

// table prints events.
func table(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\t%s  %s\n", e.Time.Format("15:04:05.000000"), inWords(e))
	}
	return b.String()
}

// A complaint is the first thing that is wrong with events; "" if they are right.
type complaint string

func (c *complaint) when(wrong bool, what complaint) {
	if wrong && *c == "" {
		*c = what
	}
}

// wrongInRound returns what is wrong with the events of a round that is over; "" if they
// are right.
func wrongInRound(events []Event) (wrong complaint) {
	var granted, over bool
	var told [len(eventKinds)]bool // of the kinds that come once
	var last Event
	for i, e := range events {
		wrong.when(over, "an event after the end")
		wrong.when(i > 0 && (e.Lock != last.Lock || e.LockKind != last.LockKind), "events of two locks")
		wrong.when(e.Time.Before(last.Time) || e.Held < last.Held, "time goes back")
		wrong.when(e.Waited < last.Waited && last.Kind != EventRevoked, // which can overtake the grant
			"the wait gets shorter")
		wrong.when(granted && (e.Waited != last.Waited || e.Token != last.Token || e.Session != last.Session),
			"the grant has changed")
		switch e.Kind {
		case EventQueued, EventPlaced:
			wrong.when(granted, "it waits although it was granted")
		case EventGranted:
			wrong.when(granted, "granted twice")
			wrong.when(e.Token == 0 || e.Session == 0, "a grant without a token or a session")
			granted = true
		case EventReleased, EventLost:
			wrong.when(!granted, "it ends as if it had been granted")
			wrong.when(e.Kind == EventLost && e.Err == nil, "a loss without a cause")
			over = true
		case EventFailed:
			wrong.when(granted || e.Err == nil, "failed after a grant, or without a cause")
			over = true
		case EventRevoked:
		default:
			wrong.when(e.Lock == "", "an event of the session")
			wrong.when(!granted || told[e.Kind], "it comes before the grant, or twice")
			told[e.Kind] = true
		}
		wrong.when(!granted && (e.Token != 0 || e.Session != 0 || e.Held != 0), "it holds the lock before the grant")
		last = e
	}
	wrong.when(!over, "it has no end")
	return wrong
}

// wrongInSessions returns what is wrong with the events of a manager's sessions; "" if they
// are right. The manager is closed.
func wrongInSessions(events []Event) (wrong complaint) {
	session, lost := int64(0), false
	for _, e := range events {
		wrong.when(e.Kind != EventSessionBegan && e.Session != session, "an event of another session")
		switch e.Kind {
		case EventSessionBegan:
			wrong.when(session != 0, "a session begins before the last one is over")
			session, lost = e.Session, false
		case EventConnectionLost:
			wrong.when(lost || e.Err == nil, "a connection is lost twice, or without a cause")
			lost = true
		case EventConnectionResumed:
			wrong.when(!lost, "a connection is back that was not lost")
			lost = false
		case EventSessionOver:
			wrong.when(e.Err == nil, "a session ends without a cause")
			session = 0
		case EventPaused:
			wrong.when(e.Paused <= 0, "the process paused for no time")
		default:
			wrong.when(true, "an event of a lock, without its name")
		}
	}
	wrong.when(session != 0, "the last session does not end")
	return wrong
}
