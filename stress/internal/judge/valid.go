// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check valid: a worker that asks is not told that its hold is valid once another
// process has been told of a later grant. This holds after a stop, too: that is what
// asking is for.
type valid struct{ check }

func (c *valid) init() {
	c.check = newCheck(verdict.Valid)
}

// told judges that the worker asked at that time, and was told that h is valid.
func (c *valid) told(sc *scene, h *hold, at int64) {
	c.Judged++
	if kind(h.mode) == semaphore {
		return
	}
	if _, ok := sc.deleted(h, at, at); ok {
		return
	}
	for _, o := range h.lock.inside {
		if o == h || compatible(o, h) || o.granted >= at {
			continue
		}
		if o.fence.token != 0 && h.fence.compare(o.fence) > 0 {
			continue // then the other one should know better
		}
		if _, ok := sc.excused(o, at); ok && o.fence.token == 0 {
			continue // and so it may be
		}
		c.find(sc, h.lock, at, "%v was told at %s that its hold of %q is valid, but %v holds it since %s", h, sc.when(at), h.lock.Name, o, sc.when(o.granted))
		return
	}
	for mode, top := range h.lock.highest {
		later := h.fence.token != 0 && top.fence.compare(h.fence) > 0 && top.at < at && (top.by != h.process || h.mode == history.Exclusive)
		if later && (kind(mode) == exclusive || mode == history.WriteMode) {
			c.find(sc, h.lock, at, "%v was told at %s that its hold of %q is valid, but process %d was granted it with %v at %s", h, sc.when(at), h.lock.Name, top.by.number, top.fence, sc.when(top.at))
			return
		}
	}
}
