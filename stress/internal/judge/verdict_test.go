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
	const before = `
		1 p0 request a
		1.1 p0 granted a t10
		1.2 p1 request a
		1.5 p1 request m
		1.6 p1 granted m t5.1
	`
	tests := []struct {
		name, history            string
		held, waiting, releasing bool
		lost                     string
	}{
		{"a server", before + `
			2 h began 1 kill-leader server 2 (leader)
			3 h over 1`, true, true, false, ""},
		{"a process that holds", before + `
			2 h began 1 cut-connection process 0
			2 h over 1`, true, false, false, ""},
		{"a process that holds one and waits for another", before + `
			2 h began 1 cut-connection process 1
			2 h over 1`, true, true, false, ""},
		{"a process that does nothing", before + `
			2 h began 1 cut-connection process 2
			2 h over 1`, false, false, false, ""},
		{"a process that begins to do something", before + `
			2 h began 1 delay-link process 2
			2.1 p2 request a
			3 h over 1
			3.1 p0 release a
			3.1 p0 released a
			3.2 p1 granted a t11
			3.3 p1 release a
			3.4 p2 granted a t12
			3.5 p2 release a`, false, true, false, ""},
		{"a process beside one that begins to do something", before + `
			2 h began 1 delay-link process 3
			2.1 p2 request a
			3 h over 1`, false, false, false, ""},
		{"a release", before + `
			2 p0 release a
			2.1 h began 1 cut-connection process 0
			2.2 h over 1
			2.3 p0 released a`, false, false, true, ""},
		{"a process that is killed", before + `
			2 h began 1 kill-worker process 0
			2 h ended p0
			2 h over 1`, true, false, false, `lock "a" by process 0, which ended`},
		{"a process that was killed a moment before", before + `
			2 h ended p0
			2.001 h began 1 kill-worker process 0
			2.002 h over 1`, true, false, false, `lock "a" by process 0, which ended`},
		{"a loss during it", before + `
			2 h began 1 blackhole-connection process 0
			3 p0 lost a
			4 h over 1`, true, false, false, `lock "a" by process 0`},
		{"a loss after it", before + `
			2 h began 1 isolate-leader server 1
			3 h over 1
			6.9 p0 lost a
			6.95 p1 lost m`, true, true, false, `lock "a" by process 0, lock "m" by process 1`},
		{"a loss long after it", before + `
			2 h began 1 isolate-leader server 1
			3 h over 1
			7.1 p0 lost a`, true, true, false, ``},
		{"another process's loss", before + `
			2 h began 1 blackhole-connection process 0
			3 p1 lost m
			4 h over 1`, true, false, false, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history))
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
	const busy = `
		1 p0 request a
		1 p1 request a
		1.1 p0 granted a t10`
	const rest = `
		5 p0 release a
		5.1 p1 granted a t11
		6 p1 release a
		7 h stopping now`
	for _, tt := range []struct {
		name, history string
		nemesis       []string
		want          verdict.Outcome
		text          string
	}{
		{"no fault, and none promised", busy + rest, nil, verdict.OK, ""},
		{"one that hit", busy + "\n2 h began 1 kill-leader server 1\n2 h over 1" + rest, []string{"kill-leader"}, verdict.OK, ""},
		{"one that was not injected", busy + rest, []string{"kill-leader"}, verdict.Void, "kill-leader was never injected"},
		{"one that hit no waiting process", busy + "\n2 h began 1 sever process 0\n2 h over 1" + rest, []string{"sever"}, verdict.Void, "sever was injected once; it took effect once while a lock was held, and never while a process waited for one"},
		{"several hit together what one must", busy + "\n2 h began 1 sever process 0\n2 h over 1\n3 h began 2 sever process 1\n3 h over 2" + rest, []string{"sever"}, verdict.OK, ""},
		{"something is wrong all the same", busy + rest + "\n8 h left /x", []string{"kill-leader"}, verdict.Failed, "left in ZooKeeper"},
		{"nothing", "1 h alive now", nil, verdict.Void, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := header()
			h.Nemesis = tt.nemesis
			v := judged(h, script(t, tt.history))
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
	v := judged(header(), script(t, `
		1 p0 request a
		1.5 p0 granted a t10 0x1
		1.5 p1 request a
		2 p0 release a
		2.25 p1 granted a t11 0x2
		3 p1 lost a 0x2
		3.5 h expired 0x2
		4 p0 request a
		4 p0w1 request a
		4.001 p0 granted a t12 0x1
		4.002 p0w1 granted a t12 0x1
		5 p0 lost a 0x1
		5.1 p0w1 lost a 0x1
		5.3 h expired 0x1
		6 p2 request a
		7 p2 granted a t13 0x3
		7.1 h accepted a t13
		7.2 h stale a t12
		7.3 h began 1 pause-worker process 2
		10 p1 request a
		10.1 p1 granted a t14
		11 h over 1
		11.1 p2 lost a 0x3
		12 p1 release a
		13 h stopping now`))
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
		{"lost, and ended", "2 p0 lost a 0x1\n3 h expired 0x1", 1},
		{"lost, and granted to the same session again", `
			2 p0 lost a 0x1
			2.1 p0 request a
			2.2 p0 granted a t11 0x1
			2.3 p0 release a 0x1
			4 h expired 0x1`, 0},
		{"lost long before", "2 p0 lost a 0x1\n9 h expired 0x1", 0},
		{"another session", "2 p0 lost a 0x1\n3 h expired 0x2", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, "1 p0 request a\n1.1 p0 granted a t10 0x1\n"+tt.history))
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
	text.WriteString("0.5 h left /x\n0.6 h began 7 kill-leader server 1\n")
	for i := range 300 {
		fmt.Fprintf(&text, "%d p0 request a\n%d.1 p0 granted a t5\n%d.2 p0 release a\n", i+1, i+1, i+1)
		fmt.Fprintf(&text, "%d.3 p1 request a\n%d.4 p1 granted a t4\n%d.5 p1 release a\n", i+1, i+1, i+1)
	}
	v := judged(header(), script(t, text.String()))
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
