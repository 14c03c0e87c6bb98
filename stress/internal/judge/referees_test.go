// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// What a referee sees is excused only by what has happened to a process that may have a file
// lock although it has lost the lock.
func TestExcusesOfReferees(t *testing.T) {
	// Process 0 had lock a until 2 s; process 1 gets it.
	const begin = "p0 a: 1 request, 1.1 granted t10; p1 a: 1.5 request; p2 rw read: 1.5 request, 1.6 granted t5; p3: 1.5 session began 0x3"
	for _, tt := range []struct {
		name, history string
		found         bool // by the check
	}{
		{"no other is inside", "p0 a: 2 release, 2.1 released; p1 a: 2.2 granted t11, 2.2 overlap t11", true},
		{"another gives it up", "p0 a: 2 release; p1 a: 2.1 granted t11, 2.1 overlap t11", true},
		{"it was stopped as it gave it up", "p0 a: 2 release; p1 a: 5 granted t11, 5 overlap t11; h: 2 began 1 pause-worker process 0, 6 over 1", false},
		{"it was stopped before", "p0 a: 4.5 release; p1 a: 4.6 granted t11, 4.6 overlap t11; h: 1.2 began 1 pause-worker process 0, 1.3 over 1", true},
		{"it went on a moment ago", "p0 a: 2 release; p1 a: 6.9 granted t11, 6.9 overlap t11; h: 2 began 1 pause-worker process 0, 4 over 1", false},
		{"it went on long ago", "p0 a: 2 release; p1 a: 7.1 granted t11, 7.1 overlap t11; h: 2 began 1 pause-worker process 0, 4 over 1", true},
		{"a fault was to stop it that could not", "p0 a: 2 release; p1 a: 5 granted t11, 5 overlap t11; h: 2 began 1 pause-worker process 0, 4 over 1 failed", true},
		{"another one was stopped", "p0 a: 2 release; p1 a: 5 granted t11, 5 overlap t11; h: 2 began 1 pause-worker process 3, 4 over 1", true},
		{"it was told of its loss", "p0 a: 2 lost; p1 a: 4.9 granted t11, 4.9 overlap t11", false},
		{"it was told of its loss long ago", "p0 a: 2 lost; p1 a: 5.1 granted t11, 5.1 overlap t11", true},
		{"it was told of its loss and has left", "p0 a: 2 release, 2.1 released, 2.2 lost; p1 a: 3 granted t11, 3 overlap t11", true},
		{"another lock was lost", "p0 a: 2 release; p2 rw: 2 lost; p1 a: 3 granted t11, 3 overlap t11", true},
		{"its node was deleted", "p0 a: 2 release; p1 a: 2.1 granted t11, 2.1 overlap t11; h: 1.9 began 1 delete-holder process 0 of a, 1.95 over 1", false},
		{"its node in another lock was deleted", "p0 a: 2 release; p1 a: 2.1 granted t11, 2.1 overlap t11; h: 1.9 began 1 delete-holder process 0 of rw, 1.95 over 1", true},
		{"it was killed", "p1 a: 4 granted t11, 4 overlap t11; h: 2 ended p0", true},
		{"the one that sees it was killed", "p0 a: 2 release; h: 2.2 ended p1; p1 a: 2.1 granted t11, 2.2 overlap t11", false},
		{"the two are inside, and the check overlap finds them", "p1 a: 2 granted t11, 2 overlap t11; p0 a: 2.1 release", false},
		{"only a reader is inside beside a reader", "p1 rw read: 1.7 request, 2 granted t6, 2 overlap read t6", true},
		{"a reader is inside beside a writer", "p1 rw write: 1.7 request, 2 granted t6, 2 overlap write t6", false},

		{"its token fell after it was stopped", "p0 a: 2 release; p1 a: 2.1 granted t11, 8.1 overlap t11 fell; h: 2.2 began 1 pause-worker process 1, 8 over 1", false},
		{"its token fell after another was stopped", "p0 a: 2 release; p1 a: 2.1 granted t11, 8.1 overlap t11 fell; h: 2.2 began 1 pause-worker process 0, 8 over 1", true},
		{"two rounds, and the first was lost", "p0 a: 2 lost, 2.1 request, 2.2 granted t11, 2.2 overlap t11 rounds", false},
		{"two rounds", "p0 a: 2 overlap t11 rounds", true},
		{"two have one token, and one was stopped", "p1 a: 3 granted t10, 3 overlap t10 shared; h: 1.2 began 1 pause-worker process 0, 4 over 1", true},

		{"let out before one that was stopped", "p1 b: 4 overlap t7 premature 3; h: 2 began 1 pause-worker process 3, 5 over 1", false},
		{"let out before one that was not stopped", "p1 b: 4 overlap t7 premature 2 3; h: 2 began 1 pause-worker process 3, 5 over 1", true},
		{"let out before one whose node was deleted", "p1 b: 4 overlap t7 premature 3; h: 2 began 1 delete-holder process 3 of b, 2.1 over 1", false},
		{"let out before one whose node was deleted long ago", "p1 b: 6 overlap t7 premature 3; h: 2 began 1 delete-holder process 3 of b, 2.1 over 1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), begin, tt.history)
			if c := checkOf(v, verdict.Referees); c.Judged != 1 || c.Found > 0 != tt.found || (c.Note == "") != tt.found {
				t.Errorf("found: %+v, want %t; %+v", c, tt.found, v.Findings)
			}
		})
	}
}
