// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/internal/vitals"
)

// A Config says how metrics are labelled. The zero value works.
type Config struct {
	// Group maps the name of a lock to the value of the label "group", which all metrics
	// of locks have then; see [FirstSegment]. It must be quick, must not block, and is
	// called concurrently.
	// Defaults to none: metrics have no label "group".
	Group func(lock string) string

	// MaxGroups is the largest number of groups. The locks of further ones are counted
	// in the group "other".
	// Defaults to 100.
	MaxGroups int
}

// FirstSegment returns the first segment of a lock's name, for use as Config.Group: the
// group of "jobs/nightly" is "jobs".
func FirstSegment(lock string) string { return vitals.FirstSegment(lock) }

// A Collector is a [prometheus.Collector] with the metrics of one Manager. All methods
// may be called concurrently.
type Collector struct {
	source *vitals.Source
	events *eventMetrics
	scrape *scrape
	m      atomic.Pointer[manager.Manager] // nil until Manage
}

// New returns a Collector, to be registered with a [prometheus.Registerer].
func New(cfg Config) *Collector {
	of := vitals.Config(cfg)
	events := newEventMetrics(of)
	source := vitals.New(of, events.add)
	return &Collector{source: source, events: events, scrape: newScrape(of, source)}
}

// Observe counts an event. It is meant for the Observer in [manager.Config], and does not
// block.
func (c *Collector) Observe(e manager.Event) { c.source.Observe(e) }

// Manage names the Manager whose state is read at each scrape. Until it is called, there
// are only the metrics that come from events.
func (c *Collector) Manage(m *manager.Manager) { c.m.Store(m) }

// Describe sends the descriptions of all metrics, as [prometheus.Collector] asks.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	c.events.describe(ch)
	c.scrape.describe(ch)
}

// Collect sends the present metrics, as [prometheus.Collector] asks. It does no I/O. It
// takes longer the more locks the process has: some milliseconds for 10,000.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.events.collect(ch)
	if m := c.m.Load(); m != nil {
		for _, metric := range c.scrape.metrics(m.Stats(), m.Locks(true)) {
			ch <- metric
		}
	}
}

// namespace begins the name of each metric.
const namespace = "holdfast"
