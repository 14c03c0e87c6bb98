// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"time"
)

// A loss that only the release of the lock finds is told like any other.
func TestLossFoundByTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a")
		l := exclusive(c.t, a, "jobs")
		h := mustLock(c.t, l) // its node is not watched yet
		later(10 * time.Millisecond)
		c.remove(c.nodeOf(a))
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), errNodeDeleted)
		later(time.Second)
		if loss := a.losses.lastOf(l); loss == nil || loss.Held != 10*time.Millisecond {
			c.t.Errorf("the last loss is %+v", loss)
		}
		if lines := c.log.with("WARN holdfast: lost a lock; its holders have been told lock=jobs kind=exclusive held=10ms cause="); len(lines) != 1 {
			c.t.Errorf("logged %q", c.log.with("WARN"))
		}
	})
}
