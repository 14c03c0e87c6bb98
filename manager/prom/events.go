// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/manager"
)

// eventMetrics are the metrics that are made of events.
type eventMetrics struct {
	groups *groups

	waits, holds *prometheus.HistogramVec // by kind and outcome

	losses, failures, unconfirmed *prometheus.CounterVec // by cause
	yields, revocations           *prometheus.CounterVec

	connectionLosses prometheus.Counter
	outages          prometheus.Histogram
}

// The causes that are counted from zero on, since Prometheus does not see the first
// increase of a counter that appears with it. See [manager.Event.Cause].
var (
	causesOfLoss    = []string{"paused", "lease", "session", "deleted", "closed", "other"}
	causesOfFailure = []string{"context", "closed", "refused", "other"}
)

func newEventMetrics(cfg Config) *eventMetrics {
	m := &eventMetrics{}
	m.groups = newGroups(cfg, m.begin)
	g := m.groups
	durations := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help,
			Buckets:                         prometheus.ExponentialBuckets(0.0005, 4, 12), // 0.5 ms to 35 min
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, g.names(labels...))
	}
	m.waits = prometheus.NewHistogramVec(durations("wait_seconds",
		"Time from the request of this process's first caller until the lock was granted, or until the wait failed."), g.names("kind", "outcome"))
	m.holds = prometheus.NewHistogramVec(durations("hold_seconds",
		"Time from the grant of a lock until this process gave it up, or lost it."), g.names("kind", "outcome"))
	m.losses = counter("losses_total",
		"Locks that this process owned and lost without having given them up.", "cause")
	m.failures = counter("failures_total",
		"Waits that ended without a grant.", "cause")
	m.unconfirmed = counter("unconfirmed_releases_total",
		"Locks that this process gave up without a confirmation by ZooKeeper.", "cause")
	m.yields = counter("yields_total",
		"Times that newcomers of this process were sent behind other processes.")
	m.revocations = counter("revocations_total",
		"Times that another process asked this one to give a lock up.")
	m.connectionLosses = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "connection_losses_total",
		Help: "Times that the session lost its connection to ZooKeeper.",
	})
	m.outages = prometheus.NewHistogram(durations("outage_seconds",
		"Time for which the session had no connection to ZooKeeper, observed when it has one again."))
	if cfg.Group == nil {
		m.begin("")
	}
	return m
}

// all returns the metrics.
func (m *eventMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.waits, m.holds, m.losses, m.failures, m.unconfirmed,
		m.yields, m.revocations, m.connectionLosses, m.outages}
}

func (m *eventMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

func (m *eventMetrics) collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

// begin makes the counters of a group begin at zero.
func (m *eventMetrics) begin(group string) {
	for _, cause := range causesOfLoss {
		m.losses.WithLabelValues(m.groups.values(group, cause)...)
	}
	for _, cause := range causesOfFailure {
		m.failures.WithLabelValues(m.groups.values(group, cause)...)
	}
	m.yields.WithLabelValues(m.groups.values(group)...)
	m.revocations.WithLabelValues(m.groups.values(group)...)
}

func (m *eventMetrics) observe(e manager.Event) {
	switch e.Kind {
	case manager.EventConnectionLost:
		m.connectionLosses.Inc()
		return
	case manager.EventConnectionResumed:
		m.outages.Observe(e.Waited.Seconds())
		return
	}
	if e.Lock == "" {
		return // another event of the session
	}
	group := m.groups.group(e.Lock)
	count := func(c *prometheus.CounterVec, labels ...string) {
		c.WithLabelValues(m.groups.values(group, labels...)...).Inc()
	}
	measure := func(h *prometheus.HistogramVec, outcome string, d time.Duration) {
		h.WithLabelValues(m.groups.values(group, e.LockKind.String(), outcome)...).Observe(d.Seconds())
	}
	switch e.Kind {
	case manager.EventGranted:
		measure(m.waits, "granted", e.Waited)
	case manager.EventFailed:
		measure(m.waits, "failed", e.Waited)
		count(m.failures, e.Cause())
	case manager.EventReleased:
		measure(m.holds, "released", e.Held)
		if e.Err != nil {
			count(m.unconfirmed, e.Cause())
		}
	case manager.EventLost:
		measure(m.holds, "lost", e.Held)
		count(m.losses, e.Cause())
	case manager.EventYielded:
		count(m.yields)
	case manager.EventRevoked:
		count(m.revocations)
	}
}
