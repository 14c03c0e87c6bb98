// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
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
	for seed := range uint64(racing.Fewer(20)) {
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
	old := Finding{Check: waitsEnd, At: 1, Text: "of long ago"}
	both := Finding{Check: waitsEnd, At: 2, Text: "in both"}
	fresh := Finding{Check: Whole, At: 3, Text: "the run was killed"}
	run := Verdict{Outcome: Failed, Findings: []Finding{old, both}, Found: 2, Grants: 1000, Checks: []Check{{Name: waitsEnd, Judged: 50, Found: 2}}}
	clean := Verdict{Outcome: OK, Checks: []Check{{Name: Whole, Judged: 4}}}
	killed := Verdict{Outcome: Violation, Findings: []Finding{both, fresh}, Found: 2, Grants: 10, Checks: []Check{{Name: waitsEnd, Judged: 3, Found: 1}, {Name: Whole, Judged: 4, Found: 1}}}
	for _, tt := range []struct {
		name    string
		v, rest Verdict
		outcome Outcome
		found   int
		texts   string
	}{
		{"nothing new", run, clean, Failed, 2, "of long ago, in both"},
		{"something new", run, killed, Violation, 3, "of long ago, in both, the run was killed"},
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
	if len(run.Findings) != 2 || run.Checks[0].Found != 2 {
		t.Error("the verdict of the run has changed")
	}
}

// What is found in the run and again in the rest counts once, also if there is so much that a
// verdict does not list it all, and if the rest is judged again and again.
func TestVerdictWithTheRestOfMany(t *testing.T) {
	// findings returns a verdict with what a check has found at those times.
	findings := func(outcome Outcome, check string, from, to int) (v Verdict) {
		v.Outcome, v.Found = outcome, to-from
		for at := from; at < to; at++ {
			v.Findings = append(v.Findings, Finding{Check: check, At: int64(at)})
		}
		v.Findings = v.Findings[:min(len(v.Findings), most)]
		v.Checks = []Check{{Name: check, Judged: 1000, Found: uint64(to - from)}}
		return v
	}
	for _, tt := range []struct {
		name    string
		v, rest Verdict
		found   int // at the end
		late    int // of those: waits
		outcome Outcome
	}{
		{"few, all of them again", findings(Failed, waitsEnd, 0, 90), findings(Failed, waitsEnd, 50, 90), 90, 90, Failed},
		{"few, and new ones", findings(Failed, waitsEnd, 0, 90), findings(Failed, waitsEnd, 50, 120), 120, 120, Failed},
		{"many, and the last of them again", findings(Failed, waitsEnd, 0, 300), findings(Failed, waitsEnd, 50, 300), 300, 300, Failed},
		{"many, of which none is listed twice", findings(Failed, waitsEnd, 0, 300), findings(Failed, waitsEnd, 200, 300), 300, 300, Failed},
		{"few, and many new ones", findings(Failed, waitsEnd, 0, 10), findings(Failed, waitsEnd, 5, 500), 500, 500, Failed},
		{"many, and worse of another check", findings(Failed, waitsEnd, 0, 300), findings(Violation, heldTwice, 250, 255), 305, 300, Violation},
		{"many, and more than it had left out", findings(Failed, waitsEnd, 0, 110), findings(Failed, waitsEnd, 50, 150), 150, 150, Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.v
			for i := range 3 {
				v = v.With(tt.rest, "")
				if v.Found != tt.found || found(v, waitsEnd) != uint64(tt.late) || v.Outcome != tt.outcome || len(v.Findings) != min(most, tt.found) || tt.outcome == Violation && v.Findings[0].Check != heldTwice {
					t.Fatalf("judged %s: %v, %d found, of which %d waits, %d are listed; want %d and %d", times(i+1), v.Outcome, v.Found, found(v, waitsEnd), len(v.Findings), tt.found, tt.late)
				}
			}
		})
	}
}
