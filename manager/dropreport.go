// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"time"
)

// A dropReport says which dropped Holds are logged. A program that forgets one Hold often
// forgets thousands. So in a dropPause each lock has one line, and at most dropLines locks
// have; the next line says how many Holds had none.
//
// The runtime's goroutine for cleanups calls it, which belongs to no synctest bubble of the
// Manager's. So it has no timer and no goroutine of its own.
type dropReport struct {
	mu      sync.Mutex               // protects what follows; nothing else is done under it
	until   time.Time                // the end of the present pause
	told    map[droppedHold]struct{} // logged in it
	omitted int                      // Holds that were not logged since the last line
}

// A droppedHold is what lines about dropped Holds are told apart by.
type droppedHold struct {
	lock string
	lost bool // it is of a Mutex whose lock was lost: its next turn waits for it
}

const (
	dropPause = time.Minute
	dropLines = 10
)

// allow reports whether a Hold that was dropped at now is logged, and how many were not since
// the last that was.
func (r *dropReport) allow(h droppedHold, now time.Time) (omitted int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil || !now.Before(r.until) {
		r.told, r.until = make(map[droppedHold]struct{}), now.Add(dropPause)
	}
	if _, told := r.told[h]; told || len(r.told) == dropLines {
		r.omitted++
		return 0, false
	}
	r.told[h] = struct{}{}
	omitted, r.omitted = r.omitted, 0
	return omitted, true
}
