// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"time"
)

// A lock that is taken soon after an outage that the session survived is kept:
// what the servers answered before it is old by then, and what they have answered
// since has to count before that makes the lease end.
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
