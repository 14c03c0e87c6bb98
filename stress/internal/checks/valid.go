// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
)

// Valid is a check: a worker that asks is not told that its hold is valid once another
// process has been told of a later grant. This holds after a stop, too: that is what
// asking is for.
type Valid struct{ Check }

// Told judges that the worker asked at that time, and was told that h is valid.
func (c *Valid) Told(sc *scene.Scene, h *scene.Hold, at int64) {
	c.Judged++
	if h.Mode == history.Permit {
		return
	}
	if _, ok := sc.Deleted(h, at, at); ok {
		return
	}
	for _, o := range h.Lock.Inside {
		if o == h || scene.Compatible(o, h) || o.Granted >= at {
			continue
		}
		if o.Fence.Token != 0 && h.Fence.Compare(o.Fence) > 0 {
			continue // then the other one should know better
		}
		if _, ok := sc.Excused(o, at); ok && o.Fence.Token == 0 {
			continue // and so it may be
		}
		c.find(sc, h.Lock, at, "%v was told at %s that its hold of %q is valid, but %v holds it since %s", h, sc.When(at), h.Lock.Name, o, sc.When(o.Granted))
		return
	}
	for mode, top := range h.Lock.Highest {
		later := h.Fence.Token != 0 && top.Fence.Compare(h.Fence) > 0 && top.At < at && (top.By != h.Process || h.Mode == history.Exclusive)
		if later && mode.Alone() {
			c.find(sc, h.Lock, at, "%v was told at %s that its hold of %q is valid, but process %d was granted it with %v at %s", h, sc.When(at), h.Lock.Name, top.By.Number, top.Fence, sc.When(top.At))
			return
		}
	}
}
