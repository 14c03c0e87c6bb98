// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// judgedFrom returns the verdict on the rest of a history.
func judgedFrom(h history.Header, events []history.Event, from int64) Verdict {
	j := New(h)
	j.partial, j.from = true, from
	for _, e := range events {
		j.Add(e)
	}
	return j.Finish()
}

// Wherever the history of locks that work begins, nothing is wrong with the rest: what it
// lacks is not held against it.
func TestRestOfAGoodHistory(t *testing.T) {
	for seed := range uint64(20) {
		h, events := generate(seed, 6000)
		for cut := 1; cut < 10; cut++ {
			v := judgedFrom(h, events, events[len(events)*cut/10].At)
			if v.Found > 0 || v.Grants == 0 {
				t.Fatalf("seed %d, %d tenths cut off: %d grants, %+v", seed, cut, v.Grants, v.Findings)
			}
		}
	}
}

// What is wrong with the rest is found.
func TestRestOfABadHistory(t *testing.T) {
	events := script(t, `
		1 p0 request a
		1.1 p0 granted a t5
		2 p1 request a
		2.1 p1 granted a t6
		3 p0 release a
		3.1 p0 released a
		3.2 p1 release a
		3.3 p1 released a
		10 p0 request a
		10.1 p0 granted a t10
		10.2 h accepted a t9
		10.3 h accepted a t10
		10.4 h accepted a t11
		10.5 p1 request a
		10.6 p1 granted a t12
		11 p0 release a
		11.1 p0 released a
		11.2 p1 release a
		11.3 p1 released a
		12 h stopping now`)
	for _, tt := range []struct {
		from  float64
		twice int    // held twice
		note  string // of the register
	}{
		{0, 2, ""},
		{5, 1, "of 1 writes it is not known"},
		{10.55, 0, ""},
	} {
		v := judgedFrom(header(), events, int64(tt.from*float64(time.Second)))
		if c := v.Checks[0]; int(c.Found) != tt.twice {
			t.Errorf("from %v s: %d overlaps, want %d", tt.from, c.Found, tt.twice)
		}
		if c := v.Checks[3]; !strings.HasPrefix(c.Note, tt.note) || tt.from == 5 && c.Found != 1 { // the token 11 was granted to no process
			t.Errorf("from %v s: the register: %+v", tt.from, c)
		}
	}
}

// The verdict of a run and that on the rest of its history make one verdict.
func TestVerdictWithTheRest(t *testing.T) {
	old := Finding{Check: "x", At: 1, Text: "of long ago"}
	both := Finding{Check: "x", At: 2, Text: "in both"}
	fresh := Finding{Check: Whole, At: 3, Text: "the run was killed"}
	run := Verdict{Outcome: Failed, Findings: []Finding{old, both}, Found: 7, Grants: 1000, Checks: []Check{{Name: "x", Judged: 50, Found: 7}}}
	clean := Verdict{Outcome: OK, Checks: []Check{{Name: Whole, Judged: 4}}}
	killed := Verdict{Outcome: Violation, Findings: []Finding{both, fresh}, Found: 2, Grants: 10, Checks: []Check{{Name: Whole, Judged: 4, Found: 1}}}
	for _, tt := range []struct {
		name    string
		v, rest Verdict
		outcome Outcome
		found   int
		texts   string
	}{
		{"nothing new", run, clean, Failed, 7, "of long ago, in both"},
		{"something new", run, killed, Violation, 8, "of long ago, in both, the run was killed"},
		{"a run without findings", clean, killed, Violation, 2, "in both, the run was killed"},
		{"nothing but few grants", clean, Verdict{Outcome: Void}, OK, 0, ""},
	} {
		got := tt.v.With(tt.rest, "said")
		var texts []string
		for _, f := range got.Findings {
			texts = append(texts, f.Text)
		}
		if got.Outcome != tt.outcome || got.Found != tt.found || strings.Join(texts, ", ") != tt.texts || got.Grants != tt.v.Grants {
			t.Errorf("%s: %+v", tt.name, got)
		}
		i := slices.IndexFunc(got.Checks, func(c Check) bool { return c.Name == Whole })
		if len(tt.rest.Checks) > 0 && (i < 0 || got.Checks[i].Note != "said") {
			t.Errorf("%s: nothing is said of what was not judged again: %+v", tt.name, got.Checks)
		}
		if again := got.With(tt.rest, "said"); again.Found != got.Found || len(again.Findings) != len(got.Findings) {
			t.Errorf("%s: checked once more: %+v", tt.name, again)
		}
	}
	if len(run.Findings) != 2 || run.Checks[0].Found != 7 {
		t.Error("the verdict of the run has changed")
	}
}
