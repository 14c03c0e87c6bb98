// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/state"
)

// One round ends by force while goroutines of the same process arrive. Those that
// it counts are told; the others are in the next round; none falls in between.
func TestF066_ForcedEndUnderArrivals(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 50 {
			first := mustLock(c.t, l)
			dead := first.share
			var mu sync.Mutex
			var holds []Hold
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					<-start
					for range 50 {
						h := l.Acquire(c.t.Context())
						mu.Lock()
						holds = append(holds, h)
						mu.Unlock()
					}
				})
			}
			wg.Go(func() {
				<-start
				for n := 0; n < 100; n = int(l.entries()) % 400 {
					if dead.word.Load().Holders() > 100 {
						break
					}
				}
				dead.fail(&Error{Op: "test", Name: "jobs", Err: ErrLost})
			})
			close(start)
			wg.Wait()
			waitUntil(c.t, "the next round is granted", func() bool {
				p, n := l.State()
				return p == state.Retained && n > 0 || l.cur.Load().word.Load().Phase() == state.Free
			})
			alive := 0
			for _, h := range holds {
				switch err := h.Err(); {
				case h.share == dead:
					wantErr(c.t, "a hold of the dead round", err, ErrLost)
				case err == nil:
					alive++
				default:
					c.t.Errorf("a hold of the next round: %v", err)
				}
			}
			if _, n := l.State(); n != alive {
				c.t.Errorf("the next round counts %d, but %d are in it", n, alive)
			}
			for _, h := range append(holds, first) {
				h.Release()
			}
			synctest.Wait()
			waitUntil(c.t, "the lock is free", func() bool { p, n := l.State(); return p == state.Free && n == 0 })
		}
	})
}
