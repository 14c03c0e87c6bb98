// SPDX-License-Identifier: Apache-2.0

package cron

import (
	"errors"
	"fmt"
	"time"
)

// A Schedule says when a job is planned. Those of github.com/robfig/cron are Schedules as they
// are. A Schedule is used by one goroutine at a time.
type Schedule interface {
	// Next returns the first planned time after t, or the zero time if there is none. Options.Location
	// is the location of t. All processes must get the same answer for the same t, so an answer
	// must not depend on the clock, nor on what Next was asked before.
	Next(t time.Time) time.Time
}

// Every returns the Schedule whose planned times are the multiples of d since 1970-01-01 00:00 UTC:
// Every(time.Hour) is each full hour, on all machines. New refuses a d that is not positive.
func Every(d time.Duration) Schedule { return every(d) }

type every time.Duration

func (e every) Next(t time.Time) time.Time {
	d := time.Duration(e)
	if d <= 0 {
		return time.Time{}
	}
	if d%time.Second == 0 { // in seconds, which hold any time
		n := int64(d / time.Second)
		return time.Unix(floor(t.Unix(), n)+n, 0).In(t.Location())
	}
	return time.Unix(0, floor(t.UnixNano(), int64(d))+int64(d)).In(t.Location())
}

// floor returns the largest multiple of d that is not above n.
func floor(n, d int64) int64 {
	rest := n % d
	if rest < 0 {
		rest += d
	}
	return n - rest
}

// Missed says what becomes of planned times that are past when the process looks that runs the
// job: no process was there, ZooKeeper could not be reached, or the run before took too long.
type Missed uint8

const (
	// RunLatest runs the newest of them, and passes over the others.
	RunLatest Missed = iota
	// RunAll runs each of them, in order, however many they are. It keeps no list of them.
	RunAll
	// Skip passes over those that are past by more than Options.Grace, and runs each of the others, in
	// order.
	Skip
)

// maxMissed is how many planned times are passed over one by one. If there are more, the rest is
// passed over in one step, so that a year of seconds costs no more than that.
const maxMissed = 1000

// A plan is what to do next.
type plan struct {
	at      time.Time // the planned time to run at, perhaps in the future; zero: there is none
	attempt int

	missed int       // how many planned times before at are passed over, up to maxMissed
	from   time.Time // the first of them
}

// plan returns what is to be done at now if r is the record. What is planned depends on the
// record and never on the clock, which only says how much of that is past: however the clock is set,
// each planned time comes after the one before.
func (o *Options) plan(r Record, now time.Time) (p plan, err error) {
	p.attempt = 1
	if r.State == StateBegun && r.Attempt < o.Attempts {
		p.at, p.attempt = r.Planned, r.Attempt+1 // its run was interrupted, and it counts as not run
	} else if p.at, err = o.next(r.Planned); err != nil {
		return plan{}, err
	}
	for !p.at.IsZero() && !p.at.After(now) {
		following, err := o.next(p.at)
		if err != nil {
			return plan{}, err
		}
		switch {
		case o.Missed == RunAll,
			o.Missed == RunLatest && (following.IsZero() || following.After(now)),
			o.Missed == Skip && now.Sub(p.at) <= o.Grace:
			return p, nil
		}
		if p.missed == 0 {
			p.from = p.at
		}
		p.missed++
		p.attempt = 1
		if p.missed < maxMissed {
			p.at = following
		} else if p.at, err = o.jump(p.at, now); err != nil {
			return plan{}, err
		}
	}
	return p, nil
}

// jump returns the planned time after t that is not to be passed over at now. The one after t is past.
func (o *Options) jump(t, now time.Time) (time.Time, error) {
	if o.Missed == Skip {
		return o.next(now.Add(-o.Grace - 1))
	}
	// RunLatest: of the times before which the next planned one is past, find the latest.
	low, high := t, now
	for high.Sub(low) > 1 {
		mid := low.Add(high.Sub(low) / 2)
		switch at, err := o.next(mid); {
		case err != nil:
			return at, err
		case at.IsZero() || at.After(now):
			high = mid
		default:
			low = mid
		}
	}
	return o.next(low)
}

// ErrBadSchedule says that a Schedule returned a planned time that is not after the time that it was
// asked for. The text has both.
var ErrBadSchedule = errors.New("the schedule goes back")

// next returns the first planned time after t, without what the monotonic clock says: that does not
// notice when the clock is set.
func (o *Options) next(t time.Time) (time.Time, error) {
	at := o.Schedule.Next(t.In(o.Location)).Round(0)
	if !at.IsZero() && !at.After(t) {
		return time.Time{}, fmt.Errorf("%w: the planned time after %v is %v", ErrBadSchedule, t, at)
	}
	return at, nil
}
