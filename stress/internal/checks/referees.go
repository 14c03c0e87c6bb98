// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Referees is a check: the referees have seen nothing wrong that has no excuse. They see most
// of what Overlap does, by other means.
//
// A referee knows nothing of faults. A process that was stopped has its file locks until it
// goes on and its worker has left, and one that was told of a loss has them for a moment
// longer: both may happen with a correct lock. A run without faults has no excuses.
type Referees struct {
	Seen
	excused uint64
}

// Saw judges what a referee has seen.
func (c *Referees) Saw(sc *scene.Scene, e history.Event) {
	c.Judged++
	if e.Target != "" && c.excuse(sc, e) {
		c.excused++
		return
	}
	c.find(sc, sc.LockOf(e), e.At, "a referee has seen at %s: %s", sc.When(e.At), e.Text)
}

// excuse reports whether a correct lock may show what the referee of a process has seen.
func (c *Referees) excuse(sc *scene.Scene, e history.Event) bool {
	p, l := sc.Process(e), sc.Lock(e.Lock, e.Mode)
	switch e.Target {
	case history.SeenOverlap:
		// If another process was inside, too, the check overlap judges the two. Of one that
		// was killed a moment ago it judges nothing.
		if p.Over || slices.ContainsFunc(l.Inside, func(o *scene.Hold) bool { return o.Process != p && !scene.Together(o.Mode, e.Mode) }) {
			return true
		}
		return slices.ContainsFunc(l.Leavers, func(o *scene.Hold) bool { return o.Process != p && o.Lingers(sc, e.At) })
	case history.SeenTokenFell, history.SeenTwoRounds, history.SeenTwoTurns:
		own := func(o *scene.Hold) bool { return o.Process == p && o.Lingers(sc, e.At) }
		return slices.ContainsFunc(l.Inside, own) || slices.ContainsFunc(l.Leavers, own)
	case history.SeenPremature: // all others were let out since those had lost their places
		return len(e.Others) > 0 && !slices.ContainsFunc(e.Others, func(number int) bool { return !sc.Absent(number, l, e.At) })
	}
	return false
}

// Explain says what was excused.
func (c *Referees) Explain(*scene.Scene) {
	c.explain(c.excused, "%s of what referees saw are excused: a process was stopped, or had lost the lock just before, or the check %q judges the two", figures.Number(c.excused), verdict.Overlap)
}
