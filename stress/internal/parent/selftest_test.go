// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A defect counts as caught only if what is meant to catch it has: the judge's check, and the
// referee or the harness where they can.
func TestWeigh(t *testing.T) {
	trial := trialRun{name: "t", sabotage: wire.OldToken, check: verdict.Tokens, sees: `^VIOLATION .* token fell on lock`}
	correct := trialRun{name: "t", sees: `^OK: `}
	const line = "VIOLATION seen by process 0, 01:02:03: token fell on lock \"a\""
	told := func(name string) verdict.Verdict {
		return verdict.Verdict{
			Outcome: verdict.Violation, Findings: []verdict.Finding{{Check: name, Text: "here"}},
			Checks: []verdict.Check{{Name: verdict.Overlap, Judged: 1}, {Name: name, Judged: 1, Found: 1}},
		}
	}
	good := told(verdict.Tokens)
	cut := good
	cut.Findings = nil // there were too many others
	tests := []struct {
		name   string
		trial  trialRun
		status int
		lines  []string
		v      verdict.Verdict
		want   string
	}{
		{"both", trial, 1, []string{"FAILED: 1 failure", line}, good, "caught  t\n          " + line + "\n          FOUND: tokens rise in the order of the grants: here"},
		{"both, without a text", trial, 1, []string{line}, cut, "FOUND: tokens rise in the order of the grants: 1 finding"},
		{"the wrong exit status", trial, 3, []string{line}, good, "MISSED  t: exit status 3, want 1; it said: "},
		{"only the judge", trial, 1, nil, good, "MISSED  t: no line has ^VIOLATION"},
		{"another line", trial, 1, []string{`VIOLATION seen by process 0, 01:02:03: overlap on lock "a"`}, good, "MISSED  t: no line has ^VIOLATION"},
		{"only the referee", trial, 1, []string{line}, verdict.Verdict{}, `MISSED  t: the check "tokens rise in the order of the grants" has found nothing`},
		{"the check was made, and found nothing", trial, 1, []string{line}, verdict.Verdict{Checks: []verdict.Check{{Name: verdict.Tokens, Judged: 9}}}, `MISSED  t: the check "tokens rise`},
		{"another check", trial, 1, []string{line}, told(verdict.Overlap), `MISSED  t: the check "tokens rise in the order of the grants" has found nothing`},
		{"only the judge can see it", trialRun{name: "t", sabotage: wire.SloppyRegister, check: verdict.Tokens}, 1, nil, good, "caught  t\n          FOUND: "},
		{"correct", correct, 0, []string{"OK: all"}, verdict.Verdict{Outcome: verdict.OK}, "passed  t\n          OK: all"},
		{"correct, but blamed by the judge", correct, 0, []string{"OK: all"}, good, "MISSED  t: the history's verdict is VIOLATION, want OK"},
		{"correct, but blamed", correct, 1, []string{line}, good, "MISSED  t: exit status 1, want 0; no line has ^OK: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.trial.weigh(tt.status, tt.lines, tt.v); !strings.Contains(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}
