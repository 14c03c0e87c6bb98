// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"math"
	"sync/atomic"
	"time"
)

// A Lease says until when a session's ephemeral nodes may be trusted to be
// there. It is extended while the leader answers writes. Once it has been seen
// to be over it stays over: what was granted under it is lost, even if the
// session lives on, which then gets another lease.
//
// A Lease is safe for use by any goroutine. Its methods do not block.
type Lease struct {
	tracker *leaseTracker

	// until is the lease's whole state: the time on the client's clock at which
	// it ends, or lapsed. It is changed with tracker.mu held, if it is what it was
	// when the caller looked: from a time still in the future to a later one, which extends the lease,
	// or from a time that has come to lapsed, for ever. If one goroutine finds
	// the time passed and another is about to extend the lease, the second of
	// the two finds another value and fails. An extension that wins that race
	// takes effect although the old end may just have passed. That is harmless:
	// no reader has seen the lease over, and the proof alone justifies the new
	// end.
	until atomic.Int64

	// Why it is over, written before until, which says that they count.
	session error         // why the session is over; nil if that is not the reason
	paused  time.Duration // see Paused
}

// lapsed is the value of a lease that is over.
const lapsed = math.MinInt64

func newLease(t *leaseTracker, until int64) *Lease {
	l := &Lease{tracker: t}
	l.until.Store(until)
	return l
}

// InForce reports whether the lease is in force now; it reads the clock. Once
// any call has reported false, all later ones do.
func (l *Lease) InForce() bool { return l.Remaining() > 0 }

// Lapsed reports whether the lease was seen to be over. It does not read the
// clock, so it may report false for a lease that has just ended.
func (l *Lease) Lapsed() bool { return l.until.Load() == lapsed }

// SessionErr returns why the session is over, if the lease is over because of that; else
// nil. A moment later [Session.Err] returns the same: a session's lease ends before its
// session.
func (l *Lease) SessionErr() error {
	if !l.Lapsed() {
		return nil
	}
	return l.session
}

// Paused returns for how long this process did not run, if that is why the lease is over:
// if it was a third or more of the time since the servers had last confirmed the session.
// Else it returns 0.
func (l *Lease) Paused() time.Duration {
	if !l.Lapsed() {
		return 0
	}
	return l.paused
}

// Remaining returns how long the lease will last unless it is extended, and 0
// if it is over.
func (l *Lease) Remaining() time.Duration {
	for {
		until := l.until.Load()
		if until == lapsed {
			return 0
		}
		// The clock is read after until: if the lease is extended in between,
		// the answer is about the old end, and is right about that.
		if d := time.Duration(until) - l.tracker.now(); d > 0 {
			return d
		}
		if l.tracker.lapse(l, until) {
			return 0
		}
	}
}
