// SPDX-License-Identifier: Apache-2.0

package exporters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/manager/otel"
	"github.com/holdfast-go/holdfast/manager/prom"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Of one Manager, the exporter of OpenTelemetry for Prometheus shows what manager/prom shows:
// the same names, types, help texts, labels and values. The test runs in a bubble, where time
// stands still between the two scrapes.
func TestSameMetrics(t *testing.T) {
	for name, group := range map[string]func(string) string{"plain": nil, "groups": prom.FirstSegment} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compare(t, group) })
		})
	}
}

func compare(t *testing.T, group func(string) string) {
	collector := prom.New(prom.Config{Group: group})
	ours := prometheus.NewPedanticRegistry()
	ours.MustRegister(collector)

	theirs := prometheus.NewPedanticRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(theirs)) // with the suffixes it adds by default
	if err != nil {
		t.Fatal(err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() {
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	metrics, err := otel.NewMetrics(provider, otel.MetricsConfig{Group: group})
	if err != nil {
		t.Fatal(err)
	}
	observe := func(e manager.Event) {
		collector.Observe(e)
		metrics.Observe(e)
	}

	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer server.Close()
	m, other := open(t, server, observe), open(t, server, nil)
	defer m.Close()
	defer other.Close()
	collector.Manage(m)
	metrics.Manage(m)
	contend(t, m, other)
	time.Sleep(90 * time.Second)
	for _, e := range rare() {
		observe(e)
	}
	synctest.Wait()

	got, want := gather(t, theirs), gather(t, ours)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] == "" {
			t.Errorf("OpenTelemetry does not have %s", key)
		} else if got[key] != want[key] {
			t.Errorf("%s: OpenTelemetry has\n%s\nand manager/prom\n%s", key, got[key], want[key])
		}
	}
	for key := range got {
		if want[key] == "" {
			t.Errorf("only OpenTelemetry has %s", key)
		}
	}
	if len(want) < 90 {
		t.Errorf("only %d series were compared", len(want))
	}
	for _, part := range []string{
		`holdfast_oldest_wait_seconds{GROUPkind="read"} gauge 91`,
		`holdfast_oldest_contended_hold_seconds{GROUPkind="exclusive"} gauge 91`,
		`holdfast_hold_seconds{GROUPkind="exclusive",outcome="released"} histogram 1 in 1 s, `,
		`holdfast_session_state{state="connected"} gauge 1`,
	} {
		label := ""
		if group != nil {
			label = `group="jobs",`
		}
		key, value, _ := strings.Cut(strings.Replace(part, "GROUP", label, 1), " ")
		if !strings.HasPrefix(want[key], value) {
			t.Errorf("%s is %s, want %s: the metrics that were compared show less than they should", key, want[key], value)
		}
	}
}

// open returns a Manager on the server.
func open(t *testing.T, server *zktest.Server, observe func(manager.Event)) *manager.Manager {
	t.Helper()
	m, err := manager.Open(t.Context(), manager.Config{
		Servers: []string{"zk:2181"}, Dialer: server.Dial, Observer: observe, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// contend leaves m with a lock that the other Manager waits for, with one that it waits for
// itself, and with some that are neither.
func contend(t *testing.T, m, other *manager.Manager) {
	t.Helper()
	exclusive := func(m *manager.Manager, name string) *manager.Lock {
		l, err := m.Exclusive(name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	read, err := m.ReadWrite("jobs/shared")
	if err != nil {
		t.Fatal(err)
	}
	written, err := other.ReadWrite("jobs/shared")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*manager.Lock{exclusive(m, "jobs/nightly"), exclusive(m, "reports/daily"), written.Writer()} {
		if _, err := l.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read.Reader().Acquire(t.Context())
	exclusive(other, "jobs/nightly").Acquire(t.Context())
	err = exclusive(m, "jobs/short").Do(t.Context(), func(context.Context, manager.Hold) error {
		time.Sleep(time.Second)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rare is what does not happen to the Managers.
func rare() []manager.Event {
	of := func(kind manager.EventKind, err error) manager.Event {
		return manager.Event{Kind: kind, Lock: "jobs/rare", LockKind: manager.KindWrite, Waited: 3 * time.Millisecond, Held: time.Hour, Err: err}
	}
	return []manager.Event{
		of(manager.EventFailed, manager.ErrNotGranted), of(manager.EventLost, errors.New("its node is gone")),
		of(manager.EventReleased, manager.ErrUnconfirmed), of(manager.EventYielded, nil), of(manager.EventRevoked, nil),
		{Kind: manager.EventConnectionLost, Err: errors.New("refused")},
		{Kind: manager.EventConnectionResumed, Waited: 8 * time.Second},
	}
}

// gather returns the type, value and help of each series, and a histogram's classic buckets.
// It leaves out what the exporter says about itself: target_info, and the labels of the scope.
func gather(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, family := range families {
		if family.GetName() == "target_info" {
			continue
		}
		for _, metric := range family.Metric {
			var labels []string
			for _, l := range metric.Label {
				if !strings.HasPrefix(l.GetName(), "otel_scope_") {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			key := fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ","))
			all[key] = fmt.Sprintf("%s %s: %s", strings.ToLower(family.GetType().String()), value(metric), family.GetHelp())
		}
	}
	return all
}

func value(metric *dto.Metric) string {
	switch {
	case metric.Counter != nil:
		return fmt.Sprint(metric.Counter.GetValue())
	case metric.Gauge != nil:
		return fmt.Sprint(metric.Gauge.GetValue())
	}
	h := metric.Histogram
	text := fmt.Sprintf("%d in %v s", h.GetSampleCount(), h.GetSampleSum())
	for _, b := range h.Bucket {
		text += fmt.Sprintf(", %d up to %v s", b.GetCumulativeCount(), b.GetUpperBound())
	}
	return text
}
