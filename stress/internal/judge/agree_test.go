// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Once ZooKeeper's servers contradict each other, what is found shows nothing. What was found
// long before counts, and without a finding nothing is void.
func TestAgree(t *testing.T) {
	const disagree = "h: 30 disagree a server 1 shows n; "
	for _, tt := range []struct {
		name, history string
		outcome       verdict.Outcome
		judged        uint64
		note          string
	}{
		{"they agree", "h: 31 compared all", verdict.OK, 7, ""},
		{"they are not compared", "", verdict.OK, 0, ""},
		{"they do not, and the locks withstand it", disagree + "h: 31 compared all", verdict.OK, 8, "they do: once, first at 30.000 s, of a: server 1 shows n"},
		{"they do not twice", disagree + disagree, verdict.OK, 2, "they do: 2 times, first at 30.000 s"},
		{"a failure afterwards", disagree + "p0: 31 failure", verdict.Void, 1, "they do: once"},
		{"a failure a little before it was noticed", "p0: 20 failure; " + disagree, verdict.Void, 1, "they do: once"},
		{"a failure long before", "p0: 19.9 failure; " + disagree + "p0: 31 failure", verdict.Failed, 1, "they do: once"},
		{"two holders afterwards", disagree + "p0 a: 40 request, 40.1 granted t100, 41 release; p1 a: 40.2 request, 40.3 granted t101, 41 release", verdict.Void, 1, "they do: once"},
		{"a failure, and they agree", "p0: 31 failure", verdict.Failed, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), "p0 a: 1 request, 1.1 granted t10, 1.2 release, 1.3 released", tt.history, "h: 50 stopping now")
			if v.Outcome != tt.outcome || (v.Diverged != "") != (tt.outcome == verdict.Void) {
				t.Errorf("%s, %q; findings %+v", v.Outcome, v.Diverged, v.Findings)
			}
			if c := checkOf(v, verdict.Agree); c.Judged != tt.judged || c.Found != 0 || !strings.HasPrefix(c.Note, tt.note) || tt.note == "" && c.Note != "" {
				t.Errorf("%+v", c)
			}
		})
	}
}
