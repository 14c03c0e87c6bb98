// SPDX-License-Identifier: Apache-2.0

package verdict

import "testing"

// The headline of a void run says why it shows nothing.
func TestVerdictWhy(t *testing.T) {
	hit, unheld := Fault{Kind: "kill-worker", N: 1, Held: 1, Waiting: 1}, Fault{Kind: "revoke", N: 2, Waiting: 2}
	never := Fault{Kind: "kill-leader"}
	for name, tt := range map[string]struct {
		verdict Verdict
		want    string
	}{
		"servers differ": {Verdict{Diverged: "at 3 s", Grants: 500},
			"ZooKeeper's servers contradicted each other at 3 s, so what was found shows nothing about the locks"},
		"the harness says so": {Verdict{Findings: []Finding{{Check: "another", Text: "x"}, {Check: Enough, Text: "the server swallowed no answer"}}, Faults: []Fault{never}},
			"the server swallowed no answer"},
		"faults that did not hit": {Verdict{Grants: 500, Faults: []Fault{hit, never, unheld}},
			"these kinds of faults had no effect while a lock was held, or none while one was waited for: kill-leader, revoke; let the run last longer, or name fewer kinds"},
		"no grants": {Verdict{Faults: []Fault{hit}}, "no worker ever got a lock"},
		"workers that stayed inside": {Verdict{Grants: 3, Holds: Spread{N: 3, Most: 25_300}},
			"workers got a lock only 3 times, too rarely for the history to show anything: they stayed inside for up to 25.3 s"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.verdict.Outcome = Void
			if got := tt.verdict.Why(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
