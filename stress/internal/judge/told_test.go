// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Of each loss the verdict says whether it could be judged, and if not, why.
func TestLossesThatAreNotJudged(t *testing.T) {
	const lost = "p0 a: 1 request, 1.1 granted t10 0x1, 2 lost 0x1; "
	for _, tt := range []struct {
		name, history string
		judged        int
		note          string
	}{
		{"in time", lost + "h: 2.4 expired 0x1", 1, ""},
		{"no log", lost, 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to no server's log"},
		{"the log of a deposed server", lost + "h: 2.4 expired 0x1 deposed", 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to a server only that may have been deposed"},
		{"the logs of a deposed server and of a leader", lost + "h: 2.4 expired 0x1 deposed, 2.5 expired 0x1", 1, ""},
		{"the session lived on", lost + "h: 9 expired 0x1", 0, "lost holds that are judged: 0 of 1; the others were lost: 1 while the session lived on, or long before it expired"},
		{"a process that was stopped", `
			p0 a: 1 request, 1.1 granted t10 0x1, 6.3 lost 0x1; h: 2 began 1 pause-worker process 0, 6 over 1, 6.4 alive now` + late("h: 4.1 expired 0x1"), 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of processes that were stopped"},
		{"two goroutines that share it, in the millisecond of the log", "p0 a: 1 request, 1.1 granted t10 0x1, 2.0002 lost 0x1; p0w1 a: 1 request, 1.1 granted t10 0x1, 2.0004 lost 0x1; h: 2 expired 0x1", 1, ""},
		{"several", lost + "p1 m: 2.1 request, 2.2 granted t11.1 0x2, 3 lost 0x2; h: 2.4 expired 0x1", 1, "lost holds that are judged: 1 of 2; the others were lost: 1 of sessions that expired according to no server's log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), tt.history)
			if v.Outcome != verdict.OK || v.LossesJudged != tt.judged {
				t.Errorf("%v, %d of %d judged: %+v", v.Outcome, v.LossesJudged, v.LostHolds, v.Findings)
			}
			if c := checkOf(v, verdict.Told); c.Note != tt.note || c.Judged != uint64(tt.judged) {
				t.Errorf("judged: %d, note: %s", c.Judged, c.Note)
			}
		})
	}
}

// A stop excuses for a moment after it that a loss is told late, and not for ever. It makes no
// difference whether the log's line is read before the worker tells what happened, or after.
func TestToldAfterAStop(t *testing.T) {
	const stopped, expired = "p0 a: 1 request, 1.1 granted t10 0x1; h: 2 began 1 pause-worker process 0, 6 over 1", "h: 4.1 expired 0x1"
	for _, tt := range []struct {
		name, rest string
		want       string // what is found
	}{
		{"lost a moment after it", "p0 a: 6.9 lost 0x1; h: 40 alive now", ""},
		{"released a moment after it", "p0 a: 6.9 release 0x1; h: 40 alive now", ""},
		{"lost long after it", "p0 a: 30 lost 0x1; h: 40 alive now", "process 0 was told at 30.000 s that it had lost"},
		{"released long after it", "p0 a: 30 release 0x1; h: 40 alive now", "process 0 still held a lock at 30.000 s"},
		{"never told", "h: 40 alive now", `was not told that it has lost "a"`},
		{"lost in a second stop, long after the first", "p0 a: 33.1 lost 0x1; h: 29 began 2 pause-worker process 0, 33 over 2, 40 alive now", "process 0 was told at 33.100 s that it had lost"},
		{"lost after a second stop that followed at once", "p0 a: 10.1 lost 0x1; h: 6.5 began 2 pause-worker process 0, 10 over 2, 40 alive now", ""},
	} {
		for readLate, log := range map[bool]string{false: expired, true: late(expired)} {
			t.Run(fmt.Sprintf("%s, log read late: %t", tt.name, readLate), func(t *testing.T) {
				v := on(t, header(), stopped, tt.rest, log)
				if tt.want == "" {
					if v.Outcome != verdict.OK {
						t.Errorf("%v: %+v", v.Outcome, v.Findings)
					}
					return
				}
				if v.Outcome != verdict.Violation || len(v.Findings) != 1 || !strings.Contains(v.Findings[0].Text, tt.want) {
					t.Errorf("%v, want %q: %+v", v.Outcome, tt.want, v.Findings)
				}
			})
		}
	}
}
