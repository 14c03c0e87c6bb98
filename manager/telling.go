// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"
)

// What a round tells of itself, to the counters of its manager and to the log. None of it is
// on the path of a caller that enters a lock which its process owns.

// tellGranted tells that the round was granted: the caller's CAS has made it so.
func (t *roundIO) tellGranted() {
	l := t.round.lock
	l.grants.Add(1)
	l.m.grants.Add(1)
}

// tellLost tells that this process owned the lock, for its holders, and has lost it.
func (t *roundIO) tellLost(err *Error) {
	l := t.round.lock
	l.m.lost.Add(1)
	if errors.Is(err, ErrLost) { // else it was closed, and its owner knows
		l.m.losses.note(l, Loss{Time: time.Now(), Held: time.Duration(l.m.now() - t.tenure.since), Err: err})
	}
}

// tellFailed tells that the round has ended without a grant.
func (t *roundIO) tellFailed() { t.round.lock.m.failures.Add(1) }
