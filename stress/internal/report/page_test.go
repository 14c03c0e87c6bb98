// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
)

func TestDurationText(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"}, {1500, "1.50 µs"}, {999_500, "1000 µs"}, {time.Millisecond, "1.00 ms"}, {23456 * time.Microsecond, "23.5 ms"},
		{234 * time.Millisecond, "234 ms"}, {2670 * time.Millisecond, "2.67 s"}, {59 * time.Second, "59.0 s"}, {-2 * time.Second, "−2.00 s"},
		{10*time.Minute + 3*time.Second, "10 min 3 s"}, {24*time.Hour + time.Minute, "24 h 1 min"},
	} {
		if got := durationText(tt.d); got != tt.want {
			t.Errorf("%d: got %s, want %s", tt.d, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := number(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// Which fault may have cost which hold, by the rule of the judge.
func TestMayCost(t *testing.T) {
	h := history.Header{Begin: 1, Processes: 4, SessionTimeout: 10}
	for _, tt := range []struct {
		name   string
		target string
		about  string       // a lock
		tells  history.Kind // the event that tells of that
		at     int64        // of the loss, of lock L by process 2
		want   bool
	}{
		{"during it", "server 1 (leader)", "", "", 150, true},
		{"before it", "server 1 (leader)", "", "", 99, false},
		{"two session timeouts later", "server 1 (leader)", "", "", 220, true},
		{"later", "server 1 (leader)", "", "", 221, false},
		{"that process", "process 2", "", "", 150, true},
		{"another process", "process 3", "", "", 150, false},
		{"that lock", "lock L", "L", history.FaultBegan, 150, true},
		{"another lock", "lock M", "M", history.FaultBegan, 150, false},
		{"another lock, as its end tells", "process 2", "M", history.FaultEnded, 150, false},
	} {
		c := newCollector(h, judge.Verdict{})
		fault := judge.Hit{Fault: 5, Kind: "k", Target: tt.target, Began: 100, Ended: 200}
		for _, kind := range []history.Kind{history.FaultBegan, history.FaultEnded} {
			e := history.Event{At: 100, Kind: kind, Process: history.Harness, Fault: 5}
			if kind == tt.tells {
				e.Lock = tt.about
			}
			c.add(e)
		}
		if got := c.mayCost(fault, loss{at: tt.at, process: c.process(2), lock: c.lock("L")}); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// A loss is told late if the session had ended before, unless the process was stopped.
func TestToldLate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		expired int64
		faults  []judge.Hit
		want    string
		late    bool
	}{
		{"in time", 1200 * milli, nil, "200 ms before the leader ended its session", false},
		{"much later", 90 * second, nil, "its session lived on, for 1 min 29 s", false},
		{"late", 900 * milli, nil, "100 ms after the leader had ended its session", true},
		{"stopped", 900 * milli, []judge.Hit{{Kind: "pause-worker", Target: "process 0", Began: 500 * milli, Ended: 950 * milli}}, "100 ms after the leader had ended its session, as soon as it ran again", false},
		{"another was stopped", 900 * milli, []judge.Hit{{Kind: "pause-worker", Target: "process 1", Began: 500 * milli, Ended: 950 * milli}}, "100 ms after the leader had ended its session", true},
		{"not known", 0, nil, "", false},
	} {
		c := newCollector(history.Header{Begin: 1, Processes: 2, SessionTimeout: 4 * second}, judge.Verdict{Injected: tt.faults})
		c.add(history.Event{At: 1, Kind: history.Granted, Op: 1, Lock: "L"})
		c.add(history.Event{At: 1000 * milli, Kind: history.Lost, Op: 1, Lock: "L", Session: "0x1"})
		if tt.expired != 0 {
			c.add(history.Event{At: tt.expired, Kind: history.Expired, Process: history.Harness, Session: "0x1"})
		}
		c.finish()
		if l := newView(c, nil, nil).Losses()[0]; l.Told != tt.want || l.Late != tt.late {
			t.Errorf("%s: got %q, late: %v", tt.name, l.Told, l.Late)
		}
	}
}

// A server that may have been deposed does not know when a session ended.
func TestToldLateByADeposedServer(t *testing.T) {
	c := newCollector(history.Header{Begin: 1, Processes: 2, SessionTimeout: 4 * second}, judge.Verdict{})
	c.add(history.Event{At: 1, Kind: history.Granted, Op: 1, Lock: "L"})
	c.add(history.Event{At: 1000 * milli, Kind: history.Lost, Op: 1, Lock: "L", Session: "0x1"})
	c.add(history.Event{At: 900 * milli, Kind: history.Expired, Process: history.Harness, Session: "0x1", Text: history.Deposed})
	c.finish()
	if l := newView(c, nil, nil).Losses()[0]; l.Told != "" || l.Late {
		t.Errorf("got %q, late: %v", l.Told, l.Late)
	}
}

// A finding names the processes that held the lock then.
func TestHolders(t *testing.T) {
	events := func(c *collector, process int, from, until int64) {
		for _, e := range []history.Event{{At: from, Kind: history.Granted}, {At: until, Kind: history.Release}, {At: until, Kind: history.Released}} {
			e.Process, e.Op, e.Lock = process, uint64(from), "L"
			c.add(e)
		}
	}
	c := newCollector(history.Header{Begin: 1, Processes: 4}, judge.Verdict{Findings: []judge.Finding{{Lock: "L", At: 50}, {Lock: "M", At: 50}}})
	events(c, 3, 10, 60)
	events(c, 0, 20, 49)
	events(c, 2, 49, 51)
	events(c, 1, 51, 70)
	c.finish()
	f := newView(c, nil, nil).Findings()
	if f[0].Holders != "processes 2, 3" || f[1].Holders != "" {
		t.Errorf("got %q and %q", f[0].Holders, f[1].Holders)
	}
}

// Nothing leaves a histogram's picture, and its columns are as high as they should be.
func TestHistogram(t *testing.T) {
	for _, s := range []judge.Spread{
		{},
		{N: 1, Median: 0.0005, P99: 0.0005, Most: 0.0005, Buckets: []uint64{1}},
		{N: 3, Median: 5, P99: 6, Most: 6, Buckets: []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}},
		{N: 1_000_001, Median: 1, P99: 2000, Most: 3e6, Buckets: append(append(make([]uint64, 10), 1_000_000), append(make([]uint64, 20), 1)...)},
	} {
		h := newHistogram("t", "a", s)
		var n uint64
		for _, b := range h.Bars {
			n += b.N
			if b.X < 0 || b.X+b.Width > 360 || b.Y < plotTop-0.1 || b.Y+b.Height > plotBottom+0.1 || b.Height < leastBar {
				t.Errorf("%v: the bar %+v leaves the picture", s, b)
			}
		}
		if n != s.N {
			t.Errorf("%v: the bars have %d", s, n)
		}
		for _, m := range append(h.Marks, h.Ticks...) {
			width := 5.5 * float64(len([]rune(m.Text)))
			left := map[string]float64{"start": m.TextX, "middle": m.TextX - width/2, "end": m.TextX - width}[m.Anchor]
			if left < 0 || left+width > 360 {
				t.Errorf("%v: %+v leaves the picture", s, m)
			}
		}
		if len(h.Marks) == 2 && h.Marks[0].TextX > h.Marks[1].TextX {
			t.Errorf("%v: the names of p50 and p99 overlap: %+v", s, h.Marks)
		}
	}
}

// The tables leave out what all errors of lost holds begin with.
func TestCause(t *testing.T) {
	for text, want := range map[string]string{
		`holdfast: hold "L": lock was lost: its lease ended`: "its lease ended",
		"the node was deleted":                               "the node was deleted",
	} {
		if got := cause(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// A run that shows nothing says why.
func TestWhy(t *testing.T) {
	v := judge.Verdict{Outcome: judge.Void, Faults: []judge.Fault{{Kind: "revoke", N: 2, Held: 2}, {Kind: "kill-worker", N: 1, Held: 1, Waiting: 1}}}
	c := newCollector(history.Header{Nemesis: []string{"kill-worker", "revoke", "kill-leader"}}, v)
	got := strings.Join(newView(c, nil, nil).Why(), "; ")
	if want := "revoke hit 2 times while a lock was held, and 0 times while one was waited for; kill-leader was never injected"; got != want {
		t.Errorf("got %s", got)
	}
}

// Equal costs are told once, and very many are cut.
func TestLostTexts(t *testing.T) {
	room := 1000
	if got := fmt.Sprint(lostTexts(judge.Hit{Lost: []string{"a", "b", "a"}}, &room)); got != "[a (2 times) b]" {
		t.Errorf("got %s", got)
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i))
	}
	if got := lostTexts(judge.Hit{Lost: many}, &room); len(got) != mostLost+1 || got[mostLost] != "and 60 more" {
		t.Errorf("got %q", got)
	}
	room = 5
	if got := fmt.Sprint(lostTexts(judge.Hit{Lost: many}, &room)); got != "[0 1 2 3 4 and 95 more]" {
		t.Errorf("got %s", got)
	}
}
