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
		{"a failure during it", "p0: 3 failure; h: 5.2 stood 3.2", why + "process 0"},
		{"a failure soon after it", "p0: 14 failure; h: 5.2 stood 3.2", why + "process 0"},
		{"a failure before it", "p0: 1.9 failure; h: 5.2 stood 3.2", "process 0"},
		{"a failure long after it", "p0: 14.3 failure; h: 5.2 stood 3.2", "process 0"},
		{"the latest of several", "p0: 6 failure; h: 1.5 stood 1.1, 5.2 stood 3.2", why},
		{"no standstill", "p0: 6 failure", "process 0"},
		{"two holders", "p0 a: 1 request, 1.1 granted t10; p1 a: 1.2 request, 5.3 granted t11; h: 5.2 stood 3.2", why + `lock "a" was held twice`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), tt.history, "h: 20 stopping now")
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
	for _, e := range script(t, "p0: 6 failure; h: 5.2 stood 3.2, 20 stopping now") {
		j.Add(e)
		j.Interim()
	}
	if text := j.Finish().Findings[0].Text; strings.Count(text, "stood still") != 1 {
		t.Errorf("the finding is %q", text)
	}
}
