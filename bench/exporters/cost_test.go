// SPDX-License-Identifier: Apache-2.0

//go:build unix

package exporters

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
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

// pairs is how many times a way acquires and releases its lock before it is the next one's
// turn. That takes so long that nearly all of what the exporters have to do for them is done
// in the same turn.
const pairs = 100

// BenchmarkLockUnlock measures an uncontended Lock and Unlock on a real server, with no
// exporter, with that of Prometheus, and with that of OpenTelemetry as well, whose spans
// are all sampled, batched and thrown away. The three take turns, so that what else the
// machine does strikes them alike. The figures are:
//
//	µs          the median time of a pair
//	×none       the ratio of that to the time without exporters
//	×none-turn  the ratio of the medians of the turns' times: it has all that the exporters
//	            did, also what most pairs did not meet
//	cpu-µs      the median of the processor time that this process took for a pair, in a turn
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
			w.turn(b)
		}
	}
	none := ways[0]
	for _, w := range ways {
		b.ReportMetric(micros(median(w.times)), w.name+"-µs")
		b.ReportMetric(micros(median(w.cpu)), w.name+"-cpu-µs")
		if w != none {
			b.ReportMetric(ratio(median(w.times), median(none.times)), w.name+"-×none")
			b.ReportMetric(ratio(median(w.turns), median(none.turns)), w.name+"-×none-turn")
		}
	}
	b.ReportMetric(0, "ns/op") // of all three together, which says nothing
}

// A way is a process with certain exporters.
type way struct {
	name     string
	observer func(manager.Event)

	lock  *manager.Lock
	times []time.Duration // of pairs
	turns []time.Duration // of turns
	cpu   []time.Duration // of this process, for a pair, in each turn
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

// turn acquires and releases the lock many times.
func (w *way) turn(b *testing.B) {
	begun, used := time.Now(), processorTime(b)
	for range pairs {
		w.pair(b)
	}
	w.turns = append(w.turns, time.Since(begun))
	w.cpu = append(w.cpu, (processorTime(b)-used)/pairs)
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

// processorTime returns the time that this process has had on processors.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// nowhere throws spans away.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                          { return nil }
