// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"time"
)

// A lossReport logs the losses of locks. The end of a lease or a session ends all locks
// that the process holds, so locks that are lost within a moment make one line.
type lossReport struct {
	mu    sync.Mutex // protects what follows; nothing else is done under it
	locks int        // how many were lost and not logged yet
	first *Error     // of the first of them
}

// lossMoment is how long a report waits for further losses before it logs them.
const lossMoment = 100 * time.Millisecond

// note notes that a lock of m was lost because of err. It does not block, and logs on
// a goroutine of the manager's.
func (r *lossReport) note(m *Manager, err *Error) {
	r.mu.Lock()
	r.locks++
	first := r.locks == 1
	if first {
		r.first = err
	}
	r.mu.Unlock()
	if first {
		m.spawn(func() {
			m.pause(lossMoment) // or until Close
			r.log(m)
		})
	}
}

func (r *lossReport) log(m *Manager) {
	r.mu.Lock()
	n, err := r.locks, r.first
	r.locks, r.first = 0, nil
	r.mu.Unlock()
	args := []any{"locks", n, "first", err.Name, "cause", err.Err}
	if err.Outage != nil {
		args = append(args, "outage", err.Outage)
	}
	m.cfg.Logger.Warn("holdfast: lost locks; their holders have been told", args...)
}
