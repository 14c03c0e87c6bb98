// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/internal/vitals"
)

// A MetricsConfig says how metrics are labelled. The zero value works.
type MetricsConfig struct {
	// Group maps the name of a lock to the value of the attribute "group", which all
	// metrics of locks have then; see [FirstSegment]. It must be quick, must not block,
	// and is called concurrently.
	// Defaults to none: metrics have no attribute "group".
	Group func(lock string) string

	// MaxGroups is the largest number of groups. The locks of further ones are counted
	// in the group "other". holdfast.locks has 15 series for each group, and an SDK may
	// limit the series of an instrument: the one for Go to 2,000, unless told otherwise.
	// Defaults to 100.
	MaxGroups int

	// Attributes are added to every metric. If two Managers of a process share a
	// provider, they need different ones: otherwise both write the same series.
	// Defaults to none.
	Attributes []attribute.KeyValue
}

// FirstSegment returns the first segment of a lock's name, for use as MetricsConfig.Group:
// the group of "jobs/nightly" is "jobs".
func FirstSegment(lock string) string { return vitals.FirstSegment(lock) }

// Metrics are the metrics of one Manager. All methods may be called concurrently. They have
// no goroutine of their own.
type Metrics struct {
	source       *vitals.Source
	attributes   []attribute.KeyValue
	instruments  map[*vitals.Metric]*instrument  // does not change
	registration metric.Registration             // of the callback
	m            atomic.Pointer[manager.Manager] // nil until Manage, and after Close
}

// An instrument is that of one metric: one of four kinds.
type instrument struct {
	keys []attribute.Key

	counter   metric.Int64Counter      // of events
	histogram metric.Float64Histogram  // of events
	seconds   metric.Float64Observable // of the Manager's state
	number    metric.Int64Observable   // likewise
}

// NewMetrics returns Metrics whose instruments are made by a meter of the provider, which
// must not be nil. It fails if the provider refuses an instrument or the callback.
func NewMetrics(provider metric.MeterProvider, cfg MetricsConfig) (*Metrics, error) {
	s := &Metrics{
		attributes:  slices.Clone(cfg.Attributes),
		instruments: map[*vitals.Metric]*instrument{},
	}
	of := vitals.Config{Group: cfg.Group, MaxGroups: cfg.MaxGroups}
	meter := provider.Meter(scope)
	for _, m := range vitals.OfEvents() {
		if err := s.add(m, of).ofEvents(meter, m); err != nil {
			return nil, err
		}
	}
	var observables []metric.Observable
	for _, m := range vitals.OfState() {
		i := s.add(m, of)
		if err := i.ofState(meter, m); err != nil {
			return nil, err
		}
		observables = append(observables, i.observable())
	}
	s.source = vitals.New(of, s.record)
	registration, err := meter.RegisterCallback(s.observe, observables...)
	if err != nil {
		return nil, fmt.Errorf("otel: the meter refuses the callback that reads the Manager: %w", err)
	}
	s.registration = registration
	return s, nil
}

// Observe counts an event. It is meant for the Observer in [manager.Config]. With the SDK it
// does not block.
func (s *Metrics) Observe(e manager.Event) { s.source.Observe(e) }

// Manage names the Manager whose state is read at each collection. Until it is called, there
// are only the metrics that come from events.
func (s *Metrics) Manage(m *manager.Manager) { s.m.Store(m) }

// Close ends the reading of the Manager: its provider forgets these Metrics, and collections
// no longer have the metrics that are read from the Manager. Those that come from events
// stay, since instruments cannot be taken back. Close is for a provider that outlives the
// Manager; the shutdown of the provider does as well. It may wait for a collection under way,
// so a callback of an instrument must not call it. To call it again does nothing.
func (s *Metrics) Close() error {
	s.m.Store(nil)
	if err := s.registration.Unregister(); err != nil {
		return fmt.Errorf("otel: unregister the callback that reads the Manager: %w", err)
	}
	return nil
}

// nameOf returns the name of a metric's instrument. Prometheus's suffixes are not part of
// it: the exporters for Prometheus add them again, for the kind and the unit.
func nameOf(m *vitals.Metric) string {
	name := strings.TrimSuffix(m.Name, "_total")
	return "holdfast." + strings.TrimSuffix(name, "_seconds")
}

// add adds the instrument of a metric, which is still to be made.
func (s *Metrics) add(m *vitals.Metric, cfg vitals.Config) *instrument {
	i := &instrument{}
	for _, name := range cfg.Labels(m) {
		i.keys = append(i.keys, attribute.Key(name))
	}
	s.instruments[m] = i
	return i
}

// ofEvents makes the instrument of a metric that comes from events.
func (i *instrument) ofEvents(meter metric.Meter, m *vitals.Metric) (err error) {
	help, unit := metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	if m.Kind == vitals.Counter {
		i.counter, err = meter.Int64Counter(nameOf(m), help, unit)
	} else {
		i.histogram, err = meter.Float64Histogram(nameOf(m), help, unit,
			metric.WithExplicitBucketBoundaries(vitals.Buckets()...))
	}
	return refused(m, err)
}

// ofState makes the instrument of a metric that is read from a Manager.
func (i *instrument) ofState(meter metric.Meter, m *vitals.Metric) (err error) {
	help, unit := metric.WithDescription(m.Help), metric.WithUnit(m.Unit)
	switch counter := m.Kind == vitals.Counter; {
	case counter && m.Unit == "s":
		i.seconds, err = meter.Float64ObservableCounter(nameOf(m), help, unit)
	case counter:
		i.number, err = meter.Int64ObservableCounter(nameOf(m), help, unit)
	case m.Unit == "s":
		i.seconds, err = meter.Float64ObservableGauge(nameOf(m), help, unit)
	default:
		i.number, err = meter.Int64ObservableGauge(nameOf(m), help, unit)
	}
	return refused(m, err)
}

func refused(m *vitals.Metric, err error) error {
	if err != nil {
		return fmt.Errorf("otel: the meter refuses the instrument %s: %w", nameOf(m), err)
	}
	return nil
}

func (i *instrument) observable() metric.Observable {
	if i.seconds != nil {
		return i.seconds
	}
	return i.number
}

// with returns the attributes of a series.
func (s *Metrics) with(i *instrument, l *vitals.Labels) metric.MeasurementOption {
	attributes := make([]attribute.KeyValue, 0, len(s.attributes)+len(i.keys))
	attributes = append(attributes, s.attributes...)
	for n, value := range l.Values() {
		attributes = append(attributes, i.keys[n].String(value))
	}
	return metric.WithAttributeSet(attribute.NewSet(attributes...))
}

// record is the [vitals.Sink] of events.
func (s *Metrics) record(m *vitals.Metric, value float64, l vitals.Labels) {
	i := s.instruments[m]
	if i.counter != nil {
		i.counter.Add(context.Background(), int64(value), s.with(i, &l))
	} else {
		i.histogram.Record(context.Background(), value, s.with(i, &l))
	}
}

// observe is the callback of all instruments that are read from the Manager, so that each
// collection has one state of it. Each reader of the provider collects for itself, at the
// same time perhaps.
func (s *Metrics) observe(_ context.Context, o metric.Observer) error {
	read := s.m.Load()
	if read == nil {
		return nil
	}
	s.source.Collect(read.Stats(), read.Locks(true), func(m *vitals.Metric, value float64, l vitals.Labels) {
		i := s.instruments[m]
		if i.seconds != nil {
			o.ObserveFloat64(i.seconds, value, s.with(i, &l))
		} else {
			o.ObserveInt64(i.number, int64(value), s.with(i, &l))
		}
	})
	return nil
}
