// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// Names follow Prometheus's rules, from which manager/otel derives those of OpenTelemetry:
// "_total" is a counter, "_seconds" has the unit "s".
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range slices.Concat(OfEvents(), OfState()) {
		base, total := strings.CutSuffix(m.Name, "_total")
		base, seconds := strings.CutSuffix(base, "_seconds")
		switch {
		case seen[base]:
			t.Errorf("%s: another metric has this name", m.Name)
		case total != (m.Kind == Counter):
			t.Errorf("%s: the suffix _total does not match the kind", m.Name)
		case seconds != (m.Unit == "s"):
			t.Errorf("%s: the suffix _seconds does not match the unit %q", m.Name, m.Unit)
		case !seconds && m.Unit != "" && strings.Trim(m.Unit, "{}") == m.Unit:
			t.Errorf("%s: the unit %q would become a suffix", m.Name, m.Unit)
		case m.Help == "" || !strings.HasSuffix(m.Help, "."):
			t.Errorf("%s: no help", m.Name)
		}
		seen[base] = true
		for _, cfg := range []Config{{}, {Group: FirstSegment}} {
			if n, most := len(cfg.Labels(m)), len(Labels{}.values); n > most {
				t.Errorf("%s has %d labels, more than %d", m.Name, n, most)
			}
		}
	}
	if len(seen) < 35 {
		t.Errorf("%d metrics", len(seen))
	}
}

// values are metrics: name{label="value",…} and value.
type values map[string]float64

// sink returns a Sink that keeps gauges and sums the rest up.
func (v values) sink(t *testing.T, cfg Config) Sink {
	return func(m *Metric, value float64, l Labels) {
		names := cfg.Labels(m)
		if len(names) != len(l.Values()) {
			t.Errorf("%s has labels %q with values %q", m.Name, names, l.Values())
			return
		}
		var parts []string
		for i, name := range names {
			parts = append(parts, fmt.Sprintf("%s=%q", name, l.Values()[i]))
		}
		key := m.Name
		if len(parts) > 0 {
			key += "{" + strings.Join(parts, ",") + "}"
		}
		switch m.Kind {
		case Gauge:
			v[key] = value
		case Counter, Histogram:
			v[key] += value
		}
	}
}

// expect checks values: name{labels} value, one in a line; "none" if there must be none.
func (v values) expect(t *testing.T, want string) {
	t.Helper()
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, text, _ := strings.Cut(line, " ")
		got := "none"
		if value, ok := v[key]; ok {
			got = fmt.Sprint(value)
		}
		if got != text {
			t.Errorf("%s is %s, want %s", key, got, text)
		}
	}
}

