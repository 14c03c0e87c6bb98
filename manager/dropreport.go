// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A dropReport logs that Holds were dropped without a Release. A program that forgets one
// Hold often forgets thousands. So the first line comes when a moment has passed, and the
// next ones at most once in dropPause, each with the number of Holds since the last.
type dropReport struct {
	mu      sync.Mutex            // protects what follows; nothing else is done under it
	pending map[droppedHold]*drop // not logged yet
	running bool                  // a goroutine logs them, or waits until it may
}

// A droppedHold is what lines about dropped Holds are told apart by.
type droppedHold struct {
	lock string
	lost bool // it is of a Mutex whose lock was lost: its next turn waits for it
}

// A drop is what is logged of Holds of one kind.
type drop struct {
	holds int
	state string // of the lock's round, when the last one was dropped
}

// dropPause is how long no dropped Hold is logged after some were.
const dropPause = time.Minute

// note notes that a Hold was dropped. It does not block, and logs on a goroutine of the
// manager's.
func (r *dropReport) note(m *Manager, h droppedHold, state string) {
	r.mu.Lock()
	if r.pending == nil {
		r.pending = make(map[droppedHold]*drop)
	}
	d := r.pending[h]
	if d == nil {
		d = new(drop)
		r.pending[h] = d
	}
	d.holds++
	d.state = state
	begin := !r.running
	r.running = true
	r.mu.Unlock()
	if begin {
		m.spawn(func() { r.run(m) })
	}
}

// run logs what is pending, again and again, until there is nothing for a while.
func (r *dropReport) run(m *Manager) {
	for m.pause(lossMoment); ; m.pause(dropPause) { // or until Close
		r.mu.Lock()
		pending := r.pending
		r.pending = nil
		r.running = len(pending) > 0
		r.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		logDrops(m, pending)
	}
}

// logDrops logs the Holds of each lock, or how many there are if the locks are too many.
func logDrops(m *Manager, pending map[droppedHold]*drop) {
	all := slices.SortedFunc(maps.Keys(pending), func(a, b droppedHold) int { return strings.Compare(a.lock, b.lock) })
	if len(all) > lossLines {
		holds := 0
		for _, d := range pending {
			holds += d.holds
		}
		m.cfg.Logger.Error("holdfast: Holds were dropped without a Release: their locks stay held until the session ends",
			"locks", len(all), "holds", holds, "first", all[0].lock)
		return
	}
	for _, h := range all {
		d := pending[h]
		if h.lost {
			m.cfg.Logger.Error("holdfast: the lock of a Mutex was lost, and its Hold was dropped without a Release: this process's goroutines wait for it for ever",
				"lock", h.lock, "holds", d.holds)
			continue
		}
		m.cfg.Logger.Error("holdfast: a Hold was dropped without a Release: the lock stays held until the session ends",
			"lock", h.lock, "holds", d.holds, "state", d.state)
	}
}
