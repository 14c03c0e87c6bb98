// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// A tally sums up how often faults excused what was judged by how long it took. It shows
// whether a check could have found anything.
type tally struct {
	n      uint64
	plain  uint64  // without an excuse
	saved  uint64  // those that would have been found without it
	took   int64   // together
	excuse int64   // of that
	worst  float64 // the greatest part of its bound that one took, apart from what was excused
}

// add adds what took so long, of which so much was excused, and may have taken until bound.
func (t *tally) add(took, excused, bound int64) {
	t.n++
	t.took += took
	t.excuse += excused
	if excused == 0 {
		t.plain++
	}
	if took > bound && took-excused <= bound {
		t.saved++
	}
	t.worst = max(t.worst, float64(took-excused)/float64(bound))
}

// note says how much was excused, if there were faults. The format takes how many had no
// excuse, and how many were judged, as texts.
func (t *tally) note(sc *scene.Scene, format string) string {
	if t.n == 0 || !slices.ContainsFunc(sc.Faults.All, (*scene.Fault).Disturbs) {
		return ""
	}
	duration := func(d int64) string { return figures.Duration(time.Duration(d)) }
	return fmt.Sprintf(format+"; faults excused %s of %s in all, and %s would have been too late without that; the longest of the rest took %.0f %% of the time that it may take",
		figures.Number(t.plain), figures.Number(t.n), duration(t.excuse), duration(t.took), figures.Number(t.saved), 100*t.worst)
}
