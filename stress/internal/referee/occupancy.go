// SPDX-License-Identifier: Apache-2.0

package referee

import "time"

// An occupancy measures how long a process has used a lock: for each grant, from
// its first entry to its last exit, by the process's monotonic clock. Moments
// without a worker inside are included, because the process keeps the lock. The
// time from grant to first entry and from last exit to release is not: it belongs
// to ZooKeeper and the lock rather than to the workers.
//
// The zero value is ready to use. The mutex of the referee that it belongs to
// protects it.
type occupancy struct {
	inside int    // workers, of all rounds
	token  uint64 // of the latest entry
	// The present span: of that grant, or, if workers of lost rounds stayed
	// inside, of several grants.
	first, last time.Time     // its first entry and its last exit
	before      time.Duration // the sum of earlier spans
}

// enter records that a worker enters with the token.
func (o *occupancy) enter(token uint64, now time.Time) {
	if o.inside == 0 && (token != o.token || o.first.IsZero()) {
		o.before += o.last.Sub(o.first)
		o.first = now
	}
	o.token = token
	o.inside++
}

// leave records that a worker leaves.
func (o *occupancy) leave(now time.Time) {
	o.inside--
	o.last = now
}

// total returns how long the process has used the lock until now.
func (o *occupancy) total(now time.Time) time.Duration {
	last := o.last
	if o.inside > 0 {
		last = now
	}
	return o.before + last.Sub(o.first)
}
