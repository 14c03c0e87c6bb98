// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/internal/vitals"
)

// A scrape makes the metrics that are read from a Manager.
type scrape struct {
	source *vitals.Source
	descs  map[*vitals.Metric]*prometheus.Desc
}

func newScrape(cfg vitals.Config, source *vitals.Source) *scrape {
	s := &scrape{source, map[*vitals.Metric]*prometheus.Desc{}}
	for _, m := range vitals.OfState() {
		s.descs[m] = prometheus.NewDesc(prometheus.BuildFQName(namespace, "", m.Name), m.Help, cfg.Labels(m), nil)
	}
	return s
}

func (s *scrape) describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// metrics returns the metrics of a Manager with this state and these locks.
func (s *scrape) metrics(stats manager.ManagerStats, locks iter.Seq[manager.LockInfo]) (metrics []prometheus.Metric) {
	s.source.Collect(stats, locks, func(m *vitals.Metric, value float64, l vitals.Labels) {
		kind := prometheus.GaugeValue
		if m.Kind == vitals.Counter {
			kind = prometheus.CounterValue
		}
		metrics = append(metrics, prometheus.MustNewConstMetric(s.descs[m], kind, value, l.Values()...))
	})
	return metrics
}
