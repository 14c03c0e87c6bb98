// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/zkio"
)

// A round has released the lock and left a node to the next one, whose first step
// waits for a worker. News of the old node run a late step of the old round, which
// must leave the new node alone.
func TestLateStepLeavesTheNextNode(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", oneWorker)
		h := mustLock(c.t, l)
		token := grantOf(c.t, h).Token
		next := waitBehind(c.t, h)
		done := make(busy)
		l.m.client.Submit(zkio.Fetches, done)
		synctest.Wait()
		h.Release()
		synctest.Wait()
		if l.handed.Load() == nil {
			c.t.Fatal("no node waits for the next round")
		}
		newsFor(h)
		synctest.Wait()
		close(done)
		synctest.Wait()
		c.wantNext(next, token)
		c.unlock(next)
		c.wantNodes(0)
	})
}
