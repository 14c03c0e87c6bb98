// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// An occupancy adds up for how long a process had a lock: of each grant, from the
// first entry under it to the last leave, by the process's own monotonic clock.
// Moments between the two in which nobody was inside count, since the process
// had the lock all the same. The time before the first entry and after the last
// leave does not: that is ZooKeeper's and the lock's, not the workers'.
//
// Its zero value is one of a process that has not entered yet. It is a part of a
// referee, whose mutex protects it.
type occupancy struct {
	inside int    // workers, of whatever round
	token  uint64 // of the grant that was entered last
	// The span that is counted now: that grant's, or of that one and earlier
	// ones (rounds that were lost) if somebody was inside all the while.
	first, last time.Time // its first entry and, while nobody is inside, its last leave
	before      time.Duration
}

// enter notes that a worker begins work under the grant with the token.
func (o *occupancy) enter(token uint64, now time.Time) {
	if o.inside == 0 && (token != o.token || o.first.IsZero()) {
		o.before += o.last.Sub(o.first)
		o.first = now
	}
	o.token = token
	o.inside++
}

// leave notes that one has stopped.
func (o *occupancy) leave(now time.Time) {
	o.inside--
	o.last = now
}

// total returns for how long the process has had the lock until now.
func (o *occupancy) total(now time.Time) time.Duration {
	last := o.last
	if o.inside > 0 {
		last = now
	}
	return o.before + last.Sub(o.first)
}

// lockTime says for how long each process had one lock.
type lockTime struct {
	Lock      string          `json:"lock"`
	Processes []time.Duration `json:"process_ns"`
	// How the sum of those is made up, in percent; all 0 if nobody had it. The
	// read lock can be with more than one process at a time.
	Percent []float64 `json:"percent"`
	// The sum, of the time that the run took.
	PercentOfRun float64 `json:"percent_of_run"`
}

// newLockTime returns how the time is shared, of a run that took elapsed.
func newLockTime(lock string, processes []time.Duration, elapsed time.Duration) lockTime {
	l := lockTime{Lock: lock, Processes: processes, Percent: make([]float64, len(processes))}
	var sum time.Duration
	for _, d := range processes {
		sum += d
	}
	if sum > 0 {
		for i, d := range processes {
			l.Percent[i] = 100 * float64(d) / float64(sum)
		}
	}
	if elapsed > 0 {
		l.PercentOfRun = 100 * float64(sum) / float64(elapsed)
	}
	return l
}
