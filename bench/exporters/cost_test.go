// SPDX-License-Identifier: Apache-2.0

package exporters

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/otel"
	"github.com/holdfast-go/holdfast/manager/prom"
)

func TestMain(m *testing.M) { os.Exit(realzk.WithShared(m).Run()) }

// BenchmarkLockUnlock measures an uncontended Lock and Unlock on a real server, with no
// exporter, with that of Prometheus, and with that of OpenTelemetry as well, whose spans
// are sampled, batched and thrown away. The three take turns, so that what else the
// machine does strikes them alike. The figures are medians, and ratios to the first.
func BenchmarkLockUnlock(b *testing.B) {
	zk := realzk.Shared(b)
	collector := prom.New(prom.Config{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	provider := trace.NewTracerProvider(trace.WithBatcher(nowhere{}))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	spans := otel.New(provider)
	ways := []*way{
		{name: "none"},
		{name: "prom", observer: collector.Observe},
		{name: "prom+otel", observer: func(e manager.Event) { collector.Observe(e); spans.Observe(e) }},
	}
	for _, w := range ways {
		w.open(b, zk.Addr())
	}
	for b.Loop() {
		for _, w := range ways {
			w.pair(b)
		}
	}
	base := ways[0].median()
	for _, w := range ways {
		m := w.median()
		b.ReportMetric(float64(m.Nanoseconds())/1000, w.name+"-µs")
		if w != ways[0] {
			b.ReportMetric(float64(m)/float64(base), w.name+"-×none")
		}
	}
	b.ReportMetric(0, "ns/op") // of all three together, which says nothing
}

// A way is a process with certain exporters.
type way struct {
	name     string
	observer func(manager.Event)

	lock  *manager.Lock
	times []time.Duration
}

// open opens the process's Manager, for the time of the benchmark.
func (w *way) open(b *testing.B, server string) {
	b.Helper()
	m, err := manager.Open(b.Context(), manager.Config{
		Servers: []string{server}, Root: "/exporters", Observer: w.observer,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	if w.lock, err = m.Exclusive(w.name); err != nil {
		b.Fatal(err)
	}
	w.pair(b) // which makes the lock's directory
	w.times = nil
}

// pair acquires and releases the lock once.
func (w *way) pair(b *testing.B) {
	begun := time.Now()
	h, err := w.lock.Lock(b.Context())
	if err == nil {
		err = h.Unlock(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	w.times = append(w.times, time.Since(begun))
}

func (w *way) median() time.Duration {
	slices.Sort(w.times)
	return w.times[len(w.times)/2]
}

// nowhere throws spans away.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                          { return nil }
