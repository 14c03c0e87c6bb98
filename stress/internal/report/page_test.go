// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

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
		c := newCollector(h, verdict.Verdict{})
		fault := verdict.Hit{Fault: 5, Kind: "k", Target: tt.target, Began: 100, Ended: 200}
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

// A loss is told late if the session had ended before, unless the process was stopped. A server
// that may have been deposed does not know when a session ended.
func TestToldLate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		expired int64
		says    string // the server
		faults  []verdict.Hit
		want    string
		late    bool
	}{
		{"in time", 1200 * milli, "", nil, "200 ms before the leader ended its session", false},
		{"much later", 90 * second, "", nil, "its session lived on, for 1 min 29 s", false},
		{"late", 900 * milli, "", nil, "100 ms after the leader had ended its session", true},
		{"stopped", 900 * milli, "", []verdict.Hit{{Kind: "pause-worker", Target: "process 0", Began: 500 * milli, Ended: 950 * milli}}, "100 ms after the leader had ended its session, as soon as it ran again", false},
		{"another was stopped", 900 * milli, "", []verdict.Hit{{Kind: "pause-worker", Target: "process 1", Began: 500 * milli, Ended: 950 * milli}}, "100 ms after the leader had ended its session", true},
		{"not known", 0, "", nil, "", false},
		{"a deposed server", 900 * milli, history.Deposed, nil, "", false},
	} {
		c := newCollector(history.Header{Begin: 1, Processes: 2, SessionTimeout: 4 * second}, verdict.Verdict{Injected: tt.faults})
		c.add(history.Event{At: 1, Kind: history.Granted, Op: 1, Lock: "L"})
		c.add(history.Event{At: 1000 * milli, Kind: history.Lost, Op: 1, Lock: "L", Session: "0x1"})
		if tt.expired != 0 {
			c.add(history.Event{At: tt.expired, Kind: history.Expired, Process: history.Harness, Session: "0x1", Text: tt.says})
		}
		c.finish()
		if l := newView(c, nil, nil).Losses().First[0]; l.Told != tt.want || l.Late != tt.late {
			t.Errorf("%s: got %q, late: %v", tt.name, l.Told, l.Late)
		}
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
	c := newCollector(history.Header{Begin: 1, Processes: 4}, verdict.Verdict{Findings: []verdict.Finding{{Lock: "L", At: 50}, {Lock: "M", At: 50}}})
	events(c, 3, 10, 60)
	events(c, 0, 20, 49)
	events(c, 2, 49, 51)
	events(c, 1, 51, 70)
	c.finish()
	f := newView(c, nil, nil).Findings().First
	if f[0].Holders != "processes 2, 3" || f[1].Holders != "" {
		t.Errorf("got %q and %q", f[0].Holders, f[1].Holders)
	}
}

// Nothing leaves a histogram's picture, and its columns are as high as they should be.
func TestHistogram(t *testing.T) {
	for _, s := range []verdict.Spread{
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

// Equal costs are told once, and very many are cut.
func TestLostTexts(t *testing.T) {
	room := 1000
	if got := fmt.Sprint(lostTexts(verdict.Hit{Lost: []string{"a", "b", "a"}}, &room)); got != "[a (2 times) b]" {
		t.Errorf("got %s", got)
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i))
	}
	if got := lostTexts(verdict.Hit{Lost: many}, &room); len(got) != mostLost+1 || got[mostLost] != "and 60 more" {
		t.Errorf("got %q", got)
	}
	room = 5
	if got := fmt.Sprint(lostTexts(verdict.Hit{Lost: many}, &room)); got != "[0 1 2 3 4 and 95 more]" {
		t.Errorf("got %s", got)
	}
}

// A few items more than are open are open as well: a line that hides them would save nothing.
func TestFold(t *testing.T) {
	for n, first := range map[int]int{0: 0, 6: 6, 9: 9, 10: 6, 100: 6} {
		f := fold(make([]int, n), 6)
		if len(f.First) != first || len(f.First)+len(f.Rest) != n {
			t.Errorf("of %d items %d are open and %d are not", n, len(f.First), len(f.Rest))
		}
	}
}

// faulty is a history of two processes with faults that overlap. The history numbers them
// otherwise than in the order of time.
func faulty() (history.Header, verdict.Verdict, []history.Event) {
	const s = second
	h := history.Header{Begin: s, Processes: 2, SessionTimeout: s}
	v := verdict.Verdict{
		LostHolds: 5,
		Faults:    []verdict.Fault{{Kind: "cut-connection", N: 1, Lost: 3}, {Kind: "kill-leader", N: 2, Lost: 6}},
		Findings:  []verdict.Finding{{Check: "c", At: 6 * s, Faults: []int{4, 9, 77}}},
		Injected: []verdict.Hit{
			{Fault: 9, Kind: "cut-connection", Target: "process 0", Began: 6 * s, Ended: 7 * s, Lost: []string{`lock "a" by process 0`, `lock "b" by process 0`, `lock "e" by process 0`}},
			{Fault: 1, Kind: "kill-leader", Target: "server 1", Began: 2 * s, Ended: 2 * s},
			{Fault: 4, Kind: "kill-leader", Target: "server 2", Began: 5 * s, Ended: 6 * s, Lost: []string{`lock "a" by process 0`, `lock "b" by process 0`, `lock "c \"x\"" by process 1`, `lock "f" by process 1`, `lock "e" by process 0`, `lock "d" by process 1, which ended`}},
		},
	}
	grant := func(process int, op uint64, lock string) history.Event {
		return history.Event{At: 3 * s, Kind: history.Granted, Process: process, Op: op, Lock: lock, Token: op}
	}
	loss := func(at int64, process int, op uint64, lock, why string) history.Event {
		return history.Event{At: at, Kind: history.Lost, Process: process, Op: op, Lock: lock, Text: why}
	}
	return h, v, []history.Event{
		grant(0, 1, "a"), grant(0, 2, "b"), grant(1, 1, `c "x"`), grant(1, 2, "d"), grant(0, 3, "e"), grant(1, 3, "f"),
		loss(5500*milli, 1, 1, `c "x"`, "cut"), loss(6500*milli, 0, 1, "a", "no answer"), loss(6500*milli, 1, 3, "f", "no answer"), loss(6500*milli, 0, 2, "b", "no answer"),
		loss(6700*milli, 0, 3, "e", "no answer"),
	}
}

