// SPDX-License-Identifier: Apache-2.0

// Package otel reports what a [manager.Manager] does as OpenTelemetry traces and metrics.
//
//	spans := otel.New(tracerProvider)
//	metrics, err := otel.NewMetrics(meterProvider, otel.MetricsConfig{})
//	if err != nil {
//		return err
//	}
//	m, err := manager.Open(ctx, manager.Config{
//		Servers: servers,
//		Observer: func(e manager.Event) {
//			spans.Observe(e)
//			metrics.Observe(e)
//		},
//	})
//	if err != nil {
//		return err
//	}
//	metrics.Manage(m)
//
// A program that wants only one of the two leaves the other out.
//
// # Spans
//
// There are two kinds of spans:
//
//   - holdfast.wait lasts from the request of the process's first caller until the lock
//     is granted, or until all callers have given up or been refused. Then its status is
//     Error.
//   - holdfast.hold lasts from the grant until the process has given the lock up, or has
//     lost it. Then its status is Error.
//
// The hold is a child of the wait that led to it, so that one trace has both and a
// sampler keeps both or neither. The wait is the root of its trace. It cannot be a child of
// a caller's span, because the callers of a process share a wait and a hold: there may be
// a thousand of them, each with a trace of its own. To see the wait of one caller, make
// a span around the call of Lock.Lock, and find the wait by holdfast.lock and the time.
//
// Entering and leaving a lock that the process owns already makes no span.
//
// # Attributes
//
// Names, units and types are stable in the way that docs/stability.md describes for the
// API. Of every span:
//
//	holdfast.lock      string  the lock's name
//	holdfast.kind      string  "exclusive", "read", "write", "upgradable" or "mutex"
//	holdfast.round     int     distinguishes the waits of one Manager; a hold has its wait's
//	holdfast.cause     string  why the wait failed, the lock was lost, or its release is not
//	                           confirmed: one word, see manager.Event.Cause
//	holdfast.complete  bool    false: the end is not known, see Spans; otherwise left out
//
// Of a hold, and of a wait that was granted:
//
//	holdfast.token     int     the fencing token
//	holdfast.session   string  the ZooKeeper session, in hexadecimal as the server logs it
//
// # Events
//
// Of a wait:
//
//	queued   the process has an entry in the queue; if the session is lost, again
//	placed   holdfast.position (int) contenders are ahead; holdfast.ahead (string) describes
//	         the one that is waited for
//
// Of a hold:
//
//	entered  a caller entered by itself, after those that had waited; only the first one
//	yielded  newcomers wait until other processes have had their turn
//	revoked  another process asked for the lock: holdfast.from (string) and holdfast.reason
//	         (string), which nothing proves
//
// The events come to this package after they happened, so all times are those that the
// Manager noted, and not those of the calls.
//
// # Metrics
//
// The metrics are those of the package manager/prom, which docs/monitoring.md lists by their
// names in Prometheus. Three rules lead from these to the instruments:
//
//   - The name begins with "holdfast." instead of "holdfast_", and has neither of the suffixes
//     "_total" and "_seconds": holdfast_paused_seconds_total is holdfast.paused.
//   - What ends in "_total" is a counter. What docs/monitoring.md calls a histogram is one,
//     with the same buckets. The rest are gauges.
//   - Durations have the unit "s" and are floating-point numbers. The rest are integers, with
//     what they count as the unit: "{lock}".
//
// Attributes have the names and values of the labels there, such as kind and cause. So the
// exporter of OpenTelemetry for Prometheus, which by default adds the suffixes again, shows
// what manager/prom shows: the same dashboard and alerts serve both. It differs in this:
//
//   - It adds labels for the scope, otel_scope_name and others, unless told not to.
//   - Histograms are classic ones. To have native ones, give the provider a view with
//     AggregationBase2ExponentialHistogram.
//   - holdfast_outage_seconds appears with the first outage, and not at zero.
//
// Durations and causes come from the Manager's events, by [Metrics.Observe]. What is true at
// the moment is read from the Manager by one callback, at each collection of each reader;
// see [Metrics.Manage]. Neither does I/O or makes a caller of the Manager wait. A collection
// takes longer the more locks and groups the process has: some 20 ms of processor time for
// 10,000 locks in 100 groups.
//
// Close the Manager first, so that its last events are counted, and then shut the provider
// down, which collects a last time. If the provider lives on, close the Metrics.
package otel
