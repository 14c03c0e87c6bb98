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
// stands still meanwhile: the servers' clocks go on. So a suspension makes
// everything that was measured before it older, and a lease that would have
// ended in it is over.
//
// A reading costs one system call on Linux, some hundred nanoseconds. That is
// nothing beside a request, and tolerable for whoever asks whether he holds a
// lock; the paths that must be faster read no clock.
type clock struct {
	start     time.Time            // carries the monotonic reading
	suspended func() time.Duration // the total so far, since some moment before start
	before    time.Duration        // the total at start
	uptime    func() time.Duration // a clock that counts suspensions; nil if there is none
	origin    time.Duration        // what it said at start
	fake      func() time.Duration // set by tests only: takes the place of all that

	// slept is the suspension since start as far as it was noticed. It only
	// grows; who has seen a greater one than it says raises it by
	// compare-and-swap.
	slept atomic.Int64
}

// Readings of the suspended time come from two clocks that are read one after
// the other, so what looks like a short suspension can be the pause between the
// two. A reading that is longer by less than suspensionNoise is none; one that is
// longer is repeated, and the shortest of the readings counts. None of them is
// too short, so the shortest is not either. What is taken for noise adds up and
// counts as soon as it is more.
const (
	suspensionNoise = time.Millisecond
	suspensionReads = 8
)

// newClock returns a clock that counts as suspended time what suspended says; nil
// is what the system says.
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
	if c.fake != nil {
		return c.fake()
	}
	// In this order: a suspension between the two is counted. So the sum is never
	// less than the time at the beginning of the call, nor more than at its end.
	slept := c.slept.Load()
	elapsed := time.Since(c.start)
	if c.uptime != nil {
		// If that clock is as far ahead as it was, nothing has happened since. Where
		// Go's clock is the one of package testing/synctest it is not, and tells
		// nothing.
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
		slept = c.slept.Load() // somebody else has noticed
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
