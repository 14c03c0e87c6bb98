// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"testing/synctest"
	"time"
)

// The holder and the next in line prove their sessions every seventh of the timeout.
// Waiters further back do not; each proves its session before it enters.
func TestWaitersKeepQuiet(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, d, e := c.lock("a"), c.lock("b"), c.lock("d"), c.lock("e")
		h := mustLock(c.t, a)
		var waiting []Hold
		for _, l := range []*Lock{b, d, e} {
			waiting = append(waiting, l.Acquire(c.t.Context()))
			synctest.Wait()
		}
		seventh := defaultSessionTimeout / 7
		const beats = 42
		later(seventh)
		c.takeCounts()
		later(beats * seventh)
		n := c.takeCounts()[prove]
		expect(c.t, n >= 2*beats-2 && n <= 2*beats+2,
			"%d proofs by four processes in %d sevenths of the timeout, want two in each", n, beats)

		mustRelease(c.t, h)
		synctest.Wait()
		c.wantCounts("the next grant, which needs no proof, and the new next in line", map[verb]int{prove: 1})
		wantErr(c.t, "the next in line", waiting[0].Err(), nil)
		expect(c.t, d.m.client.Session().Lease().InForce(), "the next in line has no lease")
		expect(c.t, !e.m.client.Session().Lease().InForce(),
			"the last waiter has a lease that it does not need")
		mustRelease(c.t, waiting[0])
		<-waiting[1].Granted().Done()
		wantErr(c.t, "the waiter further back", waiting[1].Err(), nil)
		later(time.Minute)
		wantErr(c.t, "the waiter further back, a minute later", waiting[1].Err(), nil)
		mustRelease(c.t, waiting[1])
		<-waiting[2].Granted().Done()
		wantErr(c.t, "the last waiter", waiting[2].Err(), nil)
		mustRelease(c.t, waiting[2])
		c.wantNodes(0)
	})
}