func TestObserve(t *testing.T) {
	refused := errors.New("refused")
	for _, tt := range []struct {
		name  string
		event manager.Event
		want  string
	}{
		{"nothing yet", manager.Event{}, `
			losses_total{cause="paused"} 0
			losses_total{cause="other"} 0
			failures_total{cause="context"} 0
			yields_total 0
			revocations_total 0
			connection_losses_total 0
			unconfirmed_releases_total{cause="unconfirmed"} none
			outage_seconds none
			wait_seconds{kind="read",outcome="granted"} none`},
		{"granted", manager.Event{Kind: manager.EventGranted, Waited: time.Minute},
			`wait_seconds{kind="read",outcome="granted"} 60`},
		{"failed", manager.Event{Kind: manager.EventFailed, Waited: time.Second, Err: manager.ErrNotGranted}, `
			wait_seconds{kind="read",outcome="failed"} 1
			failures_total{cause="context"} 1
			losses_total{cause="other"} 0`},
		{"released", manager.Event{Kind: manager.EventReleased, Waited: time.Second, Held: time.Hour}, `
			hold_seconds{kind="read",outcome="released"} 3600
			wait_seconds{kind="read",outcome="granted"} none
			unconfirmed_releases_total{cause=""} none`},
		{"not confirmed", manager.Event{Kind: manager.EventReleased, Err: manager.ErrUnconfirmed},
			`unconfirmed_releases_total{cause="unconfirmed"} 1`},
		{"lost", manager.Event{Kind: manager.EventLost, Held: time.Second, Err: manager.ErrClosed}, `
			hold_seconds{kind="read",outcome="lost"} 1
			losses_total{cause="closed"} 1`},
		{"yielded", manager.Event{Kind: manager.EventYielded}, `yields_total 1`},
		{"revoked", manager.Event{Kind: manager.EventRevoked}, `revocations_total 1`},
		{"connection lost", manager.Event{Kind: manager.EventConnectionLost, Err: refused}, `connection_losses_total 1`},
		{"connection resumed", manager.Event{Kind: manager.EventConnectionResumed, Waited: time.Second}, `outage_seconds 1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := values{}
			s := New(Config{}, got.sink(t, Config{}))
			if tt.event.Kind != manager.EventConnectionLost && tt.event.Kind != manager.EventConnectionResumed {
				tt.event.Lock, tt.event.LockKind = "jobs/a", manager.KindRead
			}
			s.Observe(tt.event)
			got.expect(t, tt.want)
		})
	}
}

// A lock's group is the last label, and its counters begin at zero with the first event or
// collection in which it occurs.
func TestGroups(t *testing.T) {
	cfg := Config{Group: FirstSegment, MaxGroups: 1}
	got := values{}
	s := New(cfg, got.sink(t, cfg))
	got.expect(t, `yields_total{group="jobs"} none`)
	collect(t, cfg, s, info("jobs/a", manager.KindRead, state.Retained)).expect(t, `
		locks{kind="read",phase="held",group="jobs"} 1
		holders{kind="read",group="jobs"} 2
		locks{kind="write",phase="held",group="jobs"} none`)
	got.expect(t, `yields_total{group="jobs"} 0`)
	s.Observe(manager.Event{Kind: manager.EventYielded, Lock: "reports/b"})
	got.expect(t, `
		yields_total{group="jobs"} 0
		yields_total{group="reports"} none
		yields_total{group="other"} 1
		losses_total{cause="lease",group="other"} 0`)
	collect(t, cfg, s).expect(t, `
		locks{kind="read",phase="held",group="jobs"} 0
		holders{kind="read",group="jobs"} 0`)
}

// info returns a lock with two callers.
func info(name string, kind manager.Kind, phase state.Phase) manager.LockInfo {
	l := manager.LockInfo{Name: name, Kind: kind}
	l.Stats.Phase, l.Stats.Holders = phase, 2
	return l
}

// collect returns the metrics of a Manager with these locks.
func collect(t *testing.T, cfg Config, s *Source, locks ...manager.LockInfo) values {
	got := values{}
	s.Collect(manager.ManagerStats{Requests: map[string]uint64{"multi": 3}}, slices.Values(locks), got.sink(t, cfg))
	return got
}

// Without locks, each metric of a Manager is there, but not one more.
func TestCollectIsComplete(t *testing.T) {
	s := New(Config{}, func(*Metric, float64, Labels) {})
	got := map[*Metric]int{}
	s.Collect(manager.ManagerStats{Requests: map[string]uint64{"multi": 3}}, slices.Values([]manager.LockInfo(nil)),
		func(m *Metric, _ float64, _ Labels) { got[m]++ })
	for _, m := range OfState() {
		if got[m] == 0 {
			t.Errorf("%s has no value", m.Name)
		}
		delete(got, m)
	}
	for m := range got {
		t.Errorf("OfState does not have %s", m.Name)
	}
}

// The number of lost races rises, although locks are forgotten.
func TestLostRaces(t *testing.T) {
	s := New(Config{}, func(*Metric, float64, Labels) {})
	lock := func(name string, lost, longest uint64) manager.LockInfo {
		l := info(name, manager.KindExclusive, state.Free)
		l.Stats.LostRaces, l.Stats.LongestRace = lost, longest
		return l
	}
	for i, tt := range []struct {
		locks []manager.LockInfo
		want  string
	}{
		{nil, "lost_races_total 0\nlongest_race 0"},
		{[]manager.LockInfo{lock("a", 5, 2), lock("b", 1, 1)}, "lost_races_total 6\nlongest_race 2"},
		{[]manager.LockInfo{lock("a", 7, 4), lock("b", 1, 1)}, "lost_races_total 8\nlongest_race 4"},
		{[]manager.LockInfo{lock("b", 1, 1)}, "lost_races_total 8\nlongest_race 1"},                   // a is forgotten,
		{[]manager.LockInfo{lock("a", 3, 1), lock("b", 1, 1)}, "lost_races_total 11\nlongest_race 1"}, // and comes again
		{[]manager.LockInfo{lock("a", 1, 1)}, "lost_races_total 12\nlongest_race 1"},                  // as another one
		{[]manager.LockInfo{lock("a", 4, 1), lock("a", 4, 1)}, "lost_races_total 15\nlongest_race 1"}, // LockAll wants it, too,
		{[]manager.LockInfo{lock("a", 5, 1), lock("a", 4, 1)}, "lost_races_total 16\nlongest_race 1"}, // and is not counted
		{[]manager.LockInfo{lock("a", 5, 1)}, "lost_races_total 16\nlongest_race 1"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			collect(t, Config{}, s, tt.locks...).expect(t, tt.want)
		})
	}
}
