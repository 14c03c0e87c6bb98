// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Revocations is a check: a holder that is asked to give up the lock is told so, and gives
// it up.
type Revocations struct {
	Check
	open  []*scene.Hold
	next  int64
	tally tally
}

// Began notes that the holders of a lock are asked to give it up.
func (c *Revocations) Began(sc *scene.Scene, f *scene.Fault) {
	if !f.Revokes() || f.Lock == "" {
		return
	}
	for _, h := range sc.Lock(f.Lock, "").Inside {
		if f.Affects(h.Process) {
			c.ask(h, f.At)
		}
	}
}

// Failed notes that the fault has failed: its holders need not have been asked.
func (c *Revocations) Failed(f *scene.Fault) {
	c.open = slices.DeleteFunc(c.open, func(h *scene.Hold) bool {
		if h.Lock.Name != f.Lock || h.Revoked != f.At {
			return false
		}
		c.Judged--
		h.Revoked = 0
		return true
	})
}

// Told notes that a holder was told.
func (c *Revocations) Told(h *scene.Hold, at int64) {
	c.ask(h, at)
	h.Revoked = at // whatever becomes of the fault
}

func (c *Revocations) ask(h *scene.Hold, at int64) {
	if h.Revoked == 0 {
		c.Judged++
		h.Revoked = at
		c.open = append(c.open, h)
	}
}

// Pass judges those that were asked, now and then.
func (c *Revocations) Pass(sc *scene.Scene) {
	if sc.Now < c.next {
		return
	}
	c.next = sc.Now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(h *scene.Hold) bool {
		if h.Phase != scene.Inside {
			return true
		}
		if !c.late(sc, h, sc.Now) {
			return false
		}
		c.find(sc, h.Lock, sc.Now, "%v was asked at %s to give up lock %q, and still held it at %s", h, sc.When(h.Revoked), h.Lock.Name, sc.When(sc.Now))
		return true
	})
}

// Left notes that h, which may have been asked, is inside no more.
func (c *Revocations) Left(sc *scene.Scene, h *scene.Hold) {
	if h.Revoked != 0 {
		c.tally.add(h.Ended-h.Revoked, sc.Excuses.Holding(sc, h, h.Ended), c.bound(sc, h, h.Ended))
	}
}

// bound returns how long h may be inside until that time since it was asked. One that
// upgrades is inside while it waits for the readers.
func (c *Revocations) bound(sc *scene.Scene, h *scene.Hold, at int64) int64 {
	bound := sc.Header.SessionTimeout + scene.Slack
	if h.Mode == history.Upgradable {
		bound += h.Lock.Holds(h.Revoked, at, h, true)
	}
	return bound
}

// late reports whether h is inside for too long at that time since it was asked.
func (c *Revocations) late(sc *scene.Scene, h *scene.Hold, at int64) bool {
	took, bound := at-h.Revoked, c.bound(sc, h, at)
	return took > bound && took-sc.Excuses.Holding(sc, h, at) > bound
}

// Explain says how much was not judged.
func (c *Revocations) Explain(sc *scene.Scene) {
	c.Note = c.tally.note(sc, "%s of %s holders had no excuse")
}

// End judges those that are asked at the end.
func (c *Revocations) End(sc *scene.Scene) {
	if sc.Stopping {
		c.next = 0
		c.Pass(sc)
	}
}

// Oldest returns when the first of those that are asked, and still inside, was asked.
func (c *Revocations) Oldest(sc *scene.Scene) int64 {
	oldest := sc.Now
	for _, h := range c.open {
		oldest = min(oldest, h.Revoked)
	}
	return oldest
}
