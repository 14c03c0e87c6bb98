// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A newcomer that has to let another process go first is told that its own process
// holds the lock, and which verbs enter it nevertheless.
func TestF103_Yielding(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		other := c.acquire(b)
		later(time.Second)

		_, err := a.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrYielding)
		wantErr(c.t, "trylock", err, ErrLocked)
		if text := err.Error(); !strings.HasPrefix(text, `holdfast: trylock "jobs": this process holds the lock but lets other contenders go first`) ||
			strings.Contains(text, ErrLocked.Error()) {
			c.t.Error(text)
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		_, err = a.Lock(ctx)
		wantErr(c.t, "lock", err, context.DeadlineExceeded)
		wantErr(c.t, "lock", err, ErrYielding)

		// Another process is told of another process.
		_, err = exclusive(c.t, c.open("d"), "jobs").TryLock(c.t.Context())
		wantErr(c.t, "another process's trylock", err, ErrLocked)
		if errors.Is(err, ErrYielding) {
			c.t.Errorf("another process's trylock: %v", err)
		}
		// And so is this one when its holders have left.
		next := a.Acquire(c.t.Context())
		mustRelease(c.t, h)
		c.held(other)
		ctx, cancel = context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		_, err = a.Lock(ctx)
		wantErr(c.t, "lock, behind the other process", err, context.DeadlineExceeded)
		if errors.Is(err, ErrYielding) {
			c.t.Errorf("lock, behind the other process: %v", err)
		}
		next.Release()
		mustRelease(c.t, other)
	})
}
