// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// found returns how much a check of that name has found.
func found(v verdict.Verdict, check string) uint64 {
	for _, c := range v.Checks {
		if c.Name == check {
			return c.Found
		}
	}
	return 0
}

// A process that is stopped keeps its locks until its session can have ended. With a session
// timeout of 2 s that is a third of a second after the stop, unless a log tells when it was.
func TestStopCostsNothingAtOnce(t *testing.T) {
	const (
		held = `
			0.1 p0 session began 0x1
			1 p0 request a
			1.1 p0 granted a t10 0x1
			1.2 p1 request a`
		stopped = `
			2 h began 1 pause-worker process 0
			6 h over 1
			6.1 p0 lost a 0x1
			7 h alive now`
		atOnce = `
			2.1 p1 granted a t11
			2.2 p1 release a
			2.3 p1 released a`
	)
	for _, tt := range []struct {
		name, history string
		twice         bool
	}{
		{"granted to another at once", held + stopped + atOnce, true},
		{"granted to another at once, which keeps it", held + stopped + "\n2.1 p1 granted a t11\n7 p1 release a", true},
		{"later", held + stopped + "\n2.34 p1 granted a t11\n7 p1 release a", false},

		{"before the session had ended, as a log tells", held + stopped + `
			3.9 p1 granted a t11
			3.95 p1 release a
			4.1 h expired 0x1`, true},
		{"when the session had ended", held + stopped + "\n4.1 h expired 0x1\n4.101 p1 granted a t11\n7 p1 release a", false},
		{"when it had ended by a log whose clock is a little ahead", held + stopped + "\n4.1 h expired 0x1\n4.05 p1 granted a t11\n7 p1 release a", false},
		{"when it had ended early, since the machine was busy before", held + stopped + "\n2.1 h expired 0x1\n2.11 p1 granted a t11\n7 p1 release a", false},
		{"when a deposed server ended it, and before the next leader did", held + stopped + `
			3 h expired 0x1 deposed
			3.1 p1 granted a t11
			7 p1 release a
			5 h expired 0x1`, false},
		{"a deposed server ended it before the stop, and it lived on", held + stopped + atOnce + "\n1.5 h expired 0x1 deposed", true},
		{"a deposed server ended it before the stop, when another process was stopped", held + stopped + atOnce + "\n1.5 h expired 0x1 deposed\n1.4 h began 2 pause-worker process 3\n6.5 h over 2", true},
		{"another session had ended", held + stopped + atOnce + "\n2.05 h expired 0x2", true},

		{"the connection was lost before", held + stopped + atOnce + "\n1.9 p0 session suspended", false},
		{"the connection was lost and found before", held + stopped + atOnce + "\n1.8 p0 session suspended\n1.9 p0 session resumed", true},
		{"a fault hit the connection", held + stopped + atOnce + "\n1.5 h began 2 cut-connection process 0\n1.5 h over 2", false},
		{"a fault hit the connection long before", held + stopped + atOnce + "\n0.5 h began 2 cut-connection process 0\n0.5 h over 2", true},
		{"a fault hit the connection later", held + stopped + atOnce + "\n2.05 h began 2 cut-connection process 0\n2.05 h over 2", true},
		{"a fault hit the connection of another", held + stopped + atOnce + "\n1.5 h began 2 cut-connection process 1\n1.5 h over 2", true},
		{"a fault hits a server", held + stopped + atOnce + "\n1.5 h began 2 pause-leader server 1\n3 h over 2", false},
		{"its node for another lock was deleted before", held + stopped + atOnce + "\n1.9 h began 2 delete-waiter process 0\n1.9 h over 2 of m", true},
		{"a fault of a lock's queue", held + stopped + atOnce + "\n1.5 h began 2 foreign-children lock a of a\n3 h over 2", true},

		{"its node was deleted meanwhile", held + stopped + atOnce + "\n2.05 h began 2 delete-holder process 0\n2.06 h over 2 of a", false},
		{"its node was deleted meanwhile, and another keeps the lock", held + stopped + "\n2.05 h began 2 delete-holder process 0\n2.06 h over 2 of a\n2.1 p1 granted a t11\n7 p1 release a", false},
		{"its node was deleted a moment before", held + stopped + "\n1.95 h began 2 delete-holder process 0\n1.96 h over 2 of a\n1.97 p1 granted a t11\n7 p1 release a", false},
		{"its node for another lock was deleted meanwhile", held + stopped + atOnce + "\n2.05 h began 2 delete-holder process 0\n2.15 h over 2 of m", true},
		{"it was about to release the lock", held + "\n1.99 p0 release a\n2 h began 1 pause-worker process 0\n6 h over 1\n6.1 p0 released a" + atOnce, false},
		{"an earlier session had held it, and its worker was about to be told", held + "\n1.99 p0 session began 0x2" + stopped + atOnce, false},

		{"it could not be stopped", held + `
			2 h began 1 pause-worker process 0
			3 p1 granted a t11
			7 p1 release a
			6 h over 1 failed
			6.1 p0 lost a 0x1`, true},
		{"it could not be stopped, and both have left before that is known", held + `
			2 h began 1 pause-worker process 0
			3 p1 granted a t11
			3.1 p1 release a
			3.2 p0 release a
			6 h over 1 failed`, true},

		{"permits", `
			1 p0 request s permit n2
			1.1 p0 granted s permit n2 t10
			2 h began 1 pause-worker process 0
			2.1 p1 request s permit
			2.1 p1 granted s permit t11
			2.2 p1 release s
			6 h over 1
			6.1 p0 lost s`, true},
		{"permits later", `
			1 p0 request s permit n2
			1.1 p0 granted s permit n2 t10
			2 h began 1 pause-worker process 0
			2.1 p1 request s permit
			2.4 p1 granted s permit t11
			2.5 p1 release s
			6 h over 1
			6.1 p0 lost s`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, tt.history))
			if twice := found(v, verdict.Overlap) > 0; twice != tt.twice {
				t.Errorf("found to be held twice: %t, want %t: %+v", twice, tt.twice, v.Findings)
			}
			if want := map[bool]verdict.Outcome{false: verdict.OK, true: verdict.Violation}[tt.twice]; v.Outcome != want {
				t.Errorf("%v, want %v: %+v", v.Outcome, want, v.Findings)
			}
		})
	}
}

// A grant that is told late may have been over only if the stop can have cost it before the
// other one's.
func TestGrantToldAfterAStop(t *testing.T) {
	for at, want := range map[string]uint64{"2.1": 1, "2.4": 0} {
		v := judged(header(), script(t, `
			1 p0 request a
			1.5 p1 request a
			2 h began 1 pause-worker process 0
			`+at+` p1 granted a t11
			3 p1 release a
			3.1 p1 released a
			6 h over 1
			6.1 p0 granted a t10
			6.2 p0 lost a`))
		if n := found(v, verdict.Tokens); n != want {
			t.Errorf("granted to another at %s s: %d found, want %d: %+v", at, n, want, v.Findings)
		}
	}
}
