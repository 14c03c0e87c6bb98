// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"
)

// The check revocations: a holder that is asked to give up the lock is told so, and gives
// it up.
type revocations struct {
	check
	open []*hold
	next int64
}

func (c *revocations) init() {
	c.check = check{Check: Check{Name: "a holder that is asked to give up the lock does"}, outcome: Failed}
}

// began notes that the holders of a lock are asked to give it up.
func (c *revocations) began(j *Judge, f *fault) {
	if !f.revokes() || f.lock == "" {
		return
	}
	for _, h := range j.lock(f.lock, "").inside {
		if f.affects(h.process) {
			c.ask(j, h, f.at)
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
func (c *revocations) told(j *Judge, h *hold, at int64) {
	c.ask(j, h, at)
	h.revoked = at // whatever becomes of the fault
}

func (c *revocations) ask(j *Judge, h *hold, at int64) {
	if h.revoked == 0 {
		c.Judged++
		h.revoked, h.outage = at, j.faults.outage
		c.open = append(c.open, h)
	}
}

// pass judges those that were asked, now and then.
func (c *revocations) pass(j *Judge) {
	if j.now < c.next {
		return
	}
	c.next = j.now + int64(time.Second)
	c.open = slices.DeleteFunc(c.open, func(h *hold) bool {
		if h.phase != inside {
			return true
		}
		since, disturbed := j.now-h.revoked, j.faults.outage-h.outage
		if since-disturbed <= j.header.SessionTimeout+slack {
			return false
		}
		c.find(j, h.lock, j.now, "%v was asked at %s to give up lock %q, and still held it at %s", h, j.when(h.revoked), h.lock.Name, j.when(j.now))
		return true
	})
}

// end judges those that are asked at the end.
func (c *revocations) end(j *Judge) {
	if j.stopping {
		c.next = 0
		c.pass(j)
	}
}
