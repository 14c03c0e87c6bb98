// SPDX-License-Identifier: Apache-2.0

package otel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// measure returns Metrics and a reader of them.
func measure(t testing.TB, cfg MetricsConfig) (*Metrics, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	t.Cleanup(func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	metrics, err := NewMetrics(provider, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return metrics, reader
}

// collection is what a reader has collected, without the prefix "holdfast.".
type collection []metricdata.Metrics

func collect(t testing.TB, reader sdkmetric.Reader) (c collection) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, of := range all.ScopeMetrics {
		if of.Scope.Name != scope {
			t.Errorf("metrics of the scope %q", of.Scope.Name)
		}
		for _, m := range of.Metrics {
			name, ok := strings.CutPrefix(m.Name, "holdfast.")
			if !ok {
				t.Errorf("the metric %s", m.Name)
			}
			m.Name = name
			c = append(c, m)
		}
	}
	return c
}

// describe returns each metric as name, unit and type.
func (c collection) describe() (lines []string) {
	for _, m := range c {
		text := strings.TrimPrefix(fmt.Sprintf("%T", m.Data), "metricdata.")
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			text += fmt.Sprintf(" monotonic=%t", data.IsMonotonic)
		case metricdata.Sum[float64]:
			text += fmt.Sprintf(" monotonic=%t", data.IsMonotonic)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", m.Name, m.Unit, text))
	}
	slices.Sort(lines)
	return lines
}

// values returns the value of each series: name{attributes}, with the count of a histogram.
func (c collection) values() map[string]float64 {
	values := map[string]float64{}
	for _, m := range c {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				values[series(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Sum[float64]:
			for _, p := range data.DataPoints {
				values[series(m.Name, p.Attributes)] = p.Value
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				values[series(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				values[series(m.Name, p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				values[series(m.Name, p.Attributes)] = float64(p.Count)
			}
		}
	}
	return values
}

func series(name string, of attribute.Set) string {
	if of.Len() == 0 {
		return name
	}
	return name + "{" + of.Encoded(attribute.DefaultEncoder()) + "}"
}

// expect checks values: name{attributes} value, one in a line; "none" if there must be none.
func (c collection) expect(t *testing.T, want string) {
	t.Helper()
	values := c.values()
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, text, _ := strings.Cut(line, " ")
		got := "none"
		if value, ok := values[key]; ok {
			got = fmt.Sprint(value)
		}
		if got != text {
			t.Errorf("%s is %s, want %s", key, got, text)
		}
	}
}

// observed is one event of each kind that metrics are made of.
func observed() []manager.Event {
	of := func(kind manager.EventKind, err error) manager.Event {
		return manager.Event{Kind: kind, Lock: "jobs/a", LockKind: manager.KindWrite, Waited: time.Second, Held: time.Minute, Err: err}
	}
	return []manager.Event{
		of(manager.EventGranted, nil), of(manager.EventFailed, manager.ErrNotGranted),
		of(manager.EventReleased, manager.ErrUnconfirmed), of(manager.EventLost, manager.ErrClosed),
		of(manager.EventYielded, nil), of(manager.EventRevoked, nil),
		{Kind: manager.EventConnectionLost, Err: errors.New("refused")},
		{Kind: manager.EventConnectionResumed, Waited: time.Second},
	}
}

// open returns a Manager on an embedded server of its own.
func open(t testing.TB, observer func(manager.Event)) *manager.Manager {
	t.Helper()
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { server.Close() })
	m, err := manager.Open(t.Context(), manager.Config{
		Servers: []string{"zk:2181"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler), Observer: observer,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The names, units and types are what dashboards and exporters rely on.
func TestInstruments(t *testing.T) {
	metrics, reader := measure(t, MetricsConfig{})
	metrics.Manage(open(t, metrics.Observe))
	for _, e := range observed() {
		metrics.Observe(e)
	}
	want := []string{
		"answers {answer} Sum[int64] monotonic=true",
		"busy_workers {worker} Gauge[int64]",
		"connection_losses {connection} Sum[int64] monotonic=true",
		"contended_locks {lock} Gauge[int64]",
		"dropped_events {event} Sum[int64] monotonic=true",
		"existing_locks {lock} Gauge[int64]",
		"failures {wait} Sum[int64] monotonic=true",
		"grants {lock} Sum[int64] monotonic=true",
		"hold s Histogram[float64]",
		"holders {caller} Gauge[int64]",
		"lease_remaining s Gauge[float64]",
		"locks {lock} Gauge[int64]",
		"longest_race {race} Gauge[int64]",
		"losses {lock} Sum[int64] monotonic=true",
		"lost_races {race} Sum[int64] monotonic=true",
		"oldest_contended_hold s Gauge[float64]",
		"oldest_hold s Gauge[float64]",
		"oldest_wait s Gauge[float64]",
		"outage s Histogram[float64]",
		"paused s Sum[float64] monotonic=true",
		"pauses {time} Sum[int64] monotonic=true",
		"queued_tasks {task} Gauge[int64]",
		"reconnects {connection} Sum[int64] monotonic=true",
		"requests {request} Sum[int64] monotonic=true",
		"revocations {time} Sum[int64] monotonic=true",
		"revoked_locks {lock} Gauge[int64]",
		"sentinel_missing  Gauge[int64]",
		"session_state  Gauge[int64]",
		"session_timeout s Gauge[float64]",
		"sessions {session} Sum[int64] monotonic=true",
		"takeovers {lock} Sum[int64] monotonic=true",
		"unconfirmed_releases {lock} Sum[int64] monotonic=true",
		"wait s Histogram[float64]",
		"waiters {caller} Gauge[int64]",
		"watch_events {event} Sum[int64] monotonic=true",
		"workers {worker} Gauge[int64]",
		"yielding_locks {lock} Gauge[int64]",
		"yields {time} Sum[int64] monotonic=true",
	}
	if got := collect(t, reader).describe(); !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// Counters of events begin at zero, and the rest comes with the Manager.
func TestMetricsOfManager(t *testing.T) {
	metrics, reader := measure(t, MetricsConfig{Group: FirstSegment})
	m := open(t, metrics.Observe)
	collect(t, reader).expect(t, `
		connection_losses 0
		grants none
		yields none
	`)
	metrics.Manage(m)
	l, err := m.Exclusive("jobs/nightly")
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	collect(t, reader).expect(t, `
		grants 1
		session_state{state=connected} 1
		session_state{state=none} 0
		locks{group=jobs,kind=exclusive,phase=held} 1
		locks{group=jobs,kind=exclusive,phase=waiting} 0
		holders{group=jobs,kind=exclusive} 1
		yields{group=jobs} 0
		losses{cause=lease,group=jobs} 0
	`)
	if err := h.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Close() // which waits until all events have been observed
	collect(t, reader).expect(t, `
		grants 1
		session_state{state=none} 1
		locks{group=jobs,kind=exclusive,phase=held} 0
		wait{group=jobs,kind=exclusive,outcome=granted} 1
		hold{group=jobs,kind=exclusive,outcome=released} 1
	`)
}

// Each reader of a provider collects for itself, while events come.
func TestReadersDoNotDisturbEachOther(t *testing.T) {
	readers := []*sdkmetric.ManualReader{sdkmetric.NewManualReader(), sdkmetric.NewManualReader()}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(readers[0]), sdkmetric.WithReader(readers[1]))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	metrics, err := NewMetrics(provider, MetricsConfig{Group: FirstSegment})
	if err != nil {
		t.Fatal(err)
	}
	metrics.Manage(open(t, metrics.Observe))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 50 {
				metrics.Observe(manager.Event{Kind: manager.EventYielded, Lock: fmt.Sprintf("jobs%d/a", n%3)})
				collect(t, readers[i%2])
			}
		})
	}
	wg.Wait()
	for _, reader := range readers {
		collect(t, reader).expect(t, `
			yields{group=jobs0} 68
			yields{group=jobs1} 68
			yields{group=jobs2} 64
			sessions 1
		`)
	}
}

// Two Managers share a provider if their attributes differ.
func TestAttributes(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	for _, name := range []string{"a", "b"} {
		metrics, err := NewMetrics(provider, MetricsConfig{Attributes: []attribute.KeyValue{
			attribute.String("kind", "another"), // which does not hide the metric's own
			attribute.String("ensemble", name),
		}})
		if err != nil {
			t.Fatal(err)
		}
		metrics.Manage(open(t, metrics.Observe))
		for _, e := range observed() {
			metrics.Observe(e)
		}
	}
	collect(t, reader).expect(t, `
		sessions{ensemble=a,kind=another} 1
		sessions{ensemble=b,kind=another} 1
		wait{ensemble=a,kind=write,outcome=granted} 1
		wait{ensemble=b,kind=write,outcome=granted} 1
		holders{ensemble=a,kind=read} 0
	`)
}

// After Close, a provider that lives on neither asks the Manager nor shows what it was.
func TestCloseOfMetrics(t *testing.T) {
	metrics, reader := measure(t, MetricsConfig{})
	m := open(t, metrics.Observe)
	metrics.Manage(m)
	collect(t, reader).expect(t, `sessions 1`)
	for range 2 {
		if err := metrics.Close(); err != nil {
			t.Fatal(err)
		}
	}
	metrics.Manage(m)
	metrics.Observe(manager.Event{Kind: manager.EventConnectionLost})
	collect(t, reader).expect(t, `
		sessions none
		locks{kind=read,phase=held} none
		connection_losses 1
	`)
}

// A refusing provider has a meter that refuses one instrument, or the callback.
type refusing struct {
	noop.MeterProvider
	name string
}

type refusingMeter struct {
	noop.Meter
	name string
}

var errRefused = errors.New("not today")

func (r refusing) Meter(string, ...metric.MeterOption) metric.Meter {
	return refusingMeter{name: r.name}
}

func (r refusingMeter) error(name string) error {
	if name == r.name {
		return errRefused
	}
	return nil
}

func (r refusingMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, r.error(name)
}

func (r refusingMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, r.error(name)
}

func (r refusingMeter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return noop.Int64ObservableGauge{}, r.error(name)
}

func (r refusingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return refusedRegistration{}, r.error("callback")
}

type refusedRegistration struct{ noop.Registration }

func (refusedRegistration) Unregister() error { return errRefused }

func TestRefused(t *testing.T) {
	for name, want := range map[string]string{
		"holdfast.yields":  "the instrument holdfast.yields: not today",
		"holdfast.hold":    "the instrument holdfast.hold: not today",
		"holdfast.waiters": "the instrument holdfast.waiters: not today",
		"callback":         "the callback that reads the Manager: not today",
	} {
		metrics, err := NewMetrics(refusing{name: name}, MetricsConfig{})
		if metrics != nil || !errors.Is(err, errRefused) || err.Error() != "otel: the meter refuses "+want {
			t.Errorf("%s: %v", name, err)
		}
	}
	metrics, err := NewMetrics(refusing{}, MetricsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := metrics.Close(); !errors.Is(err, errRefused) {
		t.Errorf("Close: %v", err)
	}
}

// BenchmarkMetricsObserve takes the events of one uncontended Lock and Unlock.
func BenchmarkMetricsObserve(b *testing.B) {
	for name, cfg := range map[string]MetricsConfig{"plain": {}, "groups": {Group: FirstSegment}} {
		b.Run(name, func(b *testing.B) {
			metrics, _ := measure(b, cfg)
			b.ReportAllocs()
			for b.Loop() {
				metrics.Observe(at(1, manager.EventQueued, waited(1)))
				metrics.Observe(at(2, manager.EventGranted, granted(2)))
				metrics.Observe(at(3, manager.EventReleased, held(1, nil)))
			}
		})
	}
}

// BenchmarkMetricsCollect collects from a process with 10,000 locks in 100 groups.
func BenchmarkMetricsCollect(b *testing.B) {
	metrics, reader := measure(b, MetricsConfig{Group: FirstSegment})
	m := open(b, nil)
	metrics.Manage(m)
	var holds []manager.Hold
	for n := range 10_000 {
		l, err := m.Exclusive(fmt.Sprintf("group%d/lock%d", n%100, n))
		if err != nil {
			b.Fatal(err)
		}
		holds = append(holds, l.Acquire(b.Context()))
	}
	for _, h := range holds {
		if _, err := h.Ready().Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		collect(b, reader)
	}
}
