// SPDX-License-Identifier: Apache-2.0

package manager

import "testing"

// TryLock does not answer from stale knowledge: once the holder's Unlock has
// returned it succeeds, even if the round of an earlier, refused TryLock is still
// ending.
func TestTryLockAgainAfterTheHolderHasLeft(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		for range 50 {
			h := mustLock(c.t, a)
			_, err := b.TryLock(c.t.Context())
			wantErr(c.t, "beside a holder", err, ErrLocked)
			mustRelease(c.t, h)
			h, err = b.TryLock(c.t.Context())
			if err != nil {
				c.t.Fatalf("after the holder has left: %v", err)
			}
			mustRelease(c.t, h)
		}
	})
}