func TestFaultsAreNumberedInTheOrderOfTime(t *testing.T) {
	h, v, events := faulty()
	page := pageIn(t, t.TempDir(), h, v, slices.Values(events))
	at := 0
	for _, want := range []string{
		`#2 kill-leader</a>, <a href="#fault-3">#3 cut-connection</a></dd>`, // of the finding
		"where that is another number, it is in brackets",
		`#2 kill-leader <span class="dim">(4)</span>`,
		`#3 cut-connection <span class="dim">(9)</span>`,
		`#1 kill-leader</th>`, // it cost nothing
	} {
		i := strings.Index(page[at:], want)
		if i < 0 {
			t.Fatalf("the page lacks %s, or has it too early", want)
		}
		at += i
	}
	_, d := dataOf(t, page)
	if got := fmt.Sprint(d.Findings[0].Faults); got != "[2 3]" {
		t.Errorf("the timeline's finding has the faults %s", got)
	}
	for i, f := range d.Faults {
		if want := []int{1, 4, 9}[i]; f.Number != i+1 || f.Fault != want {
			t.Errorf("fault %d of the timeline has the numbers %d and %d, want %d", i, f.Number, f.Fault, want)
		}
	}
	for i := range v.Injected {
		v.Injected[i].Fault = []int{3, 1, 2}[i]
	}
	if page = pageIn(t, t.TempDir(), h, v, slices.Values(events)); strings.Contains(page, "in brackets") {
		t.Error("the page speaks of other numbers, which there are not")
	}
}

// What a process lost at once is told at once, and each fault names the others that may
// have cost the same.
func TestCosts(t *testing.T) {
	h, v, events := faulty()
	c := newCollector(h, v)
	for _, e := range events {
		c.add(e)
	}
	c.finish()
	var got []string
	for _, h := range newView(c, nil, nil).Costly().First {
		for _, l := range h.Lost {
			got = append(got, fmt.Sprintf("#%d %s: %q %s, %d %s %s, %v", h.Number, h.Kind, l.Locks, l.By, l.Row, l.At, l.When, l.Or))
		}
	}
	want := []string{
		`#2 kill-leader: ["a" "b"] by process 0, 2 0:05.500 500 ms after it, [{3 cut-connection during it}]`,
		`#2 kill-leader: ["c \"x\""] by process 1, 1 0:04.500 during it, []`,
		`#2 kill-leader: ["f"] by process 1, 3 0:05.500 500 ms after it, []`,
		`#2 kill-leader: ["e"] by process 0, 5 0:05.700 700 ms after it, [{3 cut-connection during it}]`,
		`#2 kill-leader: ["d"] by process 1, which ended, 0  , []`,
		`#3 cut-connection: ["a" "b"] by process 0, 2 0:05.500 during it, [{2 kill-leader 500 ms after it}]`,
		`#3 cut-connection: ["e"] by process 0, 5 0:05.700 during it, [{2 kill-leader 700 ms after it}]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	for _, row := range newView(c, nil, nil).Losses().First {
		var locks []string
		for _, h := range row.Holds {
			locks = append(locks, fmt.Sprintf("%d %s", h.Row, h.Lock))
		}
		got = append(got, fmt.Sprintf("%s process %d: %q, %v", row.At, row.Process, locks, row.Active))
	}
	want = []string{
		`0:04.500 process 1: ["1 c \"x\""], [{2 kill-leader during it}]`,
		`0:05.500 process 0: ["2 a" "4 b"], [{2 kill-leader 500 ms after it} {3 cut-connection during it}]`,
		`0:05.500 process 1: ["3 f"], [{2 kill-leader 500 ms after it}]`,
		`0:05.700 process 0: ["5 e"], [{2 kill-leader 700 ms after it} {3 cut-connection during it}]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the lost holds are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A reader must not add up what the faults may have cost.
func TestMayHaveCost(t *testing.T) {
	h, v, events := faulty()
	page := pageIn(t, t.TempDir(), h, v, slices.Values(events))
	if want := "they make 9, while 5 holds were lost in all."; !strings.Contains(page, want) {
		t.Errorf("the page does not say: %s", want)
	}
	v.Faults = v.Faults[:0]
	if page := pageIn(t, t.TempDir(), h, v, slices.Values(events)); strings.Contains(page, "added up") {
		t.Error("the page warns of adding up nothing")
	}
}
