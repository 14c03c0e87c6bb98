// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"
)

// tellLost tells that this process owned the lock, for its holders, and has lost it.
func (t *roundIO) tellLost(err *Error) {
	l := t.round.lock
	if errors.Is(err, ErrLost) { // else it was closed, and its owner knows
		l.m.losses.note(l, Loss{Time: time.Now(), Held: time.Duration(l.m.now() - t.tenure.since), Err: err})
	}
}
