// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// managerMetrics are read from a Manager's Stats.
var managerMetrics = []*Metric{
	{Name: "existing_locks", Unit: "{lock}", Help: "Locks that exist in this process: busy or referenced.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Locks) }},
	{Name: "session_timeout_seconds", Unit: "s", Help: "Timeout of the ZooKeeper session, as the servers granted it.",
		stat: func(s *manager.ManagerStats) float64 { return s.Timeout.Seconds() }},
	{Name: "lease_remaining_seconds", Unit: "s", Help: "How much longer locks are surely held without another answer of ZooKeeper.",
		stat: func(s *manager.ManagerStats) float64 { return s.Lease.Seconds() }},
	{Name: "sessions_total", Kind: Counter, Unit: "{session}", Help: "ZooKeeper sessions begun.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Sessions) }},
	{Name: "reconnects_total", Kind: Counter, Unit: "{connection}", Help: "Times that a session was resumed on another connection.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Reconnects) }},
	{Name: "pauses_total", Kind: Counter, Unit: "{time}", Help: "Times that this process did not run for a second or more: it was stopped or suspended, or got no processor.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Pauses) }},
	{Name: "paused_seconds_total", Kind: Counter, Unit: "s", Help: "For how long this process did not run, all of its pauses together.",
		stat: func(s *manager.ManagerStats) float64 { return s.Paused.Seconds() }},
	{Name: "answers_total", Kind: Counter, Unit: "{answer}", Help: "Requests that ZooKeeper has answered.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Answers) }},
	{Name: "watch_events_total", Kind: Counter, Unit: "{event}", Help: "Watch events received from ZooKeeper.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.WatchEvents) }},
	{Name: "queued_tasks", Unit: "{task}", Help: "Tasks that wait for a worker.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Queued) }},
	{Name: "busy_workers", Unit: "{worker}", Help: "Workers at work.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Busy) }},
	{Name: "workers", Unit: "{worker}", Help: "Workers that there can be.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Workers) }},
	{Name: "grants_total", Kind: Counter, Unit: "{lock}", Help: "Locks granted to this process.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Grants) }},
	{Name: "takeovers_total", Kind: Counter, Unit: "{lock}", Help: "Locks granted to this process because another one was killed, whose session its helper has closed.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.Takeovers) }},
	{Name: "sentinel_missing", Help: "1 if the sentinel of this process has no helper: if the process is killed, its locks stay until the session times out; else 0, also without a sentinel.",
		stat: func(s *manager.ManagerStats) float64 {
			if s.SentinelErr != nil {
				return 1
			}
			return 0
		}},
	{Name: "dropped_events_total", Kind: Counter, Unit: "{event}", Help: "Events that the observer was not told because too many waited; the metrics made of events miss them.",
		stat: func(s *manager.ManagerStats) float64 { return float64(s.DroppedEvents) }},
}

// lockMetrics are read from the locks of one kind and group.
var lockMetrics = []*Metric{
	{Name: "holders", Unit: "{caller}", labels: []string{"kind"}, ofLock: true, Help: "Callers in this process that hold a lock.",
		sum: func(t *tally) float64 { return float64(t.holders) }},
	{Name: "waiters", Unit: "{caller}", labels: []string{"kind"}, ofLock: true, Help: "Callers in this process that wait for a lock.",
		sum: func(t *tally) float64 { return float64(t.waiters) }},
	{Name: "contended_locks", Unit: "{lock}", labels: []string{"kind"}, ofLock: true, Help: "Locks that this process holds while another contender is known to wait.",
		sum: func(t *tally) float64 { return float64(t.contended) }},
	{Name: "yielding_locks", Unit: "{lock}", labels: []string{"kind"}, ofLock: true, Help: "Locks that this process holds and that newcomers may not enter.",
		sum: func(t *tally) float64 { return float64(t.yielding) }},
	{Name: "revoked_locks", Unit: "{lock}", labels: []string{"kind"}, ofLock: true, Help: "Locks that this process holds and that another process has asked for.",
		sum: func(t *tally) float64 { return float64(t.revoked) }},
	{Name: "oldest_wait_seconds", Unit: "s", labels: []string{"kind"}, ofLock: true, Help: "How long the longest wait under way has lasted; 0 if there is none.",
		sum: func(t *tally) float64 { return t.oldestWait.Seconds() }},
	{Name: "oldest_hold_seconds", Unit: "s", labels: []string{"kind"}, ofLock: true, Help: "How long the lock has been held that this process has held longest; 0 if it holds none.",
		sum: func(t *tally) float64 { return t.oldestHold.Seconds() }},
	{Name: "oldest_contended_hold_seconds", Unit: "s", labels: []string{"kind"}, ofLock: true, Help: "The same of locks for which another contender is known to wait.",
		sum: func(t *tally) float64 { return t.oldestContended.Seconds() }},
}

// The metrics that are made in another way.
var (
	sessionState = &Metric{Name: "session_state", labels: []string{"state"},
		Help: "1 for the state that the ZooKeeper session is in, and 0 for the others."}
	requests = &Metric{Name: "requests_total", Kind: Counter, Unit: "{request}", labels: []string{"operation"},
		Help: "Requests sent to ZooKeeper."}
	locksInPhase = &Metric{Name: "locks", Unit: "{lock}", labels: []string{"kind", "phase"}, ofLock: true,
		Help: "Locks that this process waits for, holds or gives up."}
	lostRaces = &Metric{Name: "lost_races_total", Kind: Counter, Unit: "{race}",
		Help: "Compare-and-swaps on locks' words that failed because another goroutine was first."}
	longestRace = &Metric{Name: "longest_race", Unit: "{race}",
		Help: "The largest number of them that one operation lost in a row, of the locks that exist."}
)

// OfState returns the metrics that are read from a Manager.
func OfState() []*Metric {
	return slices.Concat(managerMetrics, lockMetrics, []*Metric{sessionState, requests, locksInPhase, lostRaces, longestRace})
}

// phases are the phases in which a lock is counted, and the values of the label "phase".
var phases = []struct {
	phase state.Phase
	label string
}{
	{state.Fetching, "waiting"},
	{state.Retained, "held"},
	{state.Releasing, "releasing"},
}

// kinds are the values of the label "kind".
var kinds = func() (names []string) {
	for kind := manager.KindExclusive; kind.String() != "unknown"; kind++ {
		names = append(names, kind.String())
	}
	return append(names, manager.KindMutex.String())
}()

// states are the values of the label "state" of the session.
var states = []string{"connected", "disconnected", "none"}

func stateOf(s *manager.ManagerStats) string {
	switch {
	case s.Session == 0:
		return "none"
	case s.Connected:
		return "connected"
	}
	return "disconnected"
}

// A tally counts the locks of one kind and group.
type tally struct {
	phases                                  [state.Released + 1]int
	holders, waiters                        int
	contended, yielding, revoked            int
	oldestWait, oldestHold, oldestContended time.Duration
}

// add counts a lock, as it is at the time now.
func (t *tally) add(l *manager.LockInfo, now time.Time) {
	t.phases[l.Stats.Phase]++
	var age time.Duration
	if !l.Since.IsZero() {
		age = now.Sub(l.Since)
	}
	switch l.Stats.Phase {
	case state.Fetching:
		t.waiters += l.Stats.Holders
		t.oldestWait = max(t.oldestWait, age)
	case state.Retained:
		t.holders += l.Stats.Holders
		t.oldestHold = max(t.oldestHold, age)
		if l.Contended {
			t.contended++
			t.oldestContended = max(t.oldestContended, age)
		}
		if l.Yielding {
			t.yielding++
		}
		if l.Revocation != nil {
			t.revoked++
		}
	}
}
