// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check referees: the referees have seen nothing wrong that has no excuse. They see most
// of what the check overlap does, by other means.
//
// A referee knows nothing of faults. A process that was stopped has its file locks until it
// goes on and its worker has left, and one that was told of a loss has them for a moment
// longer: both may happen with a correct lock. A run without faults has no excuses.
type referees struct {
	check
	excused uint64
}

// lingering is how long a process may have its file locks after it was told of a loss, or goes
// on after it was stopped.
const lingering = int64(3 * time.Second)

func (c *referees) init() {
	c.check = newCheck(verdict.Referees)
}

// saw judges what a referee has seen.
func (c *referees) saw(j *Judge, e history.Event) {
	c.Judged++
	if e.Target != "" && c.excuse(j, e) {
		c.excused++
		return
	}
	c.find(j, j.lockOf(e), e.At, "a referee has seen at %s: %s", j.when(e.At), e.Text)
}

// excuse reports whether a correct lock may show what the referee of a process has seen.
func (c *referees) excuse(j *Judge, e history.Event) bool {
	p, l := j.process(e), j.lock(e.Lock, e.Mode)
	switch e.Target {
	case history.SeenOverlap:
		// If another process was inside, too, the check overlap judges the two. Of one that
		// was killed a moment ago it judges nothing.
		if p.over || slices.ContainsFunc(l.inside, func(o *hold) bool { return o.process != p && !together(o.mode, e.Mode) }) {
			return true
		}
		return slices.ContainsFunc(l.leavers, func(o *hold) bool { return o.process != p && o.lingers(j, e.At) })
	case history.SeenTokenFell, history.SeenTwoRounds, history.SeenTwoTurns:
		own := func(o *hold) bool { return o.process == p && o.lingers(j, e.At) }
		return slices.ContainsFunc(l.inside, own) || slices.ContainsFunc(l.leavers, own)
	case history.SeenPremature: // all others were let out since those had lost their places
		return len(e.Others) > 0 && !slices.ContainsFunc(e.Others, func(number int) bool { return !j.absent(number, l, e.At) })
	}
	return false
}

// lingers reports whether the process of h may have a file lock for it at that time although
// it has lost the lock. One that was killed has none.
func (h *hold) lingers(j *Judge, at int64) bool {
	if h.process.over {
		return false
	}
	if _, ok := j.excused(h, at); ok || h.process.stops.recent(at) {
		return true
	}
	return h.phase == over && !h.released && at <= h.ended+lingering
}

// absent reports whether the process of that number may have lost its place at the barrier l
// by that time without knowing it.
func (j *Judge) absent(number int, l *lockRecord, at int64) bool {
	for _, p := range j.processes {
		if p.number == number && p.stops.recent(at) {
			return true
		}
	}
	return slices.ContainsFunc(j.faults.recent, func(f *fault) bool {
		return f.deletes() && f.process == number && f.lock == l.Name && f.at <= at && (f.until == 0 || at <= f.until+lingering)
	})
}

// explain says what was excused.
func (c *referees) explain() {
	if c.excused > 0 {
		c.Note = fmt.Sprintf("%s of what referees saw are excused: a process was stopped, or had lost the lock just before, or the check %q judges the two", figures.Number(c.excused), verdict.Overlap)
	}
}
