// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"math"
	"sync/atomic"
	"time"
)

// A clock tells the time since the client was opened, as leases need it.
//
// It is Go's monotonic clock, which does not follow changes of the wall clock,
// plus the time for which the machine was suspended, where the monotonic clock
// stands still then. The servers' clocks go on, so a suspension ends a lease
// that would have ended in it.
//
// A reading costs one system call on Linux, some hundred nanoseconds. That is
// little beside a request, and tolerable in a question such as whether a lock is
// held. The paths that must be faster read no clock.
type clock struct {
	start     time.Time            // carries the monotonic reading
	suspended func() time.Duration // the total so far, since some moment before start
	before    time.Duration        // the total at start
	uptime    func() time.Duration // a clock that counts suspensions; nil if there is none
	origin    time.Duration        // what it said at start

	// slept is the suspension since start as far as it was noticed. It only
	// grows, by compare-and-swap.
	slept atomic.Int64
}

// The suspended time is the difference of two clocks that are read one after the
// other, so what looks like a short suspension can be the pause between the two.
// An increase below suspensionNoise is ignored; a larger one is read again, and
// the shortest of the readings counts. No reading is too short, so the shortest
// is not either. Increases that are ignored add up, and count as soon as their
// sum is larger.
const (
	suspensionNoise = time.Millisecond
	suspensionReads = 8
)

// newClock returns a clock that counts the time that suspended returns; if that is
// nil, what the system says.
func newClock(suspended func() time.Duration) *clock {
	c := &clock{suspended: suspended}
	if suspended == nil {
		c.suspended, c.uptime = systemSuspended, systemUptime
	}
	c.start = time.Now()
	c.before = c.shortest(c.suspended())
	if c.uptime != nil {
		c.origin = math.MaxInt64
		for range suspensionReads {
			elapsed := time.Since(c.start)
			c.origin = min(c.origin, c.uptime()-elapsed)
		}
	}
	return c
}

// now returns the time since start.
func (c *clock) now() time.Duration {
	// In this order: a suspension between the two is counted. So the sum is never
	// less than the time at the beginning of the call, nor more than at its end.
	slept := c.slept.Load()
	elapsed := time.Since(c.start)
	if c.uptime != nil {
		// If that clock is as far ahead as it was, there was no suspension since.
		// (Under testing/synctest it never is, and tells nothing.)
		d := c.uptime() - c.origin - elapsed - time.Duration(slept)
		if -suspensionNoise < d && d < suspensionNoise {
			return elapsed + time.Duration(slept)
		}
	}
	return elapsed + c.asleep(slept)
}

// asleep returns for how long the machine has been suspended since start, of
// which slept nanoseconds were noticed.
func (c *clock) asleep(slept int64) time.Duration {
	total := c.suspended() - c.before
	if total-time.Duration(slept) < suspensionNoise {
		return time.Duration(slept)
	}
	total = c.shortest(total+c.before) - c.before
	for total-time.Duration(slept) >= suspensionNoise {
		if c.slept.CompareAndSwap(slept, int64(total)) {
			return total
		}
		slept = c.slept.Load() // another goroutine was first
	}
	return time.Duration(slept)
}

// shortest returns the shortest of a reading and some more.
func (c *clock) shortest(reading time.Duration) time.Duration {
	for range suspensionReads - 1 {
		reading = min(reading, c.suspended())
	}
	return reading
}
