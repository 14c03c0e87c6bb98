// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// What a referee sees is excused only by what has happened to a process that may have a file
// lock although it has lost the lock.
func TestExcusesOfReferees(t *testing.T) {
	// Process 0 had lock a until 2 s; process 1 gets it.
	const begin = `
		1 p0 request a
		1.1 p0 granted a t10
		1.5 p1 request a
		1.5 p2 request rw read
		1.6 p2 granted rw read t5
		1.5 p3 session began 0x3
		`
	tests := []struct {
		name, history string
		found         bool // by the check
	}{
		{"no other is inside", `
			2 p0 release a
			2.1 p0 released a
			2.2 p1 granted a t11
			2.2 p1 overlap a t11`, true},
		{"another gives it up", `
			2 p0 release a
			2.1 p1 granted a t11
			2.1 p1 overlap a t11`, true},
		{"it was stopped as it gave it up", `
			2 p0 release a
			2 h began 1 pause-worker process 0
			5 p1 granted a t11
			5 p1 overlap a t11
			6 h over 1`, false},
		{"it was stopped before", `
			1.2 h began 1 pause-worker process 0
			1.3 h over 1
			4.5 p0 release a
			4.6 p1 granted a t11
			4.6 p1 overlap a t11`, true},
		{"it went on a moment ago", `
			2 p0 release a
			2 h began 1 pause-worker process 0
			4 h over 1
			6.9 p1 granted a t11
			6.9 p1 overlap a t11`, false},
		{"it went on long ago", `
			2 p0 release a
			2 h began 1 pause-worker process 0
			4 h over 1
			7.1 p1 granted a t11
			7.1 p1 overlap a t11`, true},
		{"a fault was to stop it that could not", `
			2 p0 release a
			2 h began 1 pause-worker process 0
			4 h over 1 failed
			5 p1 granted a t11
			5 p1 overlap a t11`, true},
		{"another one was stopped", `
			2 p0 release a
			2 h began 1 pause-worker process 3
			4 h over 1
			5 p1 granted a t11
			5 p1 overlap a t11`, true},
		{"it was told of its loss", `
			2 p0 lost a
			4.9 p1 granted a t11
			4.9 p1 overlap a t11`, false},
		{"it was told of its loss long ago", `
			2 p0 lost a
			5.1 p1 granted a t11
			5.1 p1 overlap a t11`, true},
		{"it was told of its loss and has left", `
			2 p0 release a
			2.1 p0 released a
			2.2 p0 lost a
			3 p1 granted a t11
			3 p1 overlap a t11`, true},
		{"another lock was lost", `
			2 p0 release a
			2 p2 lost rw
			3 p1 granted a t11
			3 p1 overlap a t11`, true},
		{"its node was deleted", `
			1.9 h began 1 delete-holder process 0 of a
			1.95 h over 1
			2 p0 release a
			2.1 p1 granted a t11
			2.1 p1 overlap a t11`, false},
		{"its node in another lock was deleted", `
			1.9 h began 1 delete-holder process 0 of rw
			1.95 h over 1
			2 p0 release a
			2.1 p1 granted a t11
			2.1 p1 overlap a t11`, true},
		{"it was killed", `
			2 h ended p0
			4 p1 granted a t11
			4 p1 overlap a t11`, true},
		{"the one that sees it was killed", `
			2 p0 release a
			2.1 p1 granted a t11
			2.2 h ended p1
			2.2 p1 overlap a t11`, false},
		{"the two are inside, and the check overlap finds them", `
			2 p1 granted a t11
			2 p1 overlap a t11
			2.1 p0 release a`, false},
		{"only a reader is inside beside a reader", `
			1.7 p1 request rw read
			2 p1 granted rw read t6
			2 p1 overlap rw read t6`, true},
		{"a reader is inside beside a writer", `
			1.7 p1 request rw write
			2 p1 granted rw write t6
			2 p1 overlap rw write t6`, false},

		{"its token fell after it was stopped", `
			2 p0 release a
			2.1 p1 granted a t11
			2.2 h began 1 pause-worker process 1
			8 h over 1
			8.1 p1 overlap a t11 fell`, false},
		{"its token fell after another was stopped", `
			2 p0 release a
			2.1 p1 granted a t11
			2.2 h began 1 pause-worker process 0
			8 h over 1
			8.1 p1 overlap a t11 fell`, true},
		{"two rounds, and the first was lost", `
			2 p0 lost a
			2.1 p0 request a
			2.2 p0 granted a t11
			2.2 p0 overlap a t11 rounds`, false},
		{"two rounds", `
			2 p0 overlap a t11 rounds`, true},
		{"two have one token, and one was stopped", `
			1.2 h began 1 pause-worker process 0
			3 p1 granted a t10
			3 p1 overlap a t10 shared
			4 h over 1`, true},

		{"let out before one that was stopped", `
			2 h began 1 pause-worker process 3
			4 p1 overlap b t7 premature 3
			5 h over 1`, false},
		{"let out before one that was not stopped", `
			2 h began 1 pause-worker process 3
			4 p1 overlap b t7 premature 2 3
			5 h over 1`, true},
		{"let out before one whose node was deleted", `
			2 h began 1 delete-holder process 3 of b
			2.1 h over 1
			4 p1 overlap b t7 premature 3`, false},
		{"let out before one whose node was deleted long ago", `
			2 h began 1 delete-holder process 3 of b
			2.1 h over 1
			6 p1 overlap b t7 premature 3`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, begin+tt.history))
			i := slices.IndexFunc(v.Checks, func(c verdict.Check) bool { return c.Name == verdict.Referees })
			if c := v.Checks[i]; c.Judged != 1 || c.Found > 0 != tt.found || (c.Note == "") != tt.found {
				t.Errorf("found: %+v, want %t; %+v", c, tt.found, v.Findings)
			}
		})
	}
}
