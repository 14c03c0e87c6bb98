// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Once ZooKeeper's servers contradict each other, what is found shows nothing. What was found
// long before counts, and without a finding nothing is void.
func TestAgree(t *testing.T) {
	const disagree = "30 h disagree a server 1 shows n\n"
	for _, tt := range []struct {
		name, history string
		outcome       verdict.Outcome
		judged        uint64
		note          string
	}{
		{"they agree", "31 h compared all", verdict.OK, 7, ""},
		{"they are not compared", "", verdict.OK, 0, ""},
		{"they do not, and the locks withstand it", disagree + "31 h compared all", verdict.OK, 8, "they do: once, first at 30.000 s, of a: server 1 shows n"},
		{"they do not twice", disagree + disagree, verdict.OK, 2, "they do: 2 times, first at 30.000 s"},
		{"a failure afterwards", disagree + "31 p0 failure", verdict.Void, 1, "they do: once"},
		{"a failure a little before it was noticed", "20 p0 failure\n" + disagree, verdict.Void, 1, "they do: once"},
		{"a failure long before", "19.9 p0 failure\n" + disagree + "31 p0 failure", verdict.Failed, 1, "they do: once"},
		{"two holders afterwards", disagree + "40 p0 request a\n40.1 p0 granted a t100\n40.2 p1 request a\n40.3 p1 granted a t101\n41 p0 release a\n41 p1 release a", verdict.Void, 1, "they do: once"},
		{"a failure, and they agree", "31 p0 failure", verdict.Failed, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, "1 p0 request a\n1.1 p0 granted a t10\n1.2 p0 release a\n1.3 p0 released a\n"+tt.history+"\n50 h stopping now"))
			if v.Outcome != tt.outcome || (v.Diverged != "") != (tt.outcome == verdict.Void) {
				t.Errorf("%s, %q; findings %+v", v.Outcome, v.Diverged, v.Findings)
			}
			c := v.Checks[slices.IndexFunc(v.Checks, func(c verdict.Check) bool { return c.Name == verdict.Agree })]
			if c.Judged != tt.judged || c.Found != 0 || !strings.HasPrefix(c.Note, tt.note) || tt.note == "" && c.Note != "" {
				t.Errorf("%+v", c)
			}
		})
	}
}
