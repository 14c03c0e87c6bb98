// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A series is the labels that all metrics of locks have.
type series struct{ kind, group string }

// A Source has the values of one Manager's metrics.
type Source struct {
	groups *groups
	events Sink

	// mu protects what follows. It is held while a Manager is asked, so that one
	// collection does not count the races of another again.
	mu    sync.Mutex
	known map[series]bool // those that there have been: none ends before the process
	races races
}

// New returns a Source. It passes what events add to the metrics of [OfEvents] to the Sink,
// which is called concurrently, and at once for the counters that begin at zero.
func New(cfg Config, events Sink) *Source {
	s := &Source{events: events, known: map[series]bool{}}
	s.groups = newGroups(cfg, s.begin)
	events(connectionLosses, 0, labels())
	if cfg.Group == nil {
		s.begin("")
		for _, kind := range kinds {
			s.known[series{kind: kind}] = true
		}
	}
	return s
}

// Collect passes the values of the metrics of [OfState] to the Sink: those of a Manager
// with this state and these locks. It may be called concurrently.
func (s *Source) Collect(stats manager.ManagerStats, locks iter.Seq[manager.LockInfo], sink Sink) {
	for _, m := range managerMetrics {
		sink(m, m.stat(&stats), labels())
	}
	for _, name := range states {
		is := 0.0
		if name == stateOf(&stats) {
			is = 1
		}
		sink(sessionState, is, labels(name))
	}
	for operation, n := range stats.Requests {
		sink(requests, float64(n), labels(operation))
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
			sink(locksInPhase, float64(t.phases[p.phase]), s.groups.with(labels(of.kind, p.label), of.group))
		}
		for _, m := range lockMetrics {
			sink(m, m.sum(t), s.groups.with(labels(of.kind), of.group))
		}
	}
	sink(lostRaces, float64(s.races.total), labels())
	sink(longestRace, float64(s.races.longest), labels())
}
