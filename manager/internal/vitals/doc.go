// SPDX-License-Identifier: Apache-2.0

// Package vitals has the metrics of a Manager: which there are, and what their values come
// from. The modules manager/prom and manager/otel hand them to Prometheus and to
// OpenTelemetry, so that both have the same names, labels and values.
//
//	events of the Manager ──► Source.Observe ─┐
//	                                          ├──► Sink ──► a library for metrics
//	its Stats and Locks ────► Source.Collect ─┘
//
// This package is part of another module than those that use it, and a program may combine
// an older one of them with a newer one of this. So change what is exported here as if it
// were public: by additions.
package vitals
