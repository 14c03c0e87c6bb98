// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"time"
)

// A lock that is acquired soon after an outage is kept if the session survives. By
// then the proofs from before the outage are old: newer ones must extend the lease
// before it ends.
func TestF053_LockSoonAfterAnOutage(t *testing.T) {
	const timeout = 10 * time.Second
	for outage := time.Second; outage <= 6*time.Second; outage += time.Second / 2 {
		for pause := time.Duration(0); pause <= 3*time.Second; pause += time.Second / 4 {
			t.Run(fmt.Sprintf("outage=%v/pause=%v", outage, pause), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					l := exclusive(c.t, c.open("a", func(cfg *Config) { cfg.SessionTimeout = timeout }), "jobs")
					mustRelease(c.t, mustLock(c.t, l))
					later(time.Minute)
					id := session(l.m)
					c.srv.Faults().RefuseFor(outage)
					c.srv.Faults().CutAll()
					later(outage + pause)
					h := mustLock(c.t, l)
					for range 120 {
						later(time.Second / 2)
						wantErr(c.t, "the hold", h.Err(), nil)
					}
					if session(l.m) != id {
						c.t.Error("the session was lost, which is not what this is about")
					}
					mustRelease(c.t, h)
				})
			})
		}
	}
}
