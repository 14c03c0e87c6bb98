// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A managerMetric is read from a Manager's Stats.
type managerMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(s *manager.ManagerStats) float64
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

var managerMetrics = []managerMetric{
	{"existing_locks", "Locks that exist in this process: busy or referenced.", gauge,
		func(s *manager.ManagerStats) float64 { return float64(s.Locks) }},
	{"session_timeout_seconds", "Timeout of the ZooKeeper session, as the servers granted it.", gauge,
		func(s *manager.ManagerStats) float64 { return s.Timeout.Seconds() }},
	{"lease_remaining_seconds", "How much longer locks are surely held without another answer of ZooKeeper.", gauge,
		func(s *manager.ManagerStats) float64 { return s.Lease.Seconds() }},
	{"sessions_total", "ZooKeeper sessions begun.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Sessions) }},
	{"reconnects_total", "Times that a session was resumed on another connection.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Reconnects) }},
	{"pauses_total", "Times that this process did not run for a second or more: it was stopped or suspended, or got no processor.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Pauses) }},
	{"paused_seconds_total", "For how long this process did not run, all of its pauses together.", counter,
		func(s *manager.ManagerStats) float64 { return s.Paused.Seconds() }},
	{"answers_total", "Requests that ZooKeeper has answered.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Answers) }},
	{"watch_events_total", "Watch events received from ZooKeeper.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.WatchEvents) }},
	{"queued_tasks", "Tasks that wait for a worker.", gauge,
		func(s *manager.ManagerStats) float64 { return float64(s.Queued) }},
	{"busy_workers", "Workers at work.", gauge,
		func(s *manager.ManagerStats) float64 { return float64(s.Busy) }},
	{"workers", "Workers that there can be.", gauge,
		func(s *manager.ManagerStats) float64 { return float64(s.Workers) }},
	{"grants_total", "Locks granted to this process.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Grants) }},
	{"takeovers_total", "Locks granted to this process because another one was killed, whose session its helper has closed.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.Takeovers) }},
	{"sentinel_missing", "1 if the sentinel of this process has no helper: if the process is killed, its locks stay until the session times out; else 0, also without a sentinel.", gauge,
		func(s *manager.ManagerStats) float64 {
			if s.SentinelErr != nil {
				return 1
			}
			return 0
		}},
	{"dropped_events_total", "Events that the observer was not told because too many waited; the metrics made of events miss them.", counter,
		func(s *manager.ManagerStats) float64 { return float64(s.DroppedEvents) }},
}

// A lockMetric is a gauge of the locks of one kind and group.
type lockMetric struct {
	name, help string
	value      func(t *tally) float64
}

var lockMetrics = []lockMetric{
	{"holders", "Callers in this process that hold a lock.",
		func(t *tally) float64 { return float64(t.holders) }},
	{"waiters", "Callers in this process that wait for a lock.",
		func(t *tally) float64 { return float64(t.waiters) }},
	{"contended_locks", "Locks that this process holds while another contender is known to wait.",
		func(t *tally) float64 { return float64(t.contended) }},
	{"yielding_locks", "Locks that this process holds and that newcomers may not enter.",
		func(t *tally) float64 { return float64(t.yielding) }},
	{"revoked_locks", "Locks that this process holds and that another process has asked for.",
		func(t *tally) float64 { return float64(t.revoked) }},
	{"oldest_wait_seconds", "How long the longest wait under way has lasted; 0 if there is none.",
		func(t *tally) float64 { return t.oldestWait.Seconds() }},
	{"oldest_hold_seconds", "How long the lock has been held that this process has held longest; 0 if it holds none.",
		func(t *tally) float64 { return t.oldestHold.Seconds() }},
	{"oldest_contended_hold_seconds", "The same of locks for which another contender is known to wait.",
		func(t *tally) float64 { return t.oldestContended.Seconds() }},
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
var kinds = []string{
	manager.KindExclusive.String(), manager.KindRead.String(), manager.KindWrite.String(),
	manager.KindUpgradable.String(), manager.KindMutex.String(),
}

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

// A series is the labels that all metrics of locks have.
type series struct{ kind, group string }

// A scrape makes the metrics that are read from a Manager.
type scrape struct {
	groups       *groups
	managerDescs []*prometheus.Desc // of managerMetrics
	lockDescs    []*prometheus.Desc // of lockMetrics
	session      *prometheus.Desc
	requests     *prometheus.Desc
	locks        *prometheus.Desc
	lostRaces    *prometheus.Desc
	longestRace  *prometheus.Desc

	// mu protects what follows. It is held while a Manager is asked, so that one scrape
	// does not count the races of another again.
	mu    sync.Mutex
	known map[series]bool // those that there have been: none ends before the process
	races races
}

func newScrape(g *groups) *scrape {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	s := &scrape{
		groups:      g,
		session:     desc("session_state", "1 for the state that the ZooKeeper session is in, and 0 for the others.", "state"),
		requests:    desc("requests_total", "Requests sent to ZooKeeper.", "operation"),
		locks:       desc("locks", "Locks that this process waits for, holds or gives up.", g.names("kind", "phase")...),
		lostRaces:   desc("lost_races_total", "Compare-and-swaps on locks' words that failed because another goroutine was first."),
		longestRace: desc("longest_race", "The largest number of them that one operation lost in a row, of the locks that exist."),
		known:       map[series]bool{},
	}
	for _, m := range managerMetrics {
		s.managerDescs = append(s.managerDescs, desc(m.name, m.help))
	}
	for _, m := range lockMetrics {
		s.lockDescs = append(s.lockDescs, desc(m.name, m.help, g.names("kind")...))
	}
	if g.of == nil {
		for _, kind := range kinds {
			s.known[series{kind: kind}] = true
		}
	}
	return s
}

func (s *scrape) describe(ch chan<- *prometheus.Desc) {
	others := []*prometheus.Desc{s.session, s.requests, s.locks, s.lostRaces, s.longestRace}
	for _, d := range slices.Concat(s.managerDescs, s.lockDescs, others) {
		ch <- d
	}
}

// metrics returns the metrics of a Manager with this state and these locks.
func (s *scrape) metrics(stats manager.ManagerStats, locks iter.Seq[manager.LockInfo]) (metrics []prometheus.Metric) {
	add := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics = append(metrics, prometheus.MustNewConstMetric(d, kind, value, labels...))
	}
	for i, m := range managerMetrics {
		add(s.managerDescs[i], m.kind, m.value(&stats))
	}
	for _, name := range states {
		is := 0.0
		if name == stateOf(&stats) {
			is = 1
		}
		add(s.session, gauge, is, name)
	}
	for operation, n := range stats.Requests {
		add(s.requests, counter, float64(n), operation)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	tallies := map[series]*tally{}
	for of := range s.known {
		tallies[of] = &tally{}
	}
	now := time.Now()
	s.races.begin()
	for l := range locks {
		s.races.add(&l)
		if l.Stats.Phase == state.Free || l.Stats.Phase == state.Released {
			continue
		}
		group := s.groups.group(l.Name)
		of := series{l.Kind.String(), group}
		if tallies[of] == nil {
			tallies[of] = &tally{}
			s.known[of] = true
		}
		tallies[of].add(&l, now)
	}
	s.races.end()
	for of, t := range tallies {
		for _, p := range phases {
			add(s.locks, gauge, float64(t.phases[p.phase]), s.groups.values(of.group, of.kind, p.label)...)
		}
		for i, m := range lockMetrics {
			add(s.lockDescs[i], gauge, m.value(t), s.groups.values(of.group, of.kind)...)
		}
	}
	add(s.lostRaces, counter, float64(s.races.total))
	add(s.longestRace, gauge, float64(s.races.longest))
	return metrics
}
