// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A fault that deletes a node excuses what its end names, and nothing else, also what
// happened before its end.
func TestDeletionExcusesWhatItNames(t *testing.T) {
	const waits, valid = verdict.Patience, verdict.Valid
	for _, tt := range []struct{ name, history, check string }{
		{"held twice, and over, before the end", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 p1 request a
			2 h began 1 delete-holder process 0
			2.1 p1 granted a t11
			2.2 p1 release a
			2.3 p0 release a
			2.4 h over 1 of `, verdict.Overlap},
		{"an old token", `
			1 p0 request a
			1.2 p1 request a
			2 h began 1 delete-waiter process 0
			2.1 p1 granted a t11
			2.2 p1 release a
			2.25 p0 granted a t10
			2.3 p0 release a
			2.4 h over 1 of `, verdict.Tokens},
		{"called valid", `
			1 p0 request a
			1.1 p0 granted a t10
			1.2 p1 request a
			2 h began 1 delete-holder process 0
			2.1 p1 granted a t11
			2.2 p0 valid a
			2.3 p0 release a
			2.3 p1 release a
			2.4 h over 1 of `, valid},
		{"a wait", `
			1 p0 request a
			2 h began 1 delete-waiter process 0
			60 p0 granted a t10
			61 h over 1 of `, waits},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for lock, want := range map[string]bool{"a": false, "m": true, "a failed": false, " failed": true} {
				history := tt.history + lock
				if lock == " failed" {
					history = tt.history[:len(tt.history)-len("of ")] + "failed"
				}
				v := judged(header(), script(t, history+"\n62 h stopping now"))
				if got := found(v, tt.check) > 0; got != want {
					t.Errorf("%q: found: %t, want %t: %+v", lock, got, want, v.Findings)
				}
			}
		})
	}
}

// The Judge does not read on for ever: a fault that lasts for longer than a minute is judged
// by what is known then.
func TestReadingOnEnds(t *testing.T) {
	events := script(t, `
		2 h began 1 pause-worker process 0
		3 p1 request a
		3.1 p1 granted a t10
		61.9 p1 release a
		62 p1 released a
		70 h over 1
		70.1 p1 request a`)
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
	for _, e := range script(t, "1 p1 request a\n2 h began 1 delete-holder process 0\n3 h left /x") {
		j.Add(e)
	}
	if v := j.Finish(); v.Outcome != verdict.Failed || v.Found != 1 {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
	for _, e := range script(t, "4 h began 2 delete-holder process 0\n5 h failure something") {
		j.Add(e)
	}
	if v := j.Finish(); v.Found != 2 {
		t.Errorf("%v: %+v", v.Outcome, v.Findings)
	}
}
