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
	const lost = `
		1 p0 request a
		1.1 p0 granted a t10 0x1
		2 p0 lost a 0x1`
	for _, tt := range []struct {
		name, history string
		judged        int
		note          string
	}{
		{"in time", lost + "\n2.4 h expired 0x1", 1, ""},
		{"no log", lost, 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to no server's log"},
		{"the log of a deposed server", lost + "\n2.4 h expired 0x1 deposed", 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of sessions that expired according to a server only that may have been deposed"},
		{"the logs of a deposed server and of a leader", lost + "\n2.4 h expired 0x1 deposed\n2.5 h expired 0x1", 1, ""},
		{"the session lived on", lost + "\n9 h expired 0x1", 0, "lost holds that are judged: 0 of 1; the others were lost: 1 while the session lived on, or long before it expired"},
		{"a process that was stopped", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			2 h began 1 pause-worker process 0
			6 h over 1
			6.3 p0 lost a 0x1
			6.4 h alive now
late
			4.1 h expired 0x1`, 0, "lost holds that are judged: 0 of 1; the others were lost: 1 of processes that were stopped"},
		{"two goroutines that share it, in the millisecond of the log", `
			1 p0 request a
			1.1 p0 granted a t10 0x1
			1 p0w1 request a
			1.1 p0w1 granted a t10 0x1
			2 h expired 0x1
			2.0002 p0 lost a 0x1
			2.0004 p0w1 lost a 0x1`, 1, ""},
		{"several", lost + `
			2.1 p1 request m
			2.2 p1 granted m t11.1 0x2
			2.4 h expired 0x1
			3 p1 lost m 0x2`, 1, "lost holds that are judged: 1 of 2; the others were lost: 1 of sessions that expired according to no server's log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history))
			if v.Outcome != verdict.OK || v.LossesJudged != tt.judged {
				t.Errorf("%v, %d of %d judged: %+v", v.Outcome, v.LossesJudged, v.LostHolds, v.Findings)
			}
			for _, c := range v.Checks {
				if c.Name == verdict.Told && (c.Note != tt.note || c.Judged != uint64(tt.judged)) {
					t.Errorf("judged: %d, note: %s", c.Judged, c.Note)
				}
			}
		})
	}
}

// A stop excuses for a moment after it that a loss is told late, and not for ever. It makes no
// difference whether the log's line is read before the worker tells what happened, or after.
func TestToldAfterAStop(t *testing.T) {
	const stopped = `
		1 p0 request a
		1.1 p0 granted a t10 0x1
		2 h began 1 pause-worker process 0
		4.1 h expired 0x1
		6 h over 1`
	read := func(late bool, rest string) string {
		text := stopped + rest
		if late {
			text = strings.Replace(text, "4.1 h expired 0x1\n", "", 1) + "\nlate\n4.1 h expired 0x1"
		}
		return text
	}
	for _, tt := range []struct {
		name, rest string
		want       string // what is found
	}{
		{"lost a moment after it", "\n6.9 p0 lost a 0x1\n40 h alive now", ""},
		{"released a moment after it", "\n6.9 p0 release a 0x1\n40 h alive now", ""},
		{"lost long after it", "\n30 p0 lost a 0x1\n40 h alive now", "process 0 was told at 30.000 s that it had lost"},
		{"released long after it", "\n30 p0 release a 0x1\n40 h alive now", "process 0 still held a lock at 30.000 s"},
		{"never told", "\n40 h alive now", `was not told that it has lost "a"`},
		{"lost in a second stop, long after the first", "\n29 h began 2 pause-worker process 0\n33 h over 2\n33.1 p0 lost a 0x1\n40 h alive now", "process 0 was told at 33.100 s that it had lost"},
		{"lost after a second stop that followed at once", "\n6.5 h began 2 pause-worker process 0\n10 h over 2\n10.1 p0 lost a 0x1\n40 h alive now", ""},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, log read late: %t", tt.name, late), func(t *testing.T) {
				v := judged(header(), script(t, read(late, tt.rest)))
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

// The times of a server's log are those of the beginning of its milliseconds.
func TestToldWithinAMillisecond(t *testing.T) {
	v := judged(header(), script(t, `
		1 p0 request a
		1.1 p0 granted a t10 0x1
		2.1 h expired 0x1
		2.1005 p0 lost a 0x1
		3 h alive now`))
	if v.Outcome != verdict.OK {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
}
