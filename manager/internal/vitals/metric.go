// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"slices"

	"github.com/holdfast-go/holdfast/manager"
)

// A Kind says what a Sink does with a metric's values.
type Kind uint8

// The kinds.
const (
	Gauge     Kind = iota // the newest value is the metric
	Counter               // the value is the metric; of events it is added to the metric
	Histogram             // the value is one of those that are counted
)

// A Metric describes a metric.
type Metric struct {
	Name string // Prometheus's, without "holdfast_"
	Help string
	Kind Kind
	Unit string // OpenTelemetry's: "s", or what is counted, in braces

	labels []string // names, without "group"
	ofLock bool     // has the label "group" if locks are in groups

	stat func(s *manager.ManagerStats) float64 // the value, if it is in a Manager's Stats
	sum  func(t *tally) float64                // the value, if it is a sum of locks
}

// Labels returns the names of a metric's labels.
func (c Config) Labels(m *Metric) []string {
	if m.ofLock && c.Group != nil {
		return append(slices.Clone(m.labels), "group")
	}
	return m.labels
}

// Labels are the values of a metric's labels, in the order of [Config.Labels]. They are an
// array, since an event is observed without an allocation then.
type Labels struct {
	values [3]string
	n      int
}

// labels returns the values of labels other than "group".
func labels(values ...string) (l Labels) {
	l.n = copy(l.values[:], values)
	return l
}

// with returns the labels with one more.
func (l Labels) with(value string) Labels {
	l.values[l.n] = value
	l.n++
	return l
}

// Values returns the values.
func (l *Labels) Values() []string { return l.values[:l.n] }

// A Sink takes a value of a metric.
type Sink func(m *Metric, value float64, l Labels)
