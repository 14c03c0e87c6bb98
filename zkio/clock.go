// SPDX-License-Identifier: Apache-2.0

package zkio

import (
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
// The suspended time takes system calls, which cost most of a microsecond, and the
// monotonic clock a few dozen nanoseconds. So the former is asked for at most once
// in looksLast, and a reading in between adds what the last look found.
type clock struct {
	start     time.Time            // carries the monotonic reading
	suspended func() time.Duration // the total so far, since some moment before start
	before    time.Duration        // the total at start

	// slept is the suspension since start as far as it was noticed. It only
	// grows, by compare-and-swap.
	slept atomic.Int64

	// looked is a time since start, without suspensions. Every suspension up to
	// then is in slept: a look reads the time, then the suspension, changes slept,
	// and stores the time here. If an older look stores last, that only makes the
	// next one come earlier.
	looked atomic.Int64
}

// looksLast is for how long, by the monotonic clock, a look at the suspended time
// holds: there was no suspension since.
//
// This is reasoned, not measured. The clock that stands still while the machine
// is suspended runs while it goes to sleep and wakes up: while the kernel freezes
// all processes, stops the devices and the other processors one by one, and later
// starts them again and thaws the processes. Each of that takes more than a
// millisecond on any machine that we know of, and this process runs in none of
// it. So of two readings of the monotonic clock by this process with a suspension
// in between, the second is later by more than looksLast, and whatever was looked
// up before the suspension is out of date by then.
//
// If a machine were faster than that, a lease could look in force although it
// ended in the suspension, but for no longer than looksLast after the machine goes
// on. The last look was before the suspension, and the clock that measures its age
// is running again.
const looksLast = time.Millisecond

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
		c.suspended = systemSuspended
	}
	c.start = time.Now()
	c.before = c.shortest(c.suspended())
	return c
}

// now returns the time since start.
func (c *clock) now() time.Duration {
	// In this order. looked before slept: what is in slept is as new as looked says,
	// or newer. Both before the time: a suspension between is counted, because it
	// makes the look too old. So the sum is never less than the time at the beginning
	// of the call, nor more than at its end.
	looked := c.looked.Load()
	slept := c.slept.Load()
	elapsed := time.Since(c.start)
	if elapsed-time.Duration(looked) < looksLast {
		return elapsed + time.Duration(slept)
	}
	total := c.asleep(slept)
	c.looked.Store(int64(elapsed))
	return elapsed + total
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
