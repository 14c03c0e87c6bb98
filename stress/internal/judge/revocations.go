// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check revocations: a holder that is asked to give up the lock is told so, and gives
// it up.
type revocations struct {
	check
	open  []*hold
	next  int64
	tally tally
}

func (c *revocations) init() {
	c.check = newCheck(verdict.Revocations)
}

// began notes that the holders of a lock are asked to give it up.
func (c *revocations) began(sc *scene, f *fault) {
	if !f.revokes() || f.lock == "" {
		return
	}
	for _, h := range sc.lock(f.lock, "").inside {
		if f.affects(h.process) {
			c.ask(h, f.at)
		}
	}
}

// failed notes that the fault has failed: its holders need not have been asked.
func (c *revocations) failed(f *fault) {
	c.open = slices.DeleteFunc(c.open, func(h *hold) bool {
		if h.lock.Name != f.lock || h.revoked != f.at {
			return false
		}
		c.Judged--
		h.revoked = 0
		return true
	})
}

// told notes that a holder was told.
func (c *revocations) told(h *hold, at int64) {
	c.ask(h, at)
	h.revoked = at // whatever becomes of the fault
}

func (c *revocations) ask(h *hold, at int64) {
	if h.revoked == 0 {
		c.Judged++
		h.revoked = at
		c.open = append(c.open, h)
	}
}

// pass judges those that were asked, now and then.
func (c *revocations) pass(sc *scene) {
	if sc.now < c.next {
		return
	}
	c.next = sc.now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(h *hold) bool {
		if h.phase != inside {
			return true
		}
		if !c.late(sc, h, sc.now) {
			return false
		}
		c.find(sc, h.lock, sc.now, "%v was asked at %s to give up lock %q, and still held it at %s", h, sc.when(h.revoked), h.lock.Name, sc.when(sc.now))
		return true
	})
}

// left notes that h, which may have been asked, is inside no more.
func (c *revocations) left(sc *scene, h *hold) {
	if h.revoked != 0 {
		c.tally.add(h.ended-h.revoked, sc.excuses.holding(sc, h, h.ended), c.bound(sc, h, h.ended))
	}
}

// bound returns how long h may be inside until that time since it was asked. One that
// upgrades is inside while it waits for the readers.
func (c *revocations) bound(sc *scene, h *hold, at int64) int64 {
	bound := sc.header.SessionTimeout + slack
	if h.mode == history.Upgradable {
		bound += h.lock.holds(h.revoked, at, h, true)
	}
	return bound
}

// late reports whether h is inside for too long at that time since it was asked.
func (c *revocations) late(sc *scene, h *hold, at int64) bool {
	took, bound := at-h.revoked, c.bound(sc, h, at)
	return took > bound && took-sc.excuses.holding(sc, h, at) > bound
}

// explain says how much was not judged.
func (c *revocations) explain(sc *scene) { c.Note = c.tally.note(sc, "%s of %s holders had no excuse") }

// end judges those that are asked at the end.
func (c *revocations) end(sc *scene) {
	if sc.stopping {
		c.next = 0
		c.pass(sc)
	}
}

// oldest returns when the first of those that are asked, and still inside, was asked.
func (c *revocations) oldest(sc *scene) int64 {
	oldest := sc.now
	for _, h := range c.open {
		oldest = min(oldest, h.revoked)
	}
	return oldest
}
