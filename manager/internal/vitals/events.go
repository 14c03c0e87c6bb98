// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"github.com/holdfast-go/holdfast/manager"
)

// The metrics that are made of events.
var (
	waits = &Metric{Name: "wait_seconds", Kind: Histogram, Unit: "s", ofLock: true, labels: []string{"kind", "outcome"},
		Help: "Time from the request of this process's first caller until the lock was granted, or until the wait failed."}
	holds = &Metric{Name: "hold_seconds", Kind: Histogram, Unit: "s", ofLock: true, labels: []string{"kind", "outcome"},
		Help: "Time from the grant of a lock until this process gave it up, or lost it."}
	losses = &Metric{Name: "losses_total", Kind: Counter, Unit: "{lock}", ofLock: true, labels: []string{"cause"},
		Help: "Locks that this process owned and lost without having given them up."}
	failures = &Metric{Name: "failures_total", Kind: Counter, Unit: "{wait}", ofLock: true, labels: []string{"cause"},
		Help: "Waits that ended without a grant."}
	unconfirmed = &Metric{Name: "unconfirmed_releases_total", Kind: Counter, Unit: "{lock}", ofLock: true, labels: []string{"cause"},
		Help: "Locks that this process gave up without a confirmation by ZooKeeper."}
	yields = &Metric{Name: "yields_total", Kind: Counter, Unit: "{time}", ofLock: true,
		Help: "Times that newcomers of this process were sent behind other processes."}
	revocations = &Metric{Name: "revocations_total", Kind: Counter, Unit: "{time}", ofLock: true,
		Help: "Times that another process asked this one to give a lock up."}
	connectionLosses = &Metric{Name: "connection_losses_total", Kind: Counter, Unit: "{connection}",
		Help: "Times that the session lost its connection to ZooKeeper."}
	outages = &Metric{Name: "outage_seconds", Kind: Histogram, Unit: "s",
		Help: "Time for which the session had no connection to ZooKeeper, observed when it has one again."}
)

// OfEvents returns the metrics that are made of events.
func OfEvents() []*Metric {
	return []*Metric{waits, holds, losses, failures, unconfirmed, yields, revocations, connectionLosses, outages}
}

// Buckets returns the upper bounds of a classic histogram's buckets: 0.5 ms to 35 min.
func Buckets() []float64 {
	bounds := make([]float64, 12)
	for i, bound := 0, 0.0005; i < len(bounds); i, bound = i+1, bound*4 {
		bounds[i] = bound
	}
	return bounds
}

// The causes that are counted from zero on, since Prometheus does not see the first
// increase of a counter that appears with it. See [manager.Event.Cause].
var (
	causesOfLoss    = []string{"paused", "lease", "session", "deleted", "closed", "other"}
	causesOfFailure = []string{"context", "closed", "refused", "other"}
)

// begin makes the counters of a group begin at zero.
func (s *Source) begin(group string) {
	for _, cause := range causesOfLoss {
		s.events(losses, 0, s.groups.with(labels(cause), group))
	}
	for _, cause := range causesOfFailure {
		s.events(failures, 0, s.groups.with(labels(cause), group))
	}
	s.events(yields, 0, s.groups.with(labels(), group))
	s.events(revocations, 0, s.groups.with(labels(), group))
}

// Observe passes on what an event adds to metrics. It may be called concurrently.
func (s *Source) Observe(e manager.Event) {
	switch e.Kind {
	case manager.EventConnectionLost:
		s.events(connectionLosses, 1, labels())
		return
	case manager.EventConnectionResumed:
		s.events(outages, e.Waited.Seconds(), labels())
		return
	}
	if e.Lock == "" {
		return // another event of the session
	}
	group := s.groups.group(e.Lock)
	add := func(m *Metric, value float64, l Labels) { s.events(m, value, s.groups.with(l, group)) }
	kind := e.LockKind.String()
	switch e.Kind {
	case manager.EventGranted:
		add(waits, e.Waited.Seconds(), labels(kind, "granted"))
	case manager.EventFailed:
		add(waits, e.Waited.Seconds(), labels(kind, "failed"))
		add(failures, 1, labels(e.Cause()))
	case manager.EventReleased:
		add(holds, e.Held.Seconds(), labels(kind, "released"))
		if e.Err != nil {
			add(unconfirmed, 1, labels(e.Cause()))
		}
	case manager.EventLost:
		add(holds, e.Held.Seconds(), labels(kind, "lost"))
		add(losses, 1, labels(e.Cause()))
	case manager.EventYielded:
		add(yields, 1, labels())
	case manager.EventRevoked:
		add(revocations, 1, labels())
	}
}
