// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/figures"
)

// The verdict of a run and that on the rest of its history make one verdict.
func TestVerdictWithTheRest(t *testing.T) {
	old := Finding{Check: Patience, At: 1, Text: "of long ago"}
	both := Finding{Check: Patience, At: 2, Text: "in both"}
	fresh := Finding{Check: Whole, At: 3, Text: "the run was killed"}
	run := Verdict{Outcome: Failed, Findings: []Finding{old, both}, Found: 2, Grants: 1000, Checks: []Check{{Name: Patience, Judged: 50, Found: 2}}}
	clean := Verdict{Outcome: OK, Checks: []Check{{Name: Whole, Judged: 4}}}
	killed := Verdict{Outcome: Violation, Findings: []Finding{both, fresh}, Found: 2, Grants: 10, Checks: []Check{{Name: Patience, Judged: 3, Found: 1}, {Name: Whole, Judged: 4, Found: 1}}}
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
		v.Findings = v.Findings[:min(len(v.Findings), MaxFindings)]
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
		{"few, all of them again", findings(Failed, Patience, 0, 90), findings(Failed, Patience, 50, 90), 90, 90, Failed},
		{"few, and new ones", findings(Failed, Patience, 0, 90), findings(Failed, Patience, 50, 120), 120, 120, Failed},
		{"many, and the last of them again", findings(Failed, Patience, 0, 300), findings(Failed, Patience, 50, 300), 300, 300, Failed},
		{"many, of which none is listed twice", findings(Failed, Patience, 0, 300), findings(Failed, Patience, 200, 300), 300, 300, Failed},
		{"few, and many new ones", findings(Failed, Patience, 0, 10), findings(Failed, Patience, 5, 500), 500, 500, Failed},
		{"many, and worse of another check", findings(Failed, Patience, 0, 300), findings(Violation, Overlap, 250, 255), 305, 300, Violation},
		{"many, and more than it had left out", findings(Failed, Patience, 0, 110), findings(Failed, Patience, 50, 150), 150, 150, Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.v
			for i := range 3 {
				v = v.With(tt.rest, "")
				if v.Found != tt.found || foundBy(v, Patience) != tt.late || v.Outcome != tt.outcome || len(v.Findings) != min(MaxFindings, tt.found) || tt.outcome == Violation && v.Findings[0].Check != Overlap {
					t.Fatalf("judged %s: %v, %d found, of which %d waits, %d are listed; want %d and %d", figures.Times(i+1), v.Outcome, v.Found, foundBy(v, Patience), len(v.Findings), tt.found, tt.late)
				}
			}
		})
	}
}

// foundBy returns how often the check has found something.
func foundBy(v Verdict, check string) (n int) {
	for _, c := range v.Checks {
		if c.Name == check {
			n += int(c.Found)
		}
	}
	return n
}
