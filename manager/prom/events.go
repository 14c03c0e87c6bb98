// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/manager/internal/vitals"
)

// eventMetrics are the metrics that are made of events.
type eventMetrics struct {
	counters   map[*vitals.Metric]*prometheus.CounterVec
	histograms map[*vitals.Metric]*prometheus.HistogramVec
}

func newEventMetrics(cfg vitals.Config) *eventMetrics {
	e := &eventMetrics{map[*vitals.Metric]*prometheus.CounterVec{}, map[*vitals.Metric]*prometheus.HistogramVec{}}
	for _, m := range vitals.OfEvents() {
		names := cfg.Labels(m)
		if m.Kind == vitals.Counter {
			e.counters[m] = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: m.Name, Help: m.Help}, names)
			continue
		}
		e.histograms[m] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: m.Name, Help: m.Help,
			Buckets:                         vitals.Buckets(),
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}, names)
		if len(names) == 0 {
			e.histograms[m].WithLabelValues() // there from the beginning
		}
	}
	return e
}

// add is a [vitals.Sink].
func (e *eventMetrics) add(m *vitals.Metric, value float64, l vitals.Labels) {
	if m.Kind == vitals.Counter {
		e.counters[m].WithLabelValues(l.Values()...).Add(value)
	} else {
		e.histograms[m].WithLabelValues(l.Values()...).Observe(value)
	}
}

func (e *eventMetrics) describe(ch chan<- *prometheus.Desc) {
	for _, c := range e.counters {
		c.Describe(ch)
	}
	for _, h := range e.histograms {
		h.Describe(ch)
	}
}

func (e *eventMetrics) collect(ch chan<- prometheus.Metric) {
	for _, c := range e.counters {
		c.Collect(ch)
	}
	for _, h := range e.histograms {
		h.Collect(ch)
	}
}
