// SPDX-License-Identifier: Apache-2.0

// Package prom exports what a [manager.Manager] does as metrics for Prometheus.
//
//	metrics := prom.New(prom.Config{})
//	prometheus.MustRegister(metrics)
//	m, err := manager.Open(ctx, manager.Config{Servers: servers, Observer: metrics.Observe})
//	if err != nil {
//		return err
//	}
//	metrics.Manage(m)
//
// Durations and causes come from the manager's events, by [Collector.Observe]. What is
// true at the moment, such as the number of locks that are held, is read from the
// Manager at each scrape; see [Collector.Manage]. Neither does I/O or makes a caller of
// the Manager wait.
//
// To have more than one observer, call each:
//
//	Observer: func(e manager.Event) {
//		metrics.Observe(e)
//		spans.Observe(e)
//	},
//
// # Metrics
//
// docs/monitoring.md describes every metric. Names, labels and units are stable in the
// way that docs/stability.md describes for the API. The durations are native histograms
// with classic buckets beside them, so a Prometheus server of any version can read them.
//
// No metric has a label with the name of a lock, because each name would make series of
// its own that never end. Config.Group maps the names to a few groups.
//
// One Collector serves one Manager. For two Managers in a process, give each its own and
// register them with prometheus.WrapRegistererWith, under labels that differ.
package prom
