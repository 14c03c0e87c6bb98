// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// What a fault hit, and what it cost.
func TestHits(t *testing.T) {
	const before = "p0 a: 1 request, 1.1 granted t10; p1 a: 1.2 request; p1 m: 1.5 request, 1.6 granted t5.1; "
	for _, tt := range []struct {
		name, history            string
		held, waiting, releasing bool
		lost                     string
	}{
		{"a server", before + "h: 2 began 1 kill-leader server 2 (leader), 3 over 1", true, true, false, ""},
		{"a process that holds", before + "h: 2 began 1 cut-connection process 0, 2 over 1", true, false, false, ""},
		{"a process that holds one and waits for another", before + "h: 2 began 1 cut-connection process 1, 2 over 1", true, true, false, ""},
		{"a process that does nothing", before + "h: 2 began 1 cut-connection process 2, 2 over 1", false, false, false, ""},
		{"a process that begins to do something", before + `
			p2 a: 2.1 request, 3.4 granted t12, 3.5 release; p0 a: 3.1 release, 3.1 released
			p1 a: 3.2 granted t11, 3.3 release; h: 2 began 1 delay-link process 2, 3 over 1`, false, true, false, ""},
		{"a process beside one that begins to do something", before + "p2 a: 2.1 request; h: 2 began 1 delay-link process 3, 3 over 1", false, false, false, ""},
		{"a release", before + "p0 a: 2 release, 2.3 released; h: 2.1 began 1 cut-connection process 0, 2.2 over 1", false, false, true, ""},
		{"a process that is killed", before + "h: 2 began 1 kill-worker process 0, 2 ended p0, 2 over 1", true, false, false, `lock "a" by process 0, which ended`},
		{"a process that was killed a moment before", before + "h: 2 ended p0, 2.001 began 1 kill-worker process 0, 2.002 over 1", true, false, false, `lock "a" by process 0, which ended`},
		{"a loss during it", before + "p0 a: 3 lost; h: 2 began 1 blackhole-connection process 0, 4 over 1", true, false, false, `lock "a" by process 0`},
		{"a loss after it", before + "p0 a: 6.9 lost; p1 m: 6.95 lost; h: 2 began 1 isolate-leader server 1, 3 over 1", true, true, false, `lock "a" by process 0, lock "m" by process 1`},
		{"a loss long after it", before + "p0 a: 7.1 lost; h: 2 began 1 isolate-leader server 1, 3 over 1", true, true, false, ``},
		{"another process's loss", before + "p1 m: 3 lost; h: 2 began 1 blackhole-connection process 0, 4 over 1", true, false, false, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), tt.history)
			if len(v.Injected) != 1 || len(v.Faults) != 1 {
				t.Fatalf("faults: %+v, %+v", v.Injected, v.Faults)
			}
			f := v.Faults[0]
			if got := [3]bool{f.Held == 1, f.Waiting == 1, f.Releasing == 1}; got != [3]bool{tt.held, tt.waiting, tt.releasing} {
				t.Errorf("hits on held, waiting, releasing: %t", got)
			}
			lost := strings.Join(v.Injected[0].Lost, ", ")
			if lost != tt.lost || f.Lost != len(v.Injected[0].Lost) {
				t.Errorf("lost: %s (%d), want %s", lost, f.Lost, tt.lost)
			}
		})
	}
}

// A run whose faults hit nothing shows nothing.
func TestVoid(t *testing.T) {
	const busy, rest = "p0 a: 1 request, 1.1 granted t10; p1 a: 1 request; ", "p0 a: 5 release; p1 a: 5.1 granted t11, 6 release; h: 7 stopping now; "
	for _, tt := range []struct {
		name, history string
		nemesis       []string
		want          verdict.Outcome
		text          string
	}{
		{"no fault, and none promised", busy + rest, nil, verdict.OK, ""},
		{"one that hit", busy + "h: 2 began 1 kill-leader server 1, 2 over 1; " + rest, []string{"kill-leader"}, verdict.OK, ""},
		{"one that was not injected", busy + rest, []string{"kill-leader"}, verdict.Void, "kill-leader was never injected"},
		{"one that hit no waiting process", busy + "h: 2 began 1 sever process 0, 2 over 1; " + rest, []string{"sever"}, verdict.Void, "sever was injected once; it took effect once while a lock was held, and never while a process waited for one"},
		{"several hit together what one must", busy + "h: 2 began 1 sever process 0, 2 over 1, 3 began 2 sever process 1, 3 over 2; " + rest, []string{"sever"}, verdict.OK, ""},
		{"something is wrong all the same", busy + rest + "h: 8 left /x", []string{"kill-leader"}, verdict.Failed, "left in ZooKeeper"},
		{"nothing", "h: 1 alive now", nil, verdict.Void, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := header()
			h.Nemesis = tt.nemesis
			v := on(t, h, tt.history)
			if v.Outcome != tt.want {
				t.Errorf("the outcome is %v, want %v", v.Outcome, tt.want)
			}
			if tt.text != "" && (len(v.Findings) == 0 || !strings.Contains(v.Findings[0].Text, tt.text)) {
				t.Errorf("findings: %+v", v.Findings)
			}
		})
	}
}

