// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"testing"
)

// TryLock does not answer from stale knowledge: once the holder's Unlock has
// returned it succeeds, even if the round of an earlier, refused TryLock is still
// ending.
func TestTryLockAgainAfterTheHolderHasLeft(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		for range 50 {
			h := mustLock(c.t, a)
			wantErr(c.t, "beside a holder", errOf(b.TryLock(c.t.Context())), ErrLocked)
			mustRelease(c.t, h)
			h, err := b.TryLock(c.t.Context())
			if err != nil {
				c.t.Fatalf("after the holder has left: %v", err)
			}
			mustRelease(c.t, h)
		}
	})
}

// TryLock does not say that a contender is ahead whose node the server has just
// said to be gone.
func TestTryLockAfterTheOneAheadWasFoundGone(t *testing.T) {
	wrong, times := 0, 60
	for range times {
		bubble(t, func(c *cluster) {
			a, b := c.lock("a"), c.lock("b")
			h := mustLock(c.t, a)
			_, err := b.TryLock(c.t.Context())
			wantErr(c.t, "beside a holder", err, ErrLocked)
			at := c.stopBefore(b.m, lookAtNode)
			done := make(chan error, 1)
			go func() {
				h, err := b.TryLock(c.t.Context())
				if err == nil {
					mustRelease(c.t, h)
				}
				done <- err
			}()
			at.reached()
			mustRelease(c.t, h) // a's Unlock has returned: the lock is free
			at.goOn()
			if err := <-done; errors.Is(err, ErrLocked) {
				wrong++
			} else if err != nil {
				c.t.Error(err)
			}
		})
	}
	expect(t, wrong <= 0,
		"%d of %d: ErrLocked although the server has answered that the one ahead is gone", wrong, times)
}
