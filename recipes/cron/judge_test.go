// SPDX-License-Identifier: Apache-2.0

package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A verdict is what the history of a job with RunAll comes to.
type verdict struct {
	planned     int // planned times, from the first to the last
	begun       int // runs
	ended       int // of them, with a token that was not lower than one before
	again       int // of the runs that have begun: not the first one of their planned time
	interrupted int // runs that another process found interrupted
	unbegun     int // of these: claimed, and never begun
	unnoted     int // of these: they had ended, but that was not noted
	late        int // begins and ends with a token that was lower than one before

	violations []string
}

func (v *verdict) String() string {
	return fmt.Sprintf("%d planned times, %d runs begun, %d of them again, %d ended; %d interrupted, of which %d had not begun yet and %d had ended; %d late writes refused; %d violations",
		v.planned, v.begun, v.again, v.ended, v.interrupted, v.unbegun, v.unnoted, v.late, len(v.violations))
}

func (v *verdict) violated(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// A claim is a run by its planned time and attempt: there is one at most.
type claim struct {
	planned int64
	attempt int
}

// A begun run has begun, or another process has found that it was interrupted, or both.
type begunRun struct {
	token              uint64
	begun, ended, told bool
}

// judge judges the history of a job. It sees the writes as a resource does that refuses a token lower than
// one before. It is a violation
//
//   - if a run begins twice, or a planned time again without a process having found that the run before was
//     interrupted, or more often than there are attempts;
//   - if runs begin in another order than that of their planned times;
//   - if a planned time is left out: no run began, and no process has found one that was claimed;
//   - if a run has neither ended nor was found interrupted, although later ones began, or was found
//     interrupted and is not begun again, although there are attempts left;
//   - if two processes have the same token, if a run begins before its time by the clock of its process, and if
//     planned times are said to be missed.
func judge(history []entry, attempts int) *verdict {
	v := new(verdict)
	runs := make(map[claim]*begunRun)
	owner := make(map[uint64]int) // the process, by token
	var token uint64              // the highest one so far
	var last claim                // that began with the highest token so far
	for _, e := range history {
		if e.attempts != attempts {
			continue
		}
		c := claim{e.planned, e.attempt}
		r := runs[c]
		if r == nil {
			r = &begunRun{token: e.token}
			if e.what != "missed" {
				runs[c] = r
			}
		}
		refused := e.token < token
		if (e.what == "begin" || e.what == "end") && refused {
			v.late++
		}
		switch e.what {
		case "begin":
			before := runs[claim{e.planned, e.attempt - 1}]
			switch {
			case r.begun:
				v.violated("begun twice: %v", e)
			case e.attempt > attempts:
				v.violated("begun too often: %v", e)
			case e.attempt > 1 && (before == nil || !before.told):
				v.violated("begun again, and the run before was not interrupted: %v", e)
			case !refused && (e.planned < last.planned || e.planned == last.planned && e.attempt <= last.attempt):
				v.violated("begun after %v: %v", last, e)
			case e.clock < e.planned:
				v.violated("begun before its time: %v", e)
			}
			if pid, others := owner[e.token]; others && pid != e.pid {
				v.violated("process %d has had this token, too: %v", pid, e)
			}
			owner[e.token] = e.pid
			r.begun = true
			v.begun++
			if e.attempt > 1 {
				v.again++
			}
			if !refused {
				token, last = e.token, c
			}
		case "end":
			switch {
			case !r.begun || r.token != e.token:
				v.violated("ended, and had not begun: %v", e)
			case !refused:
				r.ended = true
				v.ended++
			}
		case "interrupted":
			if r.token != e.token {
				v.violated("another run of the same attempt: %v", e)
			}
			r.told = true
		default:
			v.violated("%v", e)
		}
	}
	v.complete(runs, attempts)
	return v
}

// complete looks for what is not there.
func (v *verdict) complete(runs map[claim]*begunRun, attempts int) {
	all := make([]int64, 0, len(runs))
	for c := range runs {
		all = append(all, c.planned)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	v.planned = len(all)
	for i, planned := range all {
		if i > 0 && planned-all[i-1] != int64(jobPeriod) {
			v.violated("left out: the planned time after %d is %d", all[i-1], planned)
		}
	}
	for c, r := range runs {
		if r.told {
			v.interrupted++
			if !r.begun {
				v.unbegun++
			}
			if r.ended {
				v.unnoted++
			}
		}
		switch {
		case c.planned == all[len(all)-1]: // no later run says what has become of it
		case !r.ended && !r.told:
			v.violated("neither ended nor interrupted: %v, %+v", c, *r)
		case r.told && c.attempt < attempts && runs[claim{c.planned, c.attempt + 1}] == nil:
			v.violated("interrupted, and not begun again: %v, %+v", c, *r)
		}
	}
}

// The judge sees what is wrong in a history, and nothing in one that is right.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, history string
		attempts      int
		want          string // of the only violation; none if ""
	}{
		{"all is well", "b1.1.7 e1.1.7 b2.1.7 e2.1.7 b3.1.8", 1, ""},
		{"interrupted", "b1.1.7 i1.1.7 b2.1.8 e2.1.8", 1, ""},
		{"claimed only", "b1.1.7 e1.1.7 i2.1.7 b3.1.8", 1, ""},
		{"ends late", "b1.1.7 i1.1.7 b2.1.8 e1.1.7 e2.1.8 b3.1.8", 1, ""},
		{"begins late", "b1.1.7 e1.1.7 i2.1.7 b3.1.8 b2.1.7 e3.1.8", 1, ""},
		{"again", "b1.1.7 i1.1.7 b1.2.8 i1.2.8 i1.3.9 b2.1.10", 3, ""},
		{"twice", "b1.1.7 e1.1.7 b1.1.7 e1.1.7", 1, "begun twice"},
		{"twice, by two processes", "b1.1.7 i1.1.7 b1.1.8", 1, "begun twice"},
		{"too often", "b1.1.7 i1.1.7 b1.2.8", 1, "begun too often"},
		{"again after the end", "b1.1.7 e1.1.7 b1.2.8", 2, "begun again, and the run before"},
		{"back", "b2.1.7 e2.1.7 b1.1.7 e1.1.7 b3.1.7", 1, "begun after"},
		{"left out", "b1.1.7 e1.1.7 b3.1.7", 1, "left out"},
		{"both at once", "b1.1.7 b2.1.8 e1.1.7 e2.1.8", 1, "neither ended nor interrupted"},
		{"not again", "b1.1.7 i1.1.7 b2.1.8 e2.1.8", 2, "interrupted, and not begun again"},
		{"one token", "b1.1.7 e1.1.7 B2.1.7 e2.1.7", 1, "has had this token, too"},
		{"early", "b1.1.7 e1.1.7 c2.1.7 e2.1.7", 1, "before its time"},
		{"missed", "b1.1.7 e1.1.7 m2.1.7 b2.1.7", 1, "missed"},
		{"ends only", "b1.1.7 e1.1.7 e2.1.7", 1, "had not begun"},
	} {
		var history []entry
		for _, text := range strings.Fields(test.history) {
			e := entry{attempts: test.attempts}
			var what rune
			if _, err := fmt.Sscanf(text, "%c%d.%d.%d", &what, &e.planned, &e.attempt, &e.token); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			e.pid = int(e.token) //nolint:gosec // it is small
			e.planned *= int64(jobPeriod)
			e.clock = e.planned + int64(time.Millisecond)
			switch what {
			case 'B':
				e.pid++
			case 'c':
				e.clock = e.planned - 1
			}
			e.what = map[rune]string{'b': "begin", 'B': "begin", 'c': "begin", 'e': "end", 'i': "interrupted", 'm': "missed"}[what]
			history = append(history, e)
		}
		v := judge(history, test.attempts)
		switch {
		case test.want == "" && len(v.violations) > 0,
			test.want != "" && (len(v.violations) != 1 || !strings.Contains(v.violations[0], test.want)):
			t.Errorf("%s: %q, want %q", test.name, v.violations, test.want)
		}
	}
}
