// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A fault that deletes a node excuses what its end names, and nothing else, also what
// happened before its end.
func TestDeletionExcusesWhatItNames(t *testing.T) {
	for _, tt := range []struct{ name, history, check string }{
		{"held twice, and over, before the end", `
			p0 a: 1 request, 1.1 granted t10, 2.3 release; p1 a: 1.2 request, 2.1 granted t11, 2.2 release
			h: 2 began 1 delete-holder process 0, 2.4 over 1`, verdict.Overlap},
		{"an old token", `
			p0 a: 1 request, 2.25 granted t10, 2.3 release; p1 a: 1.2 request, 2.1 granted t11, 2.2 release
			h: 2 began 1 delete-waiter process 0, 2.4 over 1`, verdict.Tokens},
		{"called valid", `
			p0 a: 1 request, 1.1 granted t10, 2.2 valid, 2.3 release; p1 a: 1.2 request, 2.1 granted t11, 2.3 release
			h: 2 began 1 delete-holder process 0, 2.4 over 1`, verdict.Valid},
		{"a wait", "p0 a: 1 request, 60 granted t10; h: 2 began 1 delete-waiter process 0, 61 over 1", verdict.Patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for end, want := range map[string]bool{" of a": false, " of m": true, " of a failed": false, " failed": true} {
				v := on(t, header(), tt.history+end, "h: 62 stopping now")
				if got := checkOf(v, tt.check).Found > 0; got != want {
					t.Errorf("over%s: found: %t, want %t: %+v", end, got, want, v.Findings)
				}
			}
		})
	}
}

// The Judge does not read on for ever: a fault that lasts for longer than a minute is judged
// by what is known then.
func TestReadingOnEnds(t *testing.T) {
	events := script(t, "p1 a: 3 request, 3.1 granted t10, 61.9 release, 62 released, 70.1 request; h: 2 began 1 pause-worker process 0, 70 over 1")
	j := New(header())
	for i, want := range []uint64{0, 0, 0, 0, 1, 1, 2} {
		j.Add(events[i])
		if got := j.Interim().Requests; got != want {
			t.Errorf("after event %d: %d requests are judged, want %d", i, got, want)
		}
	}
	if len(j.reading.events) > 0 || len(j.reading.ends) > 0 {
		t.Errorf("remembered: %+v", j.reading)
	}
}

// At the end of a history nothing waits for the end of a fault, nor what is added then.
func TestReadingOnAtTheEnd(t *testing.T) {
	j := New(header())
	j.all(script(t, "p1 a: 1 request; h: 2 began 1 delete-holder process 0, 3 left /x")...)
	if v := j.Finish(); v.Outcome != verdict.Failed || v.Found != 1 {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
	j.all(script(t, "h: 4 began 2 delete-holder process 0, 5 failure something")...)
	if v := j.Finish(); v.Found != 2 {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
}
