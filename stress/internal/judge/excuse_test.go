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
	tests := []struct{ name, history, text string }{
		{"stopped before it asked", `
			1 p0 request a
			1.1 p0 refused a
			2 h began 1 pause-worker process 0
			6 h over 1
			6.1 p0 request a
			6.2 p0 granted a t20
			6.3 p1 request a
			6.4 p1 granted a t21
			6.5 p0 release a
			7 p1 release a`, "held twice at 6.400 s"},
		{"stopped before it asked, and got an old token", `
			1 p0 request a
			1.1 p0 refused a
			1 p1 request a
			1.1 p1 granted a t21
			1.2 p1 release a
			2 h began 1 pause-worker process 0
			6 h over 1
			6.1 p0 request a
			6.2 p0 granted a t20
			6.5 p0 release a`, "was granted at 6.200 s to process 0, worker 0, token 20, after process 1"},
		{"the node of an earlier hold was deleted", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0 of a
			2.01 h over 1
			2.02 p0 lost a
			2.1 p0 request a
			2.2 p0 granted a t20
			2.3 p1 request a
			2.4 p1 granted a t21
			2.5 p0 release a
			3 p1 release a`, "held twice at 2.400 s"},
		{"the node that was deleted was another lock's, as the end of the fault says", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0
			2.01 h over 1 of m
			2.3 p1 request a
			2.4 p1 granted a t11
			2.5 p0 release a
			3 p1 release a`, "held twice at 2.400 s"},
		{"no node was deleted", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0
			4 h over 1 failed
			4.3 p1 request a
			4.4 p1 granted a t11
			4.5 p0 release a
			5 p1 release a`, "held twice at 4.400 s"},
		{"called valid although the process has the lock under a later token", `
			1 p0 request a
			1.1 p0 granted a t10
			2 p0w1 request a
			2.1 p0w1 granted a t12
			2.2 p0 valid a
			3 p0 release a
			3 p0w1 release a`, "was told at 2.200 s that its hold of \"a\" is valid, but process 0 was granted it with token 12"},
		{"called valid long after an earlier hold's node was deleted", `
			1 p0 request a
			1.1 p0 granted a t10
			2 h began 1 delete-holder process 0 of a
			2.01 h over 1
			2.02 p0 lost a
			2.1 p0 request a
			2.2 p0 granted a t20
			2.3 p1 request a
			2.4 p1 granted a t21
			2.5 p0 valid a
			3 p1 release a`, "was told at 2.500 s that its hold of \"a\" is valid"},
		{"the one that was stopped has the lock, and a writer got an old token beside it", `
			1 p0 request rw read
			1.1 p0 granted rw read t20
			2 h began 1 pause-worker process 0
			3 p1 request rw write
			3.1 p1 granted rw write t19
			3.5 p1 release rw
			6 h over 1
			6.1 p0 lost rw`, "held twice at 3.100 s"},
		{"the one that was stopped was upgraded beside a reader", `
			1 p0 request rw upgradable
			1.1 p0 granted rw upgradable t10
			1.2 p1 request rw read
			1.3 p1 granted rw read t12
			1.6 h began 1 pause-worker process 0
			1.9 h over 1
			2 p0 changed rw write
			2.2 p0 release rw
			3 p1 release rw`, "held twice at 2.000 s"},
		{"the one that was stopped got the lock beside an earlier holder, and there are no tokens", `
			0.5 p1 request a
			1 p0 request a
			1.1 p0 granted a
			2 h began 1 pause-worker process 1
			4 h over 1
			4.1 p1 granted a
			4.5 p1 release a
			5 p0 release a`, "held twice at 4.100 s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history))
			found := false
			for _, f := range v.Findings {
				found = found || strings.Contains(f.Text, tt.text)
			}
			if v.Outcome != verdict.Violation || !found {
				t.Errorf("%v: %q is in none of %+v", v.Outcome, tt.text, v.Findings)
			}
		})
	}
}

// The one of a pair that has lost the lock, and could not know, has an excuse, whatever the
// modes.
func TestExcusesOfTheOneThatLost(t *testing.T) {
	tests := []struct{ name, history string }{
		{"a reader beside a writer", `
			1 p0 request rw read
			1.1 p0 granted rw read t10
			2 h began 1 pause-worker process 0
			4 p1 request rw write
			4.5 p1 granted rw write t11
			6 h over 1
			6.1 p0 lost rw
			7 p1 release rw`},
		{"a writer beside a reader", `
			1 p0 request rw write
			1.1 p0 granted rw write t10
			2 h began 1 pause-worker process 0
			4 p1 request rw read
			4.5 p1 granted rw read t11
			6 h over 1
			6.1 p0 lost rw
			7 p1 release rw`},
		{"an upgraded holder beside a reader", `
			1 p0 request rw upgradable
			1.1 p0 granted rw upgradable t10
			1.5 p0 changed rw write
			2 h began 1 pause-worker process 0
			4 p1 request rw read
			4.5 p1 granted rw read t11
			6 h over 1
			6.1 p0 lost rw
			7 p1 release rw`},
		{"a reader with a higher token beside an upgraded holder", `
			1 p0 request rw upgradable
			1.1 p0 granted rw upgradable t10
			1.2 p1 request rw read
			1.3 p1 granted rw read t12
			2 h began 1 pause-worker process 1
			4.5 p0 changed rw write
			6 h over 1
			6.1 p1 lost rw
			7 p0 release rw`},
		{"one that was upgraded while it was stopped, told of it too late", `
			1 p0 request rw upgradable
			1.1 p0 granted rw upgradable t10
			2 h began 1 pause-worker process 0
			4 p1 request rw read
			4.5 p1 granted rw read t12
			6 h over 1
			6.01 p0 changed rw write
			6.1 p0 lost rw
			7 p1 release rw`},
		{"no tokens, and a grant that was told too late", `
			1 p0 request a
			2 h began 1 pause-worker process 0
			4 p1 request a
			4.5 p1 granted a
			6 h over 1
			6.01 p0 granted a
			6.1 p0 lost a
			7 p1 release a`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if v := judged(header(), script(t, tt.history)); v.Outcome != verdict.OK || v.PausedOverlaps != 1 {
				t.Errorf("%v, %d excused: %+v", v.Outcome, v.PausedOverlaps, v.Findings)
			}
		})
	}
}

// A goroutine that asks after a stop may share a hold that its process has had since
// before the stop, and has lost: that is still the stop's excuse.
func TestExcuseOfASharedHold(t *testing.T) {
	v := judged(header(), script(t, `
		1 p0 request a
		1.1 p0 granted a t10
		2 h began 1 pause-worker process 0
		4.3 p1 request a
		4.3 p1 granted a t11
		6 h over 1
		6.01 p0w1 request a
		6.02 p0w1 granted a t10
		6.1 p0 lost a
		6.1 p0w1 lost a
		7 p1 release a`))
	if v.Outcome != verdict.OK {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
}

// A fault that had no effect, as its end says, has hit nothing.
func TestFaultsWithoutEffectHitNothing(t *testing.T) {
	for _, tt := range []struct {
		over string
		want verdict.Outcome
	}{{"over 1", verdict.OK}, {"over 1 failed", verdict.Void}} {
		h := header()
		h.Nemesis = []string{"revoke"}
		v := judged(h, script(t, `
			1 p0 request a
			1 p1 request a
			1.1 p0 granted a t10
			2 h began 1 revoke lock a of a
			2.1 h `+tt.over+`
			2.2 p0 release a
			2.3 p1 granted a t11
			3 p1 release a
			4 h stopping now`))
		if v.Outcome != tt.want {
			t.Errorf("%s: %v, want %v: %+v", tt.over, v.Outcome, tt.want, v.Faults)
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
	v := judged(h, script(t, `
		1 p0 request a
		1.1 p0 granted a t10 0x1
		2 h began 1 cut-connection process 0
		9 h over 1
		9.1 p0 lost a 0x1
		9.2 h stopping now`))
	for check, want := range map[string]string{
		verdict.Patience: "1 of 1 waits had no excuse",
		verdict.Told:     "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to no server's log",
	} {
		found := false
		for _, c := range v.Checks {
			found = found || c.Name == check && strings.Contains(c.Note, want)
		}
		if !found {
			t.Errorf("%q: no note has %q: %+v", check, want, v.Checks)
		}
	}
}

// A revocation that failed has asked no holder, so that none has to give up the lock.
func TestFailedRevocationAsksNoHolder(t *testing.T) {
	v := judged(header(), script(t, `
		1 p0 request a
		1.1 p0 granted a t10
		2 h began 1 revoke lock a of a
		4 h over 1 failed
		22 h alive now
		22.2 p0 release a`))
	if v.Outcome != verdict.OK {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
}

// What workers of shards and of queues wait for is not in the history, so no fault can be
// seen to hit a wait.
func TestFaultsHitWithoutWaits(t *testing.T) {
	for workload, want := range map[string]verdict.Outcome{"default": verdict.Void, "shards": verdict.OK, "queue": verdict.OK} {
		h := header()
		h.Nemesis, h.Workload = []string{"cut-connection"}, workload
		v := judged(h, script(t, `
			1 p0 request a
			1 p0 granted a t10
			2 h began 1 cut-connection process 0
			2 h over 1
			3 p0 release a
			4 h stopping now`))
		if v.Outcome != want {
			t.Errorf("%s: %v, want %v: %+v", workload, v.Outcome, want, v.Findings)
		}
	}
}
