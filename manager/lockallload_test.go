// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Four processes acquire random subsets of ten locks together, beside callers that nest
// two of them, for a minute of virtual time. All calls return soon after the last has
// begun; and many have returned before.
func TestF129_UnderLoad(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		const processes, names = 4, 10
		c.srv.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if op != zktest.OpPing {
				time.Sleep(time.Millisecond)
			}
		})
		var (
			workers        sync.WaitGroup
			groups, nested atomic.Int64
			longest        [processes][2]time.Duration // of each goroutine that locks all
			until          = time.Now().Add(time.Minute)
		)
		for p := range processes {
			m := c.open(fmt.Sprint("p", p))
			for w := range 4 {
				workers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(p), uint64(w)))
					for time.Now().Before(until) {
						var chosen []string
						for _, i := range rng.Perm(names)[:2+rng.IntN(3)] {
							chosen = append(chosen, fmt.Sprint("l", i))
						}
						group := w < 2
						if !group { // in one order, or they would deadlock by themselves
							chosen = []string{min(chosen[0], chosen[1]), max(chosen[0], chosen[1])}
						}
						began := time.Now()
						if err := lockSeveral(t, m, group, several(t, m, chosen...)); err != nil {
							t.Errorf("p%d: %v", p, err)
						}
						if group {
							groups.Add(1)
							longest[p][w] = max(longest[p][w], time.Since(began))
						} else {
							nested.Add(1)
						}
					}
				})
			}
		}
		workers.Wait()
		rest := time.Since(until)
		t.Logf("%d groups, the longest waits %v; %d nested; the rest took %v", groups.Load(), longest, nested.Load(), rest)
		if groups.Load() < 50 || nested.Load() < 200 || rest > time.Minute {
			t.Error("that is too few, or too long")
		}
	})
}
