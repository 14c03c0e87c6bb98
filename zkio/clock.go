// SPDX-License-Identifier: Apache-2.0

package zkio

import "time"

// A clock tells the time since the client was opened. It is monotonic: it does
// not follow changes of the wall clock.
//
// Leases are compared with it, so it is the one place where time that the
// monotonic clock does not count, such as the suspension of the machine, can
// be added.
type clock struct {
	start time.Time            // carries the monotonic reading
	fake  func() time.Duration // set by tests only
}

func newClock() *clock { return &clock{start: time.Now()} }

func (c *clock) now() time.Duration {
	if c.fake != nil {
		return c.fake()
	}
	return time.Since(c.start)
}
