// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A finding says whether the machine stood still when it happened, or a while before. It
// stays a finding.
func TestStandstill(t *testing.T) {
	const why = "(at 2.000 s the machine stood still, which may be why) "
	for _, tt := range []struct {
		name, history string
		text          string // how the finding begins
	}{
		{"a failure during it", "3 p0 failure\n5.2 h stood 3.2", why + "process 0"},
		{"a failure soon after it", "5.2 h stood 3.2\n14 p0 failure", why + "process 0"},
		{"a failure before it", "1.9 p0 failure\n5.2 h stood 3.2", "process 0"},
		{"a failure long after it", "5.2 h stood 3.2\n14.3 p0 failure", "process 0"},
		{"the latest of several", "1.5 h stood 1.1\n5.2 h stood 3.2\n6 p0 failure", why},
		{"no standstill", "6 p0 failure", "process 0"},
		{"two holders", "1 p0 request a\n1.1 p0 granted a t10\n1.2 p1 request a\n5.2 h stood 3.2\n5.3 p1 granted a t11", why + `lock "a" was held twice`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history+"\n20 h stopping now"))
			if len(v.Findings) == 0 || !strings.HasPrefix(v.Findings[0].Text, tt.text) {
				t.Errorf("findings %+v, want %q at the beginning", v.Findings, tt.text)
			}
			if v.Outcome == verdict.OK || v.Found != len(v.Findings) {
				t.Errorf("%s, %d found", v.Outcome, v.Found)
			}
			if n := strings.Count(tt.history, "stood"); len(v.Standstills) != n {
				t.Errorf("standstills: %+v, want %d", v.Standstills, n)
			}
		})
	}
}

// The verdict so far and the last one say the same.
func TestStandstillIsSaidOnce(t *testing.T) {
	j := New(header())
	for _, e := range script(t, "5.2 h stood 3.2\n6 p0 failure\n20 h stopping now") {
		j.Add(e)
		j.Interim()
	}
	if text := j.Finish().Findings[0].Text; strings.Count(text, "stood still") != 1 {
		t.Errorf("the finding is %q", text)
	}
}
