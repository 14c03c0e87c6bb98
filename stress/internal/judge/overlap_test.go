// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// What a process had lost before it was stopped, or before its node was deleted, it knew
// before.
func TestFaultAfterTheLoss(t *testing.T) {
	// So many that the window of operations ends with the grant of token 209: what comes later
	// is not compared with it for linearizability.
	var before strings.Builder
	for i := range 24 {
		at := 0.1 + 0.02*float64(i)
		fmt.Fprintf(&before, "p2 a: %.2f request, %.2f granted t%d, %.3f release, %.3f released\n", at, at, 100+i, at+0.01, at+0.01)
	}
	before.WriteString("p0 a: 47 request; p1 a: 48 request, 49.4 granted t209")
	const told, left = "p0 a: 52.6 granted t205, 52.7 release, 52.8 released; ", "p1 a: 53 release, 53.1 released; "
	twice := []string{verdict.Overlap, verdict.Tokens}
	for _, tt := range []struct {
		name, history string
		found         []string
	}{
		{"stopped when the other was granted it", "h: 49 began 1 pause-worker process 0, 52.5 over 1; " + told + left, nil},
		{"stopped twice since, without a time to react", "h: 49 began 1 pause-worker process 0, 51 over 1, 51.5 began 2 pause-worker process 0, 52.5 over 2; " + told + left, nil},
		{"stopped later", "h: 50 began 1 pause-worker process 0, 52.5 over 1; " + told + left, twice},
		{"stopped long before, and later", "h: 10 began 1 pause-worker process 0, 40 over 1, 50 began 2 pause-worker process 0, 52.5 over 2; " + told + left, twice},
		{"stopped after the other had left", "p1 a: 49.5 release, 49.6 released; h: 50 began 1 pause-worker process 0, 52.5 over 1; " + told, twice[1:]},
		{"its node was deleted when the other was granted it", "h: 49 began 1 delete-waiter process 0, 52 over 1 of a; " + told + left, nil},
		{"its node was deleted later", "h: 50 began 1 delete-waiter process 0, 52 over 1 of a; " + told + left, twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := on(t, header(), before.String(), tt.history)
			for _, name := range twice {
				if c := checkOf(v, name); c.Found > 0 != slices.Contains(tt.found, name) {
					t.Errorf("%+v, want those of %q: %+v", c, tt.found, v.Findings)
				}
			}
		})
	}
}

// A permit of which a process is told after a stop may have been over by then.
func TestPermitToldAfterAStop(t *testing.T) {
	const history = `
		p0 s permit: 1 request, 6.05 granted t10; p1 s permit: 4 request, 4.1 granted t11
		p2 s permit: 4 request, 4.1 granted t12; h: 1.5 began 1 pause-worker process 0, 6 over 1, 8 alive now`
	for lost, want := range map[string]verdict.Outcome{"p0 s: 6.1 lost": verdict.OK, "": verdict.Violation} {
		if v := on(t, header(), history, lost); v.Outcome != want {
			t.Errorf("%q: %v, want %v: %+v", lost, v.Outcome, want, v.Findings)
		}
	}
}
