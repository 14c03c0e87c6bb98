// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Processes that call TryLock again and again never wait for each other, and one
// of them succeeds.
func TestTryLockStorm(t *testing.T) {
	bubble(t, func(c *cluster) {
		r := newReferee(c.t)
		var got, missed int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for p := range 5 {
			l := c.lock(fmt.Sprint(p))
			wg.Go(func() {
				for range 100 {
					h, err := l.TryLock(c.t.Context())
					mu.Lock()
					switch {
					case err == nil:
						got++
					case errors.Is(err, ErrLocked):
						missed++
					default:
						c.t.Errorf("got %v", err)
					}
					mu.Unlock()
					if err == nil {
						r.enter(l.m, h)
						<-time.After(rand.N(5 * time.Millisecond))
						r.leave(h)
						mustRelease(c.t, h)
					}
					<-time.After(rand.N(20 * time.Millisecond))
				}
			})
		}
		wg.Wait()
		later(time.Second)
		if got < 50 || missed == 0 {
			c.t.Errorf("%d got it, %d did not", got, missed)
		}
		c.wantNodes(0)
	})
}
