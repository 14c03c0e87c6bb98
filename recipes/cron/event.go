// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"fmt"
	"log/slog"
	"time"
)

// An EventKind says what an [Event] tells.
type EventKind uint8

const (
	// EventFailed tells that the job returned Err for Tick. The schedule goes on.
	EventFailed EventKind = iota + 1
	// EventMissed tells that the planned times from From on and before To were passed over: N of
	// them, or, if N is 1000, at least as many.
	EventMissed
	// EventInterrupted tells that the run of Tick, which another process had begun, has not ended as
	// far as is known. Options.Attempts decides whether the planned time is run again.
	EventInterrupted
	// EventAhead tells that the last planned time that was run, Tick.Planned, is in the future: the
	// clock of the process that ran it was ahead, or the clock of this one is behind. Nothing is run until
	// the clock has passed that time. The package documentation says how to begin anew.
	EventAhead
)

// An Event is what a program may want to log or to alert on.
type Event struct {
	Kind     EventKind
	Tick     Tick
	From, To time.Time // of EventMissed. To is planned, and not passed over; zero if the schedule ends
	N        int       // of EventMissed
	Err      error     // of EventFailed
}

// String describes the event.
func (e Event) String() string {
	const layout = time.RFC3339Nano
	planned := e.Tick.Planned.Format(layout)
	switch e.Kind {
	case EventFailed:
		return fmt.Sprintf("the run planned for %s has failed: %v", planned, e.Err)
	case EventMissed:
		from := e.From.Format(layout)
		switch {
		case e.N == 1:
			return "1 planned time was passed over: " + from
		case e.N < maxMissed:
			return fmt.Sprintf("%d planned times were passed over, from %s on", e.N, from)
		}
		return fmt.Sprintf("at least %d planned times were passed over, from %s on", maxMissed, from)
	case EventInterrupted:
		return fmt.Sprintf("the run planned for %s, attempt %d with token %d, was interrupted", planned, e.Tick.Attempt, e.Tick.Token)
	case EventAhead:
		return fmt.Sprintf("the run planned for %s lies in the future: a clock is or was wrong", planned)
	}
	return "no event"
}

// told is what a Cron has told, which is not to be told again: each call of RunDue, and Run each time it gets
// the lock, finds again what has not changed since.
type told struct {
	interrupted Record    // the run
	missed      Record    // the record after which planned times were passed over
	n           int       // how many of them
	to          time.Time // the planned time after them
	ahead       time.Time // the planned time in the future
}

// tell passes e to the program, or logs it if the program does not want it.
func (c *Cron) tell(e Event) {
	if c.opts.OnEvent != nil {
		c.opts.OnEvent(e)
		return
	}
	slog.Warn("holdfast: "+e.String(), "cron", c.name) //nolint:sloglint // the program's default logger is what is meant
}
