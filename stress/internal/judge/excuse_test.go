// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Histories in which a lock failed at about the time of a fault that excuses something
// else.
func TestExcusesHideNothing(t *testing.T) {
	for _, tt := range []struct{ name, history, text string }{
		{"stopped before it asked", `
			p0 a: 1 request, 1.1 refused, 6.1 request, 6.2 granted t20, 6.5 release
			p1 a: 6.3 request, 6.4 granted t21, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1`, "held twice at 6.400 s"},
		{"stopped before it asked, and got an old token", `
			p0 a: 1 request, 1.1 refused, 6.1 request, 6.2 granted t20, 6.5 release
			p1 a: 1 request, 1.1 granted t21, 1.2 release; h: 2 began 1 pause-worker process 0, 6 over 1`, "was granted at 6.200 s to process 0, worker 0, token 20, after process 1"},
		{"the node of an earlier hold was deleted", `
			p0 a: 1 request, 1.1 granted t10, 2.02 lost, 2.1 request, 2.2 granted t20, 2.5 release
			p1 a: 2.3 request, 2.4 granted t21, 3 release; h: 2 began 1 delete-holder process 0 of a, 2.01 over 1`, "held twice at 2.400 s"},
		{"the node that was deleted was another lock's, as the end of the fault says", `
			p0 a: 1 request, 1.1 granted t10, 2.5 release; p1 a: 2.3 request, 2.4 granted t11, 3 release
			h: 2 began 1 delete-holder process 0, 2.01 over 1 of m`, "held twice at 2.400 s"},
		{"no node was deleted", `
			p0 a: 1 request, 1.1 granted t10, 4.5 release; p1 a: 4.3 request, 4.4 granted t11, 5 release
			h: 2 began 1 delete-holder process 0, 4 over 1 failed`, "held twice at 4.400 s"},
		{"called valid although the process has the lock under a later token", "p0 a: 1 request, 1.1 granted t10, 2.2 valid, 3 release; p0w1 a: 2 request, 2.1 granted t12, 3 release",
			"was told at 2.200 s that its hold of \"a\" is valid, but process 0 was granted it with token 12"},
		{"called valid long after an earlier hold's node was deleted", `
			p0 a: 1 request, 1.1 granted t10, 2.02 lost, 2.1 request, 2.2 granted t20, 2.5 valid
			p1 a: 2.3 request, 2.4 granted t21, 3 release; h: 2 began 1 delete-holder process 0 of a, 2.01 over 1`, "was told at 2.500 s that its hold of \"a\" is valid"},
		{"the one that was stopped has the lock, and a writer got an old token beside it", `
			p0 rw read: 1 request, 1.1 granted t20, 6.1 lost; p1 rw write: 3 request, 3.1 granted t19, 3.5 release
			h: 2 began 1 pause-worker process 0, 6 over 1`, "held twice at 3.100 s"},
		{"the one that was stopped was upgraded beside a reader", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 2 changed write, 2.2 release
			p1 rw read: 1.2 request, 1.3 granted t12, 3 release; h: 1.6 began 1 pause-worker process 0, 1.9 over 1`, "held twice at 2.000 s"},
		{"the one that was stopped got the lock beside an earlier holder, and there are no tokens", "p1 a: 0.5 request, 4.1 granted, 4.5 release; p0 a: 1 request, 1.1 granted, 5 release; h: 2 began 1 pause-worker process 1, 4 over 1",
			"held twice at 4.100 s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if v := on(t, header(), tt.history); v.Outcome != verdict.Violation || !says(v, tt.text) {
				t.Errorf("%v: %q is in none of %+v", v.Outcome, tt.text, v.Findings)
			}
		})
	}
}

// The one of a pair that has lost the lock, and could not know, has an excuse, whatever the
// modes.
func TestExcusesOfTheOneThatLost(t *testing.T) {
	for _, tt := range []struct{ name, history string }{
		{"a reader beside a writer", `
			p0 rw read: 1 request, 1.1 granted t10, 6.1 lost; p1 rw write: 4 request, 4.5 granted t11, 7 release
			h: 2 began 1 pause-worker process 0, 6 over 1`},
		{"a writer beside a reader", `
			p0 rw write: 1 request, 1.1 granted t10, 6.1 lost; p1 rw read: 4 request, 4.5 granted t11, 7 release
			h: 2 began 1 pause-worker process 0, 6 over 1`},
		{"an upgraded holder beside a reader", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 1.5 changed write, 6.1 lost
			p1 rw read: 4 request, 4.5 granted t11, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1`},
		{"a reader with a higher token beside an upgraded holder", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 4.5 changed write, 7 release
			p1 rw read: 1.2 request, 1.3 granted t12, 6.1 lost; h: 2 began 1 pause-worker process 1, 6 over 1`},
		{"one that was upgraded while it was stopped, told of it too late", `
			p0 rw upgradable: 1 request, 1.1 granted t10, 6.01 changed write, 6.1 lost
			p1 rw read: 4 request, 4.5 granted t12, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1`},
		{"no tokens, and a grant that was told too late", "p0 a: 1 request, 6.01 granted, 6.1 lost; p1 a: 4 request, 4.5 granted, 7 release; h: 2 began 1 pause-worker process 0, 6 over 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if v := on(t, header(), tt.history); v.Outcome != verdict.OK || v.PausedOverlaps != 1 {
				t.Errorf("%v, %d excused: %+v", v.Outcome, v.PausedOverlaps, v.Findings)
			}
		})
	}
}

// A fault that had no effect, as its end says, has hit nothing.
func TestFaultsWithoutEffectHitNothing(t *testing.T) {
	for over, want := range map[string]verdict.Outcome{"over 1": verdict.OK, "over 1 failed": verdict.Void} {
		h := header()
		h.Nemesis = []string{"revoke"}
		v := on(t, h, "p0 a: 1 request, 1.1 granted t10, 2.2 release; p1 a: 1 request, 2.3 granted t11, 3 release; h: 2 began 1 revoke lock a of a, 4 stopping now, 2.1 "+over)
		if v.Outcome != want {
			t.Errorf("%s: %v, want %v: %+v", over, v.Outcome, want, v.Faults)
		}
	}
}

// A verdict says which checks could find little, and why.
func TestNotesOfWhatIsNotJudged(t *testing.T) {
	h := header()
	h.Begin = 1e9
	for _, c := range New(h).Interim().Checks {
		if c.Note != "" {
			t.Errorf("%q, before the first event: %s", c.Name, c.Note)
		}
	}
	v := on(t, h, "p0 a: 1 request, 1.1 granted t10 0x1, 9.1 lost 0x1; h: 2 began 1 cut-connection process 0, 9 over 1, 9.2 stopping now")
	for check, want := range map[string]string{
		verdict.Patience: "1 of 1 waits had no excuse",
		verdict.Told:     "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to no server's log",
	} {
		if c := checkOf(v, check); !strings.Contains(c.Note, want) {
			t.Errorf("%+v, want the note %q", c, want)
		}
	}
}

// What workers of shards and of queues wait for is not in the history, so no fault can be
// seen to hit a wait.
func TestFaultsHitWithoutWaits(t *testing.T) {
	for workload, want := range map[string]verdict.Outcome{"default": verdict.Void, "shards": verdict.OK, "queue": verdict.OK} {
		h := header()
		h.Nemesis, h.Workload = []string{"cut-connection"}, workload
		v := on(t, h, "p0 a: 1 request, 1 granted t10, 3 release; h: 2 began 1 cut-connection process 0, 2 over 1, 4 stopping now")
		if v.Outcome != want {
			t.Errorf("%s: %v, want %v: %+v", workload, v.Outcome, want, v.Findings)
		}
	}
}
