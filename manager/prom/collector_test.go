// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// gather returns the metrics of a collector, after they have passed the registry's checks.
func gather(t *testing.T, c prometheus.Collector) metrics {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

type metrics []*dto.MetricFamily

// find returns the metric called name with the labels, which are written as in
// `kind="read",outcome="lost"`. It returns nil if there is none.
func (m metrics) find(name, labels string) *dto.Metric {
	for _, family := range m {
		for _, metric := range family.Metric {
			var has []string
			for _, l := range metric.Label {
				has = append(has, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if family.GetName() == "holdfast_"+name && strings.Join(has, ",") == labels {
				return metric
			}
		}
	}
	return nil
}

// value returns the value of a counter or gauge, or the count of a histogram; -1 if there
// is no such metric.
func (m metrics) value(name, labels string) float64 {
	switch metric := m.find(name, labels); {
	case metric == nil:
		return -1
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	default:
		return float64(metric.Histogram.GetSampleCount())
	}
}

// expect checks the values of metrics: name{labels} value, one in a line.
func (m metrics) expect(t *testing.T, want string) {
	t.Helper()
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		metric, text, _ := strings.Cut(line, " ")
		name, labels, _ := strings.Cut(strings.TrimSuffix(metric, "}"), "{")
		if got := fmt.Sprint(m.value(name, labels)); got != text {
			t.Errorf("%s is %s, want %s", metric, got, text)
		}
	}
}

// everything is a history in which each kind of event happens.
func everything() []manager.Event {
	lost := &manager.Error{Op: "hold", Name: "jobs/a", Err: manager.ErrLost}
	of := func(kind manager.EventKind, e manager.Event) manager.Event {
		e.Kind, e.Time = kind, time.Now()
		if e.Lock == "" {
			e.Lock = "jobs/a"
		}
		if e.LockKind == 0 {
			e.LockKind = manager.KindExclusive
		}
		return e
	}
	return []manager.Event{
		{Kind: manager.EventSessionBegan, Session: 1},
		of(manager.EventQueued, manager.Event{Round: 1}),
		of(manager.EventPlaced, manager.Event{Round: 1, Position: 2}),
		of(manager.EventGranted, manager.Event{Round: 1, Waited: 3 * time.Millisecond}),
		of(manager.EventEntered, manager.Event{Round: 1}),
		of(manager.EventYielded, manager.Event{Round: 1}),
		of(manager.EventRevoked, manager.Event{Round: 1}),
		of(manager.EventReleased, manager.Event{Round: 1, Waited: 3 * time.Millisecond, Held: time.Second}),
		of(manager.EventGranted, manager.Event{Round: 2, LockKind: manager.KindRead}),
		of(manager.EventLost, manager.Event{Round: 2, LockKind: manager.KindRead, Held: time.Minute, Err: lost}),
		of(manager.EventLost, manager.Event{Round: 6, LockKind: manager.KindWrite, Held: time.Minute, Paused: 16 * time.Second, Err: &manager.Error{Op: "hold", Name: "jobs/a", Err: manager.ErrLost, Paused: 16 * time.Second}}),
		of(manager.EventGranted, manager.Event{Round: 3, LockKind: manager.KindMutex, Lock: "mutexes/m"}),
		of(manager.EventReleased, manager.Event{Round: 3, LockKind: manager.KindMutex, Lock: "mutexes/m", Err: manager.ErrUnconfirmed}),
		of(manager.EventFailed, manager.Event{Round: 4, Waited: time.Hour, Err: manager.ErrNotGranted}),
		of(manager.EventFailed, manager.Event{Round: 5, Err: manager.ErrClosed}),
		{Kind: manager.EventPaused, Paused: 16 * time.Second},
		{Kind: manager.EventConnectionLost, Err: errors.New("refused")},
		{Kind: manager.EventConnectionResumed, Waited: time.Second},
		{Kind: manager.EventSessionOver, Err: errors.New("expired")},
	}
}

func TestObserve(t *testing.T) {
	c := New(Config{})
	gather(t, c).expect(t, `
		losses_total{cause="lease"} 0
		failures_total{cause="context"} 0
		yields_total 0
		wait_seconds{kind="exclusive",outcome="granted"} -1
	`)
	for _, e := range everything() {
		c.Observe(e)
	}
	got := gather(t, c)
	got.expect(t, `
		wait_seconds{kind="exclusive",outcome="granted"} 1
		wait_seconds{kind="exclusive",outcome="failed"} 2
		wait_seconds{kind="read",outcome="granted"} 1
		wait_seconds{kind="mutex",outcome="granted"} 1
		hold_seconds{kind="exclusive",outcome="released"} 1
		hold_seconds{kind="read",outcome="lost"} 1
		hold_seconds{kind="mutex",outcome="released"} 1
		losses_total{cause="other"} 1
		losses_total{cause="lease"} 0
		failures_total{cause="context"} 1
		failures_total{cause="closed"} 1
		unconfirmed_releases_total{cause="unconfirmed"} 1
		yields_total 1
		revocations_total 1
		connection_losses_total 1
		outage_seconds 1
		locks{kind="read",phase="held"} -1
	`)
	h := got.find("wait_seconds", `kind="exclusive",outcome="granted"`).Histogram
	for _, tt := range []struct {
		name, labels string
		seconds      float64
	}{
		{"wait_seconds", `kind="exclusive",outcome="granted"`, 0.003},
		{"wait_seconds", `kind="exclusive",outcome="failed"`, 3600},
		{"hold_seconds", `kind="exclusive",outcome="released"`, 1},
		{"hold_seconds", `kind="read",outcome="lost"`, 60},
		{"outage_seconds", "", 1},
	} {
		if sum := got.find(tt.name, tt.labels).Histogram.GetSampleSum(); sum != tt.seconds {
			t.Errorf("%s{%s} has lasted %v s, want %v", tt.name, tt.labels, sum, tt.seconds)
		}
	}
	if h.GetSchema() == 0 || len(h.PositiveSpan) == 0 || len(h.Bucket) != 12 {
		t.Errorf("not both a native and a classic histogram: %v", h)
	}
}

// Metrics of locks have a group if there is one, and not more groups than allowed.
func TestGroups(t *testing.T) {
	c := New(Config{Group: FirstSegment, MaxGroups: 2})
	for _, e := range everything() {
		c.Observe(e)
	}
	for _, name := range []string{"reports/x", "users/4711", "bad\xff"} {
		c.Observe(manager.Event{Kind: manager.EventYielded, Lock: name})
	}
	gather(t, c).expect(t, `
		wait_seconds{group="jobs",kind="exclusive",outcome="granted"} 1
		wait_seconds{group="mutexes",kind="mutex",outcome="granted"} 1
		losses_total{cause="other",group="jobs"} 1
		losses_total{cause="lease",group="mutexes"} 0
		yields_total{group="jobs"} 1
		yields_total{group="other"} 3
		losses_total{cause="lease",group="other"} 0
	`)
	c = New(Config{Group: FirstSegment})
	c.Observe(manager.Event{Kind: manager.EventYielded, Lock: "bad\xff/x"})
	gather(t, c).expect(t, `yields_total{group="bad�"} 1`) // Prometheus accepts no other text
	// With "bad" these are two more than there are groups by default.
	for i := range 101 {
		c.Observe(manager.Event{Kind: manager.EventYielded, Lock: fmt.Sprintf("g%d/x", i)})
	}
	gather(t, c).expect(t, `
		yields_total{group="g98"} 1
		yields_total{group="other"} 2
	`)
	for lock, want := range map[string]string{"jobs/nightly": "jobs", "/jobs/nightly": "jobs", "jobs": "jobs", "": ""} {
		if got := FirstSegment(lock); got != want {
			t.Errorf("FirstSegment(%q) is %q, want %q", lock, got, want)
		}
	}
}

// list returns an iterator over locks.
func list(locks ...manager.LockInfo) iter.Seq[manager.LockInfo] { return slices.Values(locks) }

// info returns a lock that has been in the phase for the given time, with two callers.
func info(name string, kind manager.Kind, phase state.Phase, age time.Duration) manager.LockInfo {
	l := manager.LockInfo{Name: name, Kind: kind, Since: time.Now().Add(-age)}
	l.Stats.Phase, l.Stats.Holders = phase, 2
	return l
}

// scraped stands in for a Collector whose Manager has this state.
type scraped struct {
	*scrape
	stats manager.ManagerStats
	locks iter.Seq[manager.LockInfo]
}

func (s scraped) Describe(ch chan<- *prometheus.Desc) { s.describe(ch) }
func (s scraped) Collect(ch chan<- prometheus.Metric) {
	for _, m := range s.metrics(s.stats, s.locks) {
		ch <- m
	}
}

func TestScrape(t *testing.T) {
	s := New(Config{}).scrape
	stats := manager.ManagerStats{
		Locks: 9, Session: 1, Connected: true, Timeout: 10 * time.Second, Lease: 4 * time.Second,
		Sessions: 2, Reconnects: 3, Requests: map[string]uint64{"multi": 5}, Answers: 6, WatchEvents: 7,
		Queued: 8, Busy: 9, Workers: 10, Grants: 11, Losses: 12, Failures: 13, DroppedEvents: 14,
		Pauses: 15, Paused: 16500 * time.Millisecond, Takeovers: 17,
	}
	gather(t, scraped{s, stats, list()}).expect(t, `
		session_state{state="connected"} 1
		session_state{state="disconnected"} 0
		session_state{state="none"} 0
		session_timeout_seconds 10
		lease_remaining_seconds 4
		sessions_total 2
		reconnects_total 3
		pauses_total 15
		paused_seconds_total 16.5
		requests_total{operation="multi"} 5
		answers_total 6
		watch_events_total 7
		queued_tasks 8
		busy_workers 9
		workers 10
		grants_total 11
		takeovers_total 17
		dropped_events_total 14
		sentinel_missing 0
		existing_locks 9
		locks{kind="upgradable",phase="held"} 0
		oldest_wait_seconds{kind="exclusive"} 0
	`)
	held := info("held", manager.KindRead, state.Retained, time.Hour)
	contended := info("contended", manager.KindRead, state.Retained, time.Minute)
	contended.Contended, contended.Yielding = true, true
	revoked := info("revoked", manager.KindRead, state.Retained, time.Second)
	revoked.Revocation, revoked.Contended = &manager.Revocation{}, true
	mutex := info("mutex", manager.KindMutex, state.Fetching, time.Hour)
	waits := info("waits", manager.KindExclusive, state.Fetching, 2*time.Hour)
	unknown := info("waits, too", manager.KindExclusive, state.Fetching, 0)
	unknown.Since = time.Time{}
	going := info("going", manager.KindWrite, state.Releasing, 0)
	free := info("free", manager.KindWrite, state.Free, 0)

	stats.SentinelErr = errors.New("it has ended")
	gather(t, scraped{s, stats, list()}).expect(t, `sentinel_missing 1`)
	stats.Connected = false
	got := gather(t, scraped{s, stats, list(held, contended, revoked, mutex, waits, unknown, going, free)})
	got.expect(t, `
		session_state{state="connected"} 0
		session_state{state="disconnected"} 1
		locks{kind="read",phase="held"} 3
		locks{kind="read",phase="waiting"} 0
		locks{kind="exclusive",phase="waiting"} 2
		locks{kind="mutex",phase="waiting"} 1
		locks{kind="write",phase="releasing"} 1
		holders{kind="read"} 6
		holders{kind="exclusive"} 0
		waiters{kind="exclusive"} 4
		contended_locks{kind="read"} 2
		yielding_locks{kind="read"} 1
		revoked_locks{kind="read"} 1
	`)
	for _, tt := range []struct {
		name, kind string
		want       time.Duration
	}{
		{"oldest_hold_seconds", "read", time.Hour},
		{"oldest_contended_hold_seconds", "read", time.Minute},
		{"oldest_wait_seconds", "exclusive", 2 * time.Hour},
		{"oldest_wait_seconds", "mutex", time.Hour},
	} {
		age := got.value(tt.name, fmt.Sprintf("kind=%q", tt.kind))
		if age < tt.want.Seconds() || age > tt.want.Seconds()+60 {
			t.Errorf("%s of %s is %v, want %v", tt.name, tt.kind, age, tt.want)
		}
	}
	stats.Session = 0
	gather(t, scraped{s, stats, list()}).expect(t, `
		session_state{state="none"} 1
		locks{kind="read",phase="held"} 0
	`)
}

// A group that has had a lock stays, at zero.
func TestScrapeKeepsGroups(t *testing.T) {
	s := New(Config{Group: FirstSegment}).scrape
	gather(t, scraped{s, manager.ManagerStats{}, list(info("jobs/a", manager.KindRead, state.Retained, 0))}).expect(t, `
		locks{group="jobs",kind="read",phase="held"} 1
		holders{group="jobs",kind="read"} 2
	`)
	gather(t, scraped{s, manager.ManagerStats{}, list()}).expect(t, `
		locks{group="jobs",kind="read",phase="held"} 0
		holders{group="jobs",kind="read"} 0
	`)
}

// open returns a Manager on an embedded server of its own, with the Collector as its
// observer.
func open(t testing.TB, c *Collector) *manager.Manager {
	t.Helper()
	server := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { server.Close() })
	cfg := manager.Config{Servers: []string{"zk:2181"}, Dialer: server.Dial, Logger: slog.New(slog.DiscardHandler)}
	if c != nil {
		cfg.Observer = c.Observe
	}
	m, err := manager.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if c != nil {
		c.Manage(m)
	}
	return m
}

// All names and texts pass the linters, of the library and of promtool.
func TestNames(t *testing.T) {
	for _, cfg := range []Config{{}, {Group: FirstSegment}} {
		c := New(cfg)
		open(t, c)
		for _, e := range everything() {
			c.Observe(e)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(c)
		problems, err := testutil.GatherAndLint(reg)
		if err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
		t.Run("promtool", func(t *testing.T) {
			if out := promtool(t, text(t, reg), "check", "metrics"); out != "" {
				t.Error(out)
			}
		})
	}
}

// promtool returns what Prometheus' own tool prints.
func promtool(t *testing.T, input io.Reader, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		realzk.NotRun(t, "promtool is not installed (Debian, Ubuntu: apt-get install prometheus)")
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Stdin = input
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// text returns all metrics as a scrape does.
func text(t *testing.T, reg *prometheus.Registry) *bytes.Buffer {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&b, family); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

// A scrape and the manager do not disturb each other.
func TestWithManager(t *testing.T) {
	c := New(Config{Group: FirstSegment})
	m := open(t, c)
	l, err := m.Exclusive("jobs/nightly")
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gather(t, c).expect(t, `
		locks{group="jobs",kind="exclusive",phase="held"} 1
		holders{group="jobs",kind="exclusive"} 1
		session_state{state="connected"} 1
		grants_total 1
	`)
	if err := h.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if err := l.Do(t.Context(), func(context.Context, manager.Hold) error { return nil }); err != nil {
					t.Error(err)
				}
				if _, err := reg.Gather(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	m.Close() // which waits until all events have been observed
	got := gather(t, c)
	if grants, waits := got.value("grants_total", ""), got.value("wait_seconds", `group="jobs",kind="exclusive",outcome="granted"`); grants != waits || grants < 2 {
		t.Errorf("%v grants, but %v waits were granted", grants, waits)
	}
}

// BenchmarkObserve takes the events of one uncontended Lock and Unlock.
func BenchmarkObserve(b *testing.B) {
	of := manager.Event{Lock: "jobs/a", LockKind: manager.KindExclusive, Waited: time.Millisecond, Held: time.Millisecond}
	queued, granted, released := of, of, of
	queued.Kind, granted.Kind, released.Kind = manager.EventQueued, manager.EventGranted, manager.EventReleased
	for name, cfg := range map[string]Config{"plain": {}, "groups": {Group: FirstSegment}} {
		b.Run(name, func(b *testing.B) {
			c := New(cfg)
			b.ReportAllocs()
			for b.Loop() {
				c.Observe(queued)
				c.Observe(granted)
				c.Observe(released)
			}
		})
	}
}