// The numbers of a verdict.
func TestNumbers(t *testing.T) {
	v := on(t, header(), `
		p0 a: 1 request, 1.5 granted t10 0x1, 2 release, 4 request, 4.001 granted t12 0x1, 5 lost 0x1
		p1 a: 1.5 request, 2.25 granted t11 0x2, 3 lost 0x2, 10 request, 10.1 granted t14, 12 release
		p0w1 a: 4 request, 4.002 granted t12 0x1, 5.1 lost 0x1; p2 a: 6 request, 7 granted t13 0x3, 11.1 lost 0x3
		h: 3.5 expired 0x2, 5.3 expired 0x1, 7.1 accepted a t13, 7.2 stale a t12, 7.3 began 1 pause-worker process 2, 11 over 1, 13 stopping now`)
	if v.Outcome != verdict.OK || v.Found != 0 {
		t.Fatalf("%v: %+v", v.Outcome, v.Findings)
	}
	if v.Requests != 6 || v.Grants != 6 || v.LostHolds != 3 || v.ToldLate != 0 || v.StaleAttempts != 1 || v.PausedOverlaps != 1 {
		t.Errorf("%+v", v)
	}
	if v.MarginLeast != 200 || v.MarginMedian != 500 || v.Margins != 2 {
		t.Errorf("margins: least %v, median %v of %d", v.MarginLeast, v.MarginMedian, v.Margins)
	}
	if s := v.HandOvers; s.N != 1 || s.Most != 250 {
		t.Errorf("hand-overs: %+v", s)
	}
	if s := v.Waits; s.N != 6 || s.Most != 1000 || s.Median < 99 || s.Median > 101 {
		t.Errorf("waits: %+v", s)
	}
	var sum uint64
	for _, n := range v.Waits.Buckets {
		sum += n
	}
	if sum != 6 || v.Waits.Buckets[9] != 1 { // one millisecond
		t.Errorf("buckets: %d", v.Waits.Buckets)
	}
}

// A margin is that of a loss that belongs to the end of the session.
func TestMargins(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		margins       int
	}{
		{"lost, and ended", "p0 a: 2 lost 0x1; h: 3 expired 0x1", 1},
		{"lost, and granted to the same session again", "p0 a: 2 lost 0x1, 2.1 request, 2.2 granted t11 0x1, 2.3 release 0x1; h: 4 expired 0x1", 0},
		{"lost long before", "p0 a: 2 lost 0x1; h: 9 expired 0x1", 0},
		{"another session", "p0 a: 2 lost 0x1; h: 3 expired 0x2", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), "p0 a: 1 request, 1.1 granted t10 0x1", tt.history)
			if v.Margins != tt.margins || v.Outcome != verdict.OK {
				t.Errorf("%d margins, want %d; %v", v.Margins, tt.margins, v.Outcome)
			}
		})
	}
}

// The worst findings come first, with the faults that were active, and there are not too
// many.
func TestFindings(t *testing.T) {
	var text strings.Builder
	text.WriteString("h: 0.5 left /x, 0.6 began 7 kill-leader server 1\n")
	for i := range 300 {
		fmt.Fprintf(&text, "p0 a: %d request, %[1]d.1 granted t5, %[1]d.2 release; p1 a: %[1]d.3 request, %[1]d.4 granted t4, %[1]d.5 release\n", i+1)
	}
	v := on(t, header(), text.String())
	if len(v.Findings) != verdict.MaxFindings || v.Found < 300 {
		t.Errorf("%d findings of %d", len(v.Findings), v.Found)
	}
	first := v.Findings[0]
	if first.At > 1_400_000_000 || !slices.Equal(first.Faults, []int{7}) || first.Lock != "a" {
		t.Errorf("the first is %+v", first)
	}
	if slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Check == verdict.Left }) {
		t.Error("a lesser finding displaces a worse one")
	}
	for _, c := range v.Checks {
		if c.Found > 0 && c.Judged == 0 {
			t.Errorf("%q has found something, but judged nothing", c.Name)
		}
	}
	if _, err := verdict.Read(t.TempDir()); err == nil {
		t.Error("a verdict was read that does not exist")
	}
	dir := t.TempDir()
	if err := v.Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := verdict.Read(dir); err != nil || got.Found != v.Found {
		t.Errorf("read %d findings, %v", got.Found, err)
	}
}

// An interim verdict does not change the final one.
func TestInterim(t *testing.T) {
	h, events := generate(3, 3000)
	j := New(h)
	for i, e := range events {
		j.Add(e)
		if i%500 == 0 {
			if v := j.Interim(); v.Outcome == verdict.Violation || v.Outcome == verdict.Failed {
				t.Errorf("after %d events: %v", i, v.Outcome)
			}
		}
	}
	if got, want := fmt.Sprint(j.Finish()), fmt.Sprint(judged(h, events)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got, want := fmt.Sprint(j.Finish()), fmt.Sprint(j.Interim()); got != want {
		t.Errorf("finishing twice: got %s\nwant %s", got, want)
	}
}
