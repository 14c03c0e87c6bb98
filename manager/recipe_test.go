// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"time"
)

// Another kind of lock in a lock's directory is a loud warning, once for each lock,
// whether it is there before or comes while the lock is held.
func TestF106_ForeignRecipe(t *testing.T) {
	const guid = "_c_0123456789abcdef0123456789abcdef-"
	for _, test := range []struct{ node, recipe string }{
		{guid + "latch-0000000000", "LeaderLatch"},
		{guid + "lease-0000000000", "InterProcessSemaphoreMutex"},
		{"lease-0000000000", "InterProcessSemaphoreV2"},
		{"leases", "InterProcessSemaphoreMutex"},
		{"locks", "InterProcessSemaphoreMutex"},
		{"qn-0000000000", "DistributedQueue"},
		{"config", ""},
		{"latch-", ""},
		{"my-latch-0000000000", ""},
		{guid + "lock-0000000000", ""}, // a contender
	} {
		for _, before := range []bool{true, false} {
			subtest(t, test.node, func(c *cluster) {
				a, other := c.lock("a"), c.crowd()
				make := func() string { return other.node(test.node) }
				path := ""
				if before {
					path = make()
				}
				h := c.acquire(a)
				if !before {
					later(time.Second)
					path = make()
				}
				later(time.Minute)
				n := len(c.log.with("WARN holdfast: another kind of lock"))
				expect(c.t, n != 0 || test.recipe == "", "not logged while the lock is held")
				for range 3 {
					if _, err := h.Grant(); err == nil {
						mustRelease(c.t, h)
						h = c.acquire(a)
					}
				}
				lines := c.log.with("WARN holdfast: another kind of lock")
				expect(c.t, (test.recipe != "" || len(lines) == 0) && (test.recipe == "" || len(lines) == 1 && strings.Contains(lines[0], test.recipe) && strings.Contains(lines[0], "node="+path) && strings.Contains(lines[0], "lock=jobs")),
					"logged: %q", lines)
				h.Release()
			})
		}
	}
}
