// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Histories, and what the judge finds in them: text of a finding, or nothing.
func TestJudge(t *testing.T) {
	twice := []string{verdict.Linear, verdict.Overlap}
	names := map[string]bool{}
	for _, tt := range []struct {
		name, history string
		outcome       verdict.Outcome
		checks        []string // that find something
		text          string   // in one of the findings
	}{
		{"one after the other", `
			p0 a: 1 request, 1.1 granted t10, 2 release, 2.2 released
			p1 a: 1.2 request, 2.1 granted t11, 3 release, 3.1 released; h: 4 stopping now`, verdict.OK, nil, ""},
		{"double grant", "p0 a: 1 request, 1.1 granted t10, 2 release, 2.1 released; p1 a: 1 request, 1.2 granted t11, 2.2 release, 2.3 released",
			verdict.Violation, twice, `lock "a" was held twice at 1.200 s: by process 0, worker 0, token 10, since 1.100 s, and by process 1, worker 0, token 11, since 1.200 s`},
		{"goroutines of one process share", "p0 a: 1 request, 1.1 granted t10, 2 release, 2.2 released; p0w1 a: 1 request, 1.2 granted t10, 2.1 release, 2.2 released", verdict.OK, nil, ""},
		{"goroutines of one process share, and one stays", `
			p0 a: 1 request, 1.1 granted t10, 2 release, 2.1 released; p0w1 a: 1 request, 1.2 granted t10, 2.3 release, 2.4 released
			p1 a: 1 request, 2.2 granted t11, 2.5 release, 2.5 released`, verdict.Violation, twice, `by process 0, worker 1`},
		{"mutex", `
			p0 m: 1 request, 1.1 granted t10.1, 2 release; p0w1 m: 1 request, 2.1 granted t10.2, 3 release, 3.1 released
			p1 m: 1 request, 3.1 granted t11.1, 3.2 release, 3.2 released; p0 m: 2.1 released`, verdict.OK, nil, ""},
		{"mutex that goroutines share", "p0 m: 1 request, 1.1 granted t10.1, 2 release, 2.1 released; p0w1 m: 1 request, 1.2 granted t10.2, 3 release, 3.1 released", verdict.Violation, twice, "held twice"},
		{"turn repeated", "p0 m: 1 request, 1.1 granted t10.1, 2 release, 2.1 released; p0w1 m: 1 request, 2.1 granted t10.1, 3 release, 3.1 released",
			verdict.Violation, []string{verdict.Tokens, verdict.Linear}, "token 10 turn 1 was granted to process 0 at 1.100 s and again at 2.100 s"},
		{"token repeated", "p0 a: 1 request, 1.1 granted t10, 2 release, 2.1 released; p1 a: 1 request, 2.1 granted t10, 3 release, 3.1 released",
			verdict.Violation, []string{verdict.Tokens, verdict.Linear}, "token 10 was granted to process 0 at 1.100 s and again at 2.100 s, to process 1"},
		{"token fell", "p0 a: 1 request, 1.1 granted t11, 2 release, 2.1 released; p1 a: 1 request, 2.1 granted t10, 3 release, 3.1 released",
			verdict.Violation, []string{verdict.Tokens, verdict.Linear}, `lock "a" was granted at 2.100 s to process 1, worker 0, token 10, after process 0 had been granted it with token 11`},
		{"lingering", "p0 a: 1 request, 1.1 granted t10, 2 release, 4 released; p0w1 a: 2.5 request, 2.5 granted t10, 3 release, 4 released", verdict.OK, nil, ""},
		{"readers together", `
			p0 rw read: 1 request, 1.2 granted t10, 2 release, 2.2 released; p1 rw read: 1 request, 1.1 granted t11, 2.1 release, 2.2 released
			p2 rw write: 1.3 request, 2.5 granted t12, 3 release, 3 released
			p3 rw upgradable: 1.5 request, 1.6 granted t9, 2.3 release, 2.4 released`, verdict.OK, nil, ""},
		{"reader beside writer", "p0 rw read: 1 request, 1.1 granted t10, 2 release, 2.2 released; p1 rw write: 1 request, 1.2 granted t11, 2.1 release, 2.2 released", verdict.Violation, twice, "process 0, worker 0, read, token 10"},
		{"two upgradable readers", "p0 rw upgradable: 1 request, 1.1 granted t10, 2 release; p1 rw upgradable: 1 request, 1.2 granted t11, 2 release", verdict.Violation, twice, "upgradable, token 11"},
		{"downgrade", `
			p0 rw write: 1 request, 1.1 granted t10, 1.2 changed read, 2 release, 2.2 released
			p1 rw read: 1 request, 1.3 granted t11, 2.1 release, 2.2 released`, verdict.OK, nil, ""},
		{"downgrade by a second handle", `
			p0 rw write: 1 request, 1.1 granted t10, 1.3 release, 1.5 released; p0w1 rw read: 1.2 request, 1.2 granted t10, 2 release, 2.2 released
			p1 rw read: 1.2 request, 1.4 granted t11, 2.1 release, 2.2 released`, verdict.OK, nil, ""},
		{"downgrade that lets a writer in", `
			p0 rw write: 1 request, 1.1 granted t10, 1.2 changed read, 2 release, 2.2 released
			p1 rw write: 1 request, 1.3 granted t11, 2.1 release, 2.2 released`, verdict.Violation, twice, "process 0, worker 0, read, token 10, since 1.100 s, and by process 1"},
		{"upgrade", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 1.5 changed write, 1.6 changed upgradable, 2 release, 2.2 released
			p1 rw read: 1 request, 1.2 granted t11, 1.3 release, 1.4 released, 1.6 request, 1.7 granted t12, 2.1 release, 2.2 released`, verdict.OK, nil, ""},
		{"upgrade beside a reader", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 1.5 changed write, 2 release, 2.2 released
			p1 rw read: 1 request, 1.2 granted t11, 1.6 release, 1.7 released`, verdict.Violation, twice, "process 0, worker 0, write, token 10"},
		{"permits", "p0 s: 1 request, 1.1 granted t12, 2 release; p1 s: 1 request, 1.2 granted t11, 3 release; p2 s: 1 request, 2.1 granted t10, 3 release", verdict.OK, nil, ""},
		{"too many permits", "p0 s: 1 request, 1.1 granted t12 n2, 2 release; p1 s: 1 request, 1.2 granted t11, 3 release", verdict.Violation, []string{verdict.Overlap}, `3 permits of "s" were in use at 1.200 s, of 2`},

		{"killed", `
			p0 a: 1 request, 1.1 granted t10 0x1; p1 a: 1 request, 4.3 granted t11, 5 release
			h: 2 began 1 kill-worker process 0, 2 ended p0, 2 over 1, 4.2 expired 0x1`, verdict.OK, nil, ""},
		{"killed, and granted a moment later", "p0 a: 1 request, 2.001 granted t10; p1 a: 1 request, 4.3 granted t11, 5 release; h: 2 ended p0", verdict.OK, nil, ""},
		{"stopped", `
			p0 a: 1 request, 1.1 granted t10 0x1, 6.1 lost 0x1; h: 2 began 1 pause-worker process 0, 4.3 expired 0x1, 6 over 1, 8 alive now
			p1 a: 1 request, 4.3 granted t11, 7 release, 7.1 released`, verdict.OK, nil, ""},
		{"stopped, and not told afterwards", `
			p0 a: 1 request, 1.1 granted t10, 8 release; p1 a: 1 request, 4.3 granted t11, 9 release
			h: 2 began 1 pause-worker process 0, 6 over 1, 7.5 alive now`, verdict.Violation, twice, `is still held twice at 7.500 s`},
		{"stopped too late to be an excuse", "p0 a: 1 request, 1.1 granted t10, 6.1 lost; p1 a: 1 request, 1.9 granted t11, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1", verdict.Violation, twice, "held twice at 1.900 s"},
		{"the next one was stopped, which is no excuse", "p0 a: 1 request, 1.1 granted t10, 7 release; p1 a: 1 request, 4.3 granted t11, 8 release; h: 2 began 1 pause-worker process 1, 6 over 1",
			verdict.Violation, twice, "held twice at 4.300 s"},
		{"told of the grant after a stop", "p0 a: 1 request, 6.1 granted t10, 6.2 lost; p1 a: 1 request, 4 granted t11, 7 release; h: 1.5 began 1 pause-worker process 0, 6 over 1", verdict.OK, nil, ""},
		{"a goroutine that asks after a stop shares what its process had before, and has lost", `
			p0 a: 1 request, 1.1 granted t10, 6.1 lost; p1 a: 4.3 request, 4.3 granted t11, 7 release
			p0w1 a: 6.01 request, 6.02 granted t10, 6.1 lost; h: 2 began 1 pause-worker process 0, 6 over 1`, verdict.OK, nil, ""},
		{"written after a stop", "p0 a: 1 request; p1 a: 1 request, 4 granted t11, 5 release; h: 1.5 began 1 pause-worker process 0" + late("p0 a: 1.4 granted t10, 1.45 lost"), verdict.OK, nil, ""},
		{"node deleted under the holder", `
			p0 a: 1 request, 1.1 granted t10, 2.02 valid, 2.05 lost
			h: 2 began 1 delete-holder process 0 of a, 2.01 over 1; p1 a: 1 request, 2.01 granted t11, 3 release`, verdict.OK, nil, ""},
		{"node deleted before a goroutine asks that is told first of what its process asked for before", `
			p0w1 a: 1.9 request, 2.11 granted t10, 2.2 lost; p0 a: 2.05 request, 2.1 granted t10, 2.2 lost
			h: 2 began 1 delete-waiter process 0 of a, 2.01 over 1; p1 a: 2 request, 2.08 granted t11, 3 release`, verdict.OK, nil, ""},
		{"told of a grant when its node was deleted, and then of another", `
			p0 rw write: 1 request, 1.1 granted t10, 1.5 release, 1.6 released; h: 1.01 began 1 delete-waiter process 0, 1.05 over 1 of rw
			p1 rw read: 1.02 request, 1.08 granted t11, 1.2 release, 1.21 released
			p0w2 rw read: 1.25 request, 1.3 granted t12, 1.4 release, 1.41 released`, verdict.OK, nil, ""},
		{"node deleted before its process asks", `
			p0 a: 2.05 request, 2.1 granted t10, 2.2 lost
			h: 2 began 1 delete-waiter process 0 of a, 2.01 over 1; p1 a: 2 request, 2.08 granted t11, 3 release`, verdict.Violation, append(slices.Clone(twice), verdict.Tokens), "held twice at 2.100 s"},
		{"node deleted under another holder", `
			p0 a: 1 request, 1.1 granted t10, 2.05 lost; h: 2 began 1 delete-holder process 0 of m, 2.01 over 1
			p1 a: 1 request, 2.01 granted t11, 3 release`, verdict.Violation, twice, "held twice at 2.010 s"},
		{"node deleted under the holder, who is not told", `
			p0 a: 1 request, 1.1 granted t10, 5 lost; h: 2 began 1 delete-holder process 0 of a, 2.01 over 1, 4.1 alive now
			p1 a: 1 request, 2.01 granted t11, 6 release`, verdict.Violation, twice, "is still held twice at 4.100 s"},
		{"a double grant that is written late", "p0 a: 1 request; p1 a: 1 request, 3 granted t11; h: 3.5 alive now" + late("p0 a: 2.9 granted t10, 3.1 release; p1 a: 4 release"), verdict.Violation, twice, "held twice at 3.000 s"},
		{"permits of a process that is stopped", "p0 s: 1 request, 1.1 granted t10 n2, 6.1 lost; p1 s: 1 request, 4 granted t11, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1", verdict.OK, nil, ""},
		{"permits of a process that is stopped, and not told afterwards", "p0 s: 1 request, 1.1 granted t10 n2, 7.1 lost; p1 s: 1 request, 4 granted t11, 8 release; h: 2 began 1 pause-worker process 0, 6 over 1",
			verdict.Violation, []string{verdict.Overlap}, "3 permits of \"s\" are still in use at 7.100 s"},

		{"called valid", "p0 a: 1 request, 1.1 granted t10, 1.2 valid, 2 release; p1 a: 2 request, 2.1 granted t11, 2.2 valid, 3 release", verdict.OK, nil, ""},
		{"called valid after a stop", `
			p0 a: 1 request, 1.1 granted t10, 6.1 valid, 6.2 lost; p1 a: 1 request, 4.3 granted t11, 7 release
			h: 2 began 1 pause-worker process 0, 6 over 1`, verdict.Violation, []string{verdict.Valid}, "was told at 6.100 s that its hold of \"a\" is valid, but process 1, worker 0, token 11 holds it since 4.300 s"},
		{"called valid after a stop, when the next one has left", `
			p0 a: 1 request, 1.1 granted t10, 6.1 valid, 6.2 lost; p1 a: 1 request, 4.3 granted t11, 5 release
			h: 2 began 1 pause-worker process 0, 6 over 1`, verdict.Violation, []string{verdict.Valid}, "but process 1 was granted it with token 11 at 4.300 s"},

		{"register", `
			h: 1.2 accepted a t10, 2.2 accepted a t11, 2.3 stale a t10, 2.4 accepted a t11
			p0 a: 1 request, 1.1 granted t10, 1.2 write t10 ok, 2 release; p1 a: 2 request, 2.1 granted t11, 3 release`, verdict.OK, nil, ""},
		{"write accepted late", "p0 a: 1 request, 1.1 granted t10, 2 release; p1 a: 2 request, 2.1 granted t11, 3 release; h: 2.2 accepted a t11, 2.3 accepted a t10",
			verdict.Violation, []string{verdict.Register}, `accepted a write to "a" with token 10 at 2.300 s, after one with token 11`},
		{"write with a token that was not granted", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 1.2 accepted a t11", verdict.Violation, []string{verdict.Register}, `with token 11 at 1.200 s, which was granted to no process`},
		{"write refused without need", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 1.2 accepted a t10, 1.3 stale a t10", verdict.Violation, []string{verdict.Register}, `refused a write to "a" with token 10`},
		{"write of a holder refused", "p0 a: 1 request, 1.1 granted t10, 1.3 write t10, 2 release", verdict.Violation, []string{verdict.Register}, `although it held the lock since 1.100 s`},
		{"turns in the register", `
			p0 m: 1 request, 1.1 granted t10.1, 1.3 release; p0w1 m: 1.4 request, 1.5 granted t10.2, 2 release
			h: 1.2 accepted m t10.1, 1.6 accepted m t10.2, 1.7 accepted m t10.1`, verdict.Violation, []string{verdict.Register}, `with token 10 turn 1 at 1.700 s, after one with token 10 turn 2`},

		{"told in time", "p0 a: 1 request, 1.1 granted t10 0x1, 2 lost 0x1; h: 2.4 expired 0x1", verdict.OK, nil, ""},
		{"told within the millisecond of which the log has the beginning", "p0 a: 1 request, 1.1 granted t10 0x1, 2.1005 lost 0x1; h: 2.1 expired 0x1, 3 alive now", verdict.OK, nil, ""},
		{"told late", "p0 a: 1 request, 1.1 granted t10 0x1, 2.3 lost 0x1; h: 2.1 expired 0x1, 3 alive now",
			verdict.Violation, []string{verdict.Told}, `was told at 2.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 2.100 s, 200ms before`},
		{"told late, as the log says afterwards", "p0 a: 1 request, 1.1 granted t10 0x1, 2.3 lost 0x1; h: 3 alive now" + late("h: 2.1 expired 0x1"),
			verdict.Violation, []string{verdict.Told}, `was told at 2.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 2.100 s, 200ms before`},
		{"never told", "p0 a: 1 request, 1.1 granted t10 0x1, 2.3 release 0x1; h: 3 alive now" + late("h: 2.1 expired 0x1"),
			verdict.Violation, []string{verdict.Told}, `process 0 still held a lock at 2.300 s, and was not told that the leader had ended its session 0x1`},
		{"told late, but it was stopped", "p0 a: 1 request, 1.1 granted t10 0x1, 6.3 lost 0x1; h: 2 began 1 pause-worker process 0, 4.1 expired 0x1, 6 over 1", verdict.OK, nil, ""},
		{"told late, long after it was stopped", "p0 a: 1 request, 1.1 granted t10 0x1, 6.3 lost 0x1; h: 2 began 1 pause-worker process 0, 3 over 1, 4.1 expired 0x1",
			verdict.Violation, []string{verdict.Told}, `was told at 6.300 s that it had lost "a" (token 10), but the leader ended its session 0x1 at 4.100 s`},

		{"a wait in an outage", "p0 a: 1 request, 22 granted t10, 23 release; h: 2 began 1 kill-leader server 1, 20 over 1, 24 stopping now", verdict.OK, nil, ""},
		{"a wait that is too long", "p0 a: 1 request, 22 granted t10, 23 release; h: 24 stopping now", verdict.Failed, []string{verdict.Patience}, `process 0, worker 0 still waits for lock "a" after 21s`},
		{"a wait that has not ended for too long", "p0 a: 1 request; h: 22 alive now, 23 ended p0", verdict.Failed, []string{verdict.Patience}, `process 0, worker 0 still waits for lock "a"`},
		{"a waiter that is forgotten", "p0 a: 1 request; h: 2 stopping now, 3 alive now", verdict.Failed, []string{verdict.Patience}, `has waited for lock "a" since 1.000 s, and the wait never ended`},
		{"a waiter that is forgotten, and does not keep its process from ending", "p0 a: 1 request; h: 2 stopping now, 3 ended p0 well, 4 alive now",
			verdict.Failed, []string{verdict.Patience}, `has waited for lock "a" since 1.000 s, and the wait never ended`},
		{"waits that end", "p0 a: 1 request, 2 refused; p1 a: 1 request; h: 2 stopping now, 3 ended p1, 3 ended p0 well; p2 a: 1 request, 3 granted t10", verdict.OK, nil, ""},
		{"a run that was cut short", "p0 a: 1 request; h: 2 alive now", verdict.Void, nil, ""},

		{"asked and given up", "p0 a: 1 request, 1.1 granted t10, 2.1 revoked, 2.2 release; h: 2 began 1 revoke process 0 of a, 2 over 1", verdict.OK, nil, ""},
		{"asked, and not given up", "p0 a: 1 request, 1.1 granted t10, 22.2 release; h: 2 began 1 revoke process 0 of a, 2 over 1, 22 alive now",
			verdict.Failed, []string{verdict.Revocations}, `was asked at 2.000 s to give up lock "a", and still held it at 22.000 s`},
		{"asked in vain, since the revocation failed", "p0 a: 1 request, 1.1 granted t10, 22.2 release; h: 2 began 1 revoke lock a of a, 4 over 1 failed, 22 alive now", verdict.OK, nil, ""},

		{"element of a queue", `
			p0 e1: 1 request, 1.1 granted, 2 lost; p1 e1: 2 request, 2.1 granted, 3 release, 3.1 released
			p0 e2: 3.2 request, 3.3 granted, 3.4 release, 3.5 released`, verdict.OK, nil, ""},
		{"element whose holder writes when it has lost it", `
			p0 e1: 1 request, 1.1 granted t10, 2 lost; p1 e1: 2.2 request, 2.3 granted t11, 3 release
			h: 1.2 accepted e1 t10, 2.1 accepted e1 t10, 2.4 accepted e1 t11, 2.5 stale e1 t10`, verdict.OK, nil, ""},
		{"element that was given back", "p0 e1: 1 request, 1.1 granted, 2 release, 2 released unsure; p1 e1: 2 request, 2.1 granted, 3 release, 3.1 released", verdict.OK, nil, ""},
		{"element taken twice", "p0 e1: 1 request, 1.1 granted, 2 release, 2 released; p1 e1: 2 request, 2.1 granted, 3 release, 3.1 released",
			verdict.Violation, []string{verdict.Once}, `"e1" was granted at 2.100 s to process 1, worker 0, although it had been released in good order`},

		{"leadership that is given up once", "p0 one: 1 request, 1.1 granted t1, 2 release, 2 released; p1 one: 2 request, 2.1 granted t2, 3 release", verdict.Violation, []string{verdict.Once}, `"one" was granted at 2.100 s`},

		{"left", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 3 left /locks/a/_c_1, 3 left /locks/a/_c_2", verdict.Failed, []string{verdict.Left}, "left in ZooKeeper at the end: /locks/a/_c_1"},
		{"seen by a referee", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 2 overlap on purpose", verdict.Violation, []string{verdict.Referees}, "a referee has seen at 2.000 s: on purpose"},
		{"failure", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 3 failure on purpose", verdict.Failed, []string{verdict.Failures}, "on purpose"},
		{"too little", "p0 a: 1 request, 1.1 granted t10, 2 release; h: 3 little happened", verdict.Void, []string{verdict.Enough}, "happened"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), tt.history)
			if v.Outcome != tt.outcome {
				t.Errorf("the outcome is %v, want %v", v.Outcome, tt.outcome)
			}
			var found []string
			for _, c := range v.Checks {
				if c.Found > 0 {
					found = append(found, c.Name)
				}
			}
			slices.Sort(found)
			slices.Sort(tt.checks)
			if !slices.Equal(found, tt.checks) {
				t.Errorf("found by %q, want %q: %+v", found, tt.checks, v.Findings)
			}
			if len(tt.checks) > 0 && !says(v, tt.text) {
				t.Errorf("%q is in none of %+v", tt.text, v.Findings)
			}
		})
		for _, name := range tt.checks {
			names[name] = true
		}
	}
	for _, c := range New(header()).checks() {
		if !names[c.Name] && c.Name != verdict.Hits && c.Name != verdict.Decided && c.Name != verdict.Agree { // these have tests of their own
			t.Errorf("no history fails the check %q", c.Name)
		}
		if verdict.OutcomeOf(c.Name) == "" {
			t.Errorf("the check %q has no outcome", c.Name)
		}
	}
}

// Windows of operations follow each other. What spans them is judged in each.
func TestWindows(t *testing.T) {
	// turns has many processes hold lock a, or rw, one after the other.
	turns := func(from float64, lock, mode string, token int) string {
		var text strings.Builder
		for range 3 * checks.FewOperations {
			from += 0.01
			token++
			who := "p" + strconv.Itoa(2+token%3)
			fmt.Fprintf(&text, "%s %s %s: %.4f request, %.4f granted t%d, %.4f release, %.4f released\n", who, lock, mode, from-0.05, from, token, from+0.005, from+0.006)
		}
		return text.String()
	}
	for _, tt := range []struct {
		name, history string
		want          verdict.Outcome
	}{
		{"exclusive", turns(1, "a", "exclusive", 0), verdict.OK},
		{"readers only", turns(1, "rw", "read", 0) + turns(3, "rw", "read", 500) + turns(5, "rw", "read", 1000), verdict.OK},
		{"a reader that stays", "p0 rw read: 1 request, 1.1 granted t1; " + turns(2, "rw", "read", 10) + turns(4, "rw", "read", 500) + "p0 rw: 8 release", verdict.OK},
		{"a reader that stays when a writer comes", "p0 rw read: 1 request, 1.1 granted t1; " + turns(2, "rw", "read", 10) + turns(4, "rw", "read", 500) + "p1 rw write: 7 request, 7.1 granted t900; p0 rw: 8 release", verdict.Violation},
		{"a token from an earlier window", turns(1, "a", "exclusive", 0) + "p0 a: 3 request, 3.1 granted t60, 3.2 release", verdict.Violation},
		{"a holder that is stopped", "p0 a: 1 request, 1.1 granted t1; h: 1.2 began 1 pause-worker process 0; " + turns(2, "a", "exclusive", 10) + "p0 a: 5.1 lost; h: 5 over 1", verdict.OK},
		{"a holder that was stopped before, and holds on", "p0 a: 1.5 request, 1.6 granted t1; h: 0.1 began 1 pause-worker process 0, 0.2 over 1; " + turns(2, "a", "exclusive", 10) + "p0 a: 5.1 release", verdict.Violation},
		{"a holder that is told after a stop", "p0 a: 1 request; h: 1.2 began 1 pause-worker process 0; " + turns(2, "a", "exclusive", 10) + "p0 a: 5.05 granted t1, 5.1 lost; h: 5 over 1", verdict.OK},
		{"a reader that is told after a stop", `
			p0 rw read: 1 request, 5.05 granted t1, 5.1 lost; p1 rw write: 2 request, 4 granted t9, 5.2 release
			h: 1.2 began 1 pause-worker process 0, 5 over 1`, verdict.OK},
		{"a holder whose grant comes late", turns(2, "a", "exclusive", 10) + late("p0 a: 1 request, 1.1 granted t1, 1.2 release"), verdict.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := header()
			h.Processes = 5
			v := on(t, h, tt.history)
			if c := checkOf(v, verdict.Linear); (c.Found > 0) != (tt.want == verdict.Violation) {
				t.Errorf("%d of %d windows are wrong", c.Found, c.Judged)
			}
			if v.Outcome != tt.want {
				t.Errorf("the outcome is %v, want %v: %+v", v.Outcome, tt.want, v.Findings)
			}
		})
	}
}

// Elements of a queue are forgotten long after they were done, so that memory is bounded.
// That they are done is remembered for longer.
func TestPassingLocks(t *testing.T) {
	j := New(header())
	take := func(name string, at int64) {
		j.all(held(history.Event{Op: uint64(at), Lock: name, Mode: history.Exclusive}, at, 1)...)
	}
	const n = 3 * scene.ManyResting
	for i := range int64(n) {
		take(fmt.Sprintf("e%d", i), 10*i+1)
	}
	if len(j.scene.Locks) > scene.ManyResting+10 || len(j.scene.Resting) > scene.ManyResting {
		t.Errorf("%d locks and %d that rest are remembered", len(j.scene.Locks), len(j.scene.Resting))
	}
	for what, n := range map[string]int{"linear": remembered(j.linear), "register": remembered(j.register), "overlap": remembered(j.overlap)} {
		if n > scene.ManyResting+10 {
			t.Errorf("the check %s remembers %d", what, n)
		}
	}
	if v := j.Interim(); v.Outcome != verdict.OK {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
	take("e7", 10*n)
	if v := j.Finish(); v.Outcome != verdict.Violation {
		t.Errorf("an element that is taken again: %v", v.Outcome)
	}
}

// late marks the lines of a script that come after all others, out of order.
func late(lines string) string { return "\nlate\n" + lines }
