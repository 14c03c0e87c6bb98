// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
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
		fmt.Fprintf(&before, "%.2f p2 request a\n%.2f p2 granted a t%d\n%.3f p2 release a\n%.3f p2 released a\n", at, at, 100+i, at+0.01, at+0.01)
	}
	before.WriteString(`
		47 p0 request a
		48 p1 request a
		49.4 p1 granted a t209
	`)
	const told = `
		52.6 p0 granted a t205
		52.7 p0 release a
		52.8 p0 released a`
	const left = `
		53 p1 release a
		53.1 p1 released a`
	twice := []string{verdict.Overlap, verdict.Tokens}
	for _, tt := range []struct {
		name, history string
		found         []string
	}{
		{"stopped when the other was granted it", `
			49 h began 1 pause-worker process 0
			52.5 h over 1` + told + left, nil},
		{"stopped twice since, without a time to react", `
			49 h began 1 pause-worker process 0
			51 h over 1
			51.5 h began 2 pause-worker process 0
			52.5 h over 2` + told + left, nil},
		{"stopped later", `
			50 h began 1 pause-worker process 0
			52.5 h over 1` + told + left, twice},
		{"stopped long before, and later", `
			10 h began 1 pause-worker process 0
			40 h over 1
			50 h began 2 pause-worker process 0
			52.5 h over 2` + told + left, twice},
		{"stopped after the other had left", `
			49.5 p1 release a
			49.6 p1 released a
			50 h began 1 pause-worker process 0
			52.5 h over 1` + told, twice[1:]},
		{"its node was deleted when the other was granted it", `
			49 h began 1 delete-waiter process 0
			52 h over 1 of a` + told + left, nil},
		{"its node was deleted later", `
			50 h began 1 delete-waiter process 0
			52 h over 1 of a` + told + left, twice},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := judged(header(), script(t, before.String()+tt.history))
			for _, name := range twice {
				found := false
				for _, c := range v.Checks {
					found = found || c.Name == name && c.Found > 0
				}
				if want := strings.Contains(strings.Join(tt.found, "\n"), name); found != want {
					t.Errorf("%s: found: %t, want %t: %+v", name, found, want, v.Findings)
				}
			}
		})
	}
}

// A permit of which a process is told after a stop may have been over by then.
func TestPermitToldAfterAStop(t *testing.T) {
	const history = `
		1 p0 request s permit
		1.5 h began 1 pause-worker process 0
		4 p1 request s permit
		4.1 p1 granted s permit t11
		4 p2 request s permit
		4.1 p2 granted s permit t12
		6 h over 1
		6.05 p0 granted s permit t10`
	for _, tt := range []struct {
		name, rest string
		want       verdict.Outcome
	}{
		{"lost a moment later", "\n6.1 p0 lost s\n8 h alive now", verdict.OK},
		{"not lost", "\n8 h alive now", verdict.Violation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if v := judged(header(), script(t, history+tt.rest)); v.Outcome != tt.want {
				t.Errorf("%v, want %v: %+v", v.Outcome, tt.want, v.Findings)
			}
		})
	}
}
