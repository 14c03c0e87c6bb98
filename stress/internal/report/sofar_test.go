// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The page of a run that goes on says so, and how to get the whole one.
func TestPageSoFar(t *testing.T) {
	s := generate(small)
	s.verdict.LostHolds = 3
	dir := t.TempDir()
	if err := WriteSoFar(dir, s.header, s.verdict, origin+3*60*second+20*second); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{
		"<title>" + string(s.verdict.Outcome) + " so far: ", "until 3 min 20 s after its beginning", "go run ./stress -check",
		"3 holds lost", "They are not listed before the end of the run.", `id="fault-1"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if text = pageIn(t, dir, s.header, s.verdict, s.events()); strings.Contains(text, "so far") || strings.Contains(text, "before the end of the run") {
		t.Error("the page of a run that has ended says that it goes on")
	}
}

// full is the verdict on a run of a day with faults of every kind.
func full() verdict.Verdict {
	v := verdict.Verdict{Outcome: verdict.OK, Grants: 20_000_000}
	for i := range mostFaults {
		h := verdict.Hit{Fault: i + 1, Kind: faultKinds[i%len(faultKinds)].kind, Target: "process 1", Began: origin + int64(i)*17*second, Ended: origin + int64(i)*17*second + 5*second}
		for j := range 5 {
			h.Lost = append(h.Lost, fmt.Sprintf("lock \"stress/L%d\" by process 1", j))
		}
		v.Injected = append(v.Injected, h)
	}
	for i := range 100 {
		v.Findings = append(v.Findings, verdict.Finding{Check: "x", Lock: "stress/L1", At: origin + int64(i)*second, Text: strings.Repeat("what is wrong ", 30)})
	}
	return v
}

// BenchmarkSoFar writes the page of a run that has gone on for a day.
func BenchmarkSoFar(b *testing.B) {
	dir, v := b.TempDir(), full()
	h := generate(small).header
	for b.Loop() {
		if err := WriteSoFar(dir, h, v, origin+24*3600*second); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, Name))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB")
}

// What a page is made from takes no more memory at the end of a long history than after a
// quarter of it.
func TestCollectorIsBounded(t *testing.T) {
	const most, kills = 4000, 24_000
	c := newCollector(history.Header{Begin: 1, Processes: 4, Locks: []history.Lock{{Name: "a"}, {Name: "q-*"}}}, full())
	c.most = most
	sizes := func() map[string]int {
		return map[string]int{
			"acquisitions": len(c.closed), "open": len(c.open), "losses": len(c.losses.items), "lives": len(c.lives.items), "outages": len(c.outages.items),
			"expired": len(c.expired), "faults": len(c.about), "locks": len(c.locks), "texts": len(c.texts.all), "sleeps": len(c.sleeps), "living": len(c.living),
			"sessions": len(c.points[pointSession].items), "stale": len(c.points[pointStale].items), "times left out": len(c.thinner.gone), "rows": len(c.meters.all),
		}
	}
	var quarter map[string]int
	at := int64(1)
	for kill := range kills {
		e := history.Event{Process: kill % 4, Incarnation: kill / 4, Op: 1, Lock: "a", Token: uint64(kill + 1), Session: fmt.Sprintf("0x%x", kill)}
		add := func(kind history.Kind, change func(*history.Event)) {
			at += int64(10 * time.Millisecond)
			x := e
			x.At, x.Kind = at, kind
			if change != nil {
				change(&x)
			}
			c.add(x)
		}
		harness := func(x *history.Event) { x.Process, x.Fault, x.Text = history.Harness, kill+1, "kill-worker" }
		add(history.Started, nil)
		add(history.Session, func(x *history.Event) { x.Text = history.SessionBegan })
		add(history.Session, func(x *history.Event) { x.Text = history.SessionSuspended })
		add(history.Session, func(x *history.Event) { x.Text = history.SessionResumed })
		for op := range uint64(3) {
			as := func(x *history.Event) {
				if x.Op = op + 1; op > 0 {
					x.Lock = fmt.Sprintf("q-%d-%d", kill, op)
				}
			}
			add(history.Request, as)
			add(history.Granted, as)
			add(history.Write, as)
			if op == 2 {
				add(history.Lost, func(x *history.Event) { as(x); x.Text = fmt.Sprint("the cause ", kill) })
			}
		}
		add(history.FaultBegan, harness)
		add(history.Ended, nil)
		add(history.FaultEnded, harness)
		add(history.Expired, harness)
		if kill == kills/4 {
			quarter = sizes()
		}
	}
	// Of texts, the bytes are limited, and the times that are left out are counted in seconds.
	bound := map[string]int{"texts": 60_000, "times left out": int((at - 1) / second)}
	for what, n := range sizes() {
		most := max(bound[what], 2*max(quarter[what], 10), 2*most)
		switch what {
		case "losses", "lives", "outages", "expired", "faults":
			most = 5000
		case "locks", "sessions", "stale":
			most = 10_001
		}
		if n > most {
			t.Errorf("%s: %d after a quarter, %d at the end", what, quarter[what], n)
		}
	}
}
