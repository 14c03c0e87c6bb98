// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A process that is stopped keeps its locks until its session can have ended. With a session
// timeout of 2 s that is a third of a second after the stop, unless a log tells when it was.
func TestStopCostsNothingAtOnce(t *testing.T) {
	const (
		held    = "p0: 0.1 session began 0x1; p0 a: 1 request, 1.1 granted t10 0x1; p1 a: 1.2 request; "
		stopped = "p0 a: 6.1 lost 0x1; h: 2 began 1 pause-worker process 0, 6 over 1, 7 alive now; "
		atOnce  = "p1 a: 2.1 granted t11, 2.2 release, 2.3 released; "
	)
	for _, tt := range []struct {
		name, history string
		twice         bool
	}{
		{"granted to another at once", held + stopped + atOnce, true},
		{"granted to another at once, which keeps it", held + stopped + "p1 a: 2.1 granted t11, 7 release", true},
		{"later", held + stopped + "p1 a: 2.34 granted t11, 7 release", false},

		{"before the session had ended, as a log tells", held + stopped + "p1 a: 3.9 granted t11, 3.95 release; h: 4.1 expired 0x1", true},
		{"when the session had ended", held + stopped + "p1 a: 4.101 granted t11, 7 release; h: 4.1 expired 0x1", false},
		{"when it had ended by a log whose clock is a little ahead", held + stopped + "p1 a: 4.05 granted t11, 7 release; h: 4.1 expired 0x1", false},
		{"when it had ended early, since the machine was busy before", held + stopped + "p1 a: 2.11 granted t11, 7 release; h: 2.1 expired 0x1", false},
		{"when a deposed server ended it, and before the next leader did", held + stopped + "p1 a: 3.1 granted t11, 7 release; h: 3 expired 0x1 deposed, 5 expired 0x1", false},
		{"a deposed server ended it before the stop, and it lived on", held + stopped + atOnce + "h: 1.5 expired 0x1 deposed", true},
		{"a deposed server ended it before the stop, when another process was stopped", held + stopped + atOnce + "h: 1.5 expired 0x1 deposed, 1.4 began 2 pause-worker process 3, 6.5 over 2", true},
		{"another session had ended", held + stopped + atOnce + "h: 2.05 expired 0x2", true},

		{"the connection was lost before", held + stopped + atOnce + "p0: 1.9 session suspended", false},
		{"the connection was lost and found before", held + stopped + atOnce + "p0: 1.8 session suspended, 1.9 session resumed", true},
		{"a fault hit the connection", held + stopped + atOnce + "h: 1.5 began 2 cut-connection process 0, 1.5 over 2", false},
		{"a fault hit the connection long before", held + stopped + atOnce + "h: 0.5 began 2 cut-connection process 0, 0.5 over 2", true},
		{"a fault hit the connection later", held + stopped + atOnce + "h: 2.05 began 2 cut-connection process 0, 2.05 over 2", true},
		{"a fault hit the connection of another", held + stopped + atOnce + "h: 1.5 began 2 cut-connection process 1, 1.5 over 2", true},
		{"a fault hits a server", held + stopped + atOnce + "h: 1.5 began 2 pause-leader server 1, 3 over 2", false},
		{"its node for another lock was deleted before", held + stopped + atOnce + "h: 1.9 began 2 delete-waiter process 0, 1.9 over 2 of m", true},
		{"a fault of a lock's queue", held + stopped + atOnce + "h: 1.5 began 2 foreign-children lock a of a, 3 over 2", true},

		{"its node was deleted meanwhile", held + stopped + atOnce + "h: 2.05 began 2 delete-holder process 0, 2.06 over 2 of a", false},
		{"its node was deleted meanwhile, and another keeps the lock", held + stopped + "p1 a: 2.1 granted t11, 7 release; h: 2.05 began 2 delete-holder process 0, 2.06 over 2 of a", false},
		{"its node was deleted a moment before", held + stopped + "p1 a: 1.97 granted t11, 7 release; h: 1.95 began 2 delete-holder process 0, 1.96 over 2 of a", false},
		{"its node for another lock was deleted meanwhile", held + stopped + atOnce + "h: 2.05 began 2 delete-holder process 0, 2.15 over 2 of m", true},
		{"it was about to release the lock", held + "p0 a: 1.99 release, 6.1 released; h: 2 began 1 pause-worker process 0, 6 over 1; " + atOnce, false},
		{"an earlier session had held it, and its worker was about to be told", held + "p0: 1.99 session began 0x2; " + stopped + atOnce, false},

		{"it could not be stopped", held + "p1 a: 3 granted t11, 7 release; p0 a: 6.1 lost 0x1; h: 2 began 1 pause-worker process 0, 6 over 1 failed", true},
		{"it could not be stopped, and both have left before that is known", held + "p1 a: 3 granted t11, 3.1 release; p0 a: 3.2 release; h: 2 began 1 pause-worker process 0, 6 over 1 failed", true},

		{"permits", `
			p0 s permit: 1 request n2, 1.1 granted n2 t10, 6.1 lost
			p1 s permit: 2.1 request, 2.1 granted t11, 2.2 release; h: 2 began 1 pause-worker process 0, 6 over 1`, true},
		{"permits later", `
			p0 s permit: 1 request n2, 1.1 granted n2 t10, 6.1 lost
			p1 s permit: 2.1 request, 2.4 granted t11, 2.5 release; h: 2 began 1 pause-worker process 0, 6 over 1`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), tt.history)
			if twice := checkOf(v, verdict.Overlap).Found > 0; twice != tt.twice {
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
		v := on(t, header(), "p0 a: 1 request, 6.1 granted t10, 6.2 lost; h: 2 began 1 pause-worker process 0, 6 over 1",
			"p1 a: 1.5 request, "+at+" granted t11, 3 release, 3.1 released")
		if n := checkOf(v, verdict.Tokens).Found; n != want {
			t.Errorf("granted to another at %s s: %d found, want %d: %+v", at, n, want, v.Findings)
		}
	}
}
