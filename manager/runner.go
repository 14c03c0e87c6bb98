// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// A runner has workers of the I/O pool run a task's step, one worker at a time,
// whenever the task is woken. So a step needs no lock for what only steps use:
// the compare-and-swaps on the runner's state hand it from one worker to the next.
//
// Wakes that come together count as one. A wake during a step makes the worker
// run another, so what the waker did before is seen.
type runner struct{ state atomic.Uint32 }

// A stepper is what a runner runs.
type stepper interface {
	// due reports whether the steps may begin. Until then wakes do nothing; once
	// due, always due.
	due() bool
	// urgent reports whether the next step takes something away from ZooKeeper.
	// Such steps go through the queue of releases, which is served first.
	urgent() bool
	// submit has a worker call run.
	submit(urgent bool)
	// step does what there is to do until that is waiting. It may block in
	// ZooKeeper calls.
	step(s *zkio.Session)
}

// The states of a runner.
const (
	idle        uint32 = iota // no worker has the task, and none will
	queuedFetch               // in the queue of fetches
	queuedEnd                 // in the queue of releases, and perhaps a stale entry in the other one
	running                   // a worker runs step
	again                     // the same, and it will run step once more
)

// wake makes a worker run t's step soon. It never blocks and does no I/O.
func (r *runner) wake(t stepper) {
	if !t.due() {
		return
	}
	urgent := t.urgent()
	for {
		switch r.state.Load() {
		case idle:
			to := queuedFetch
			if urgent {
				to = queuedEnd
			}
			if r.state.CompareAndSwap(idle, to) {
				t.submit(urgent)
				return
			}
		case queuedFetch:
			if !urgent {
				return
			}
			// This makes the entry in the queue of fetches stale: its run finds
			// another state and does nothing, or does the work early.
			if r.state.CompareAndSwap(queuedFetch, queuedEnd) {
				t.submit(true)
				return
			}
		case running:
			if r.state.CompareAndSwap(running, again) {
				return
			}
		default: // queuedEnd, again: a step is to come
			return
		}
	}
}

// run is called by the worker that took t from a queue. If another one got there
// first it does nothing.
func (r *runner) run(t stepper, s *zkio.Session) {
	for {
		state := r.state.Load()
		if state != queuedFetch && state != queuedEnd {
			return // a stale entry
		}
		if state == queuedEnd && !t.urgent() {
			// A goroutine has joined a round that all others had left. Fetches
			// must not use the workers that are reserved for releases.
			if r.state.CompareAndSwap(queuedEnd, queuedFetch) {
				t.submit(false)
				return
			}
			continue
		}
		if r.state.CompareAndSwap(state, running) {
			break
		}
	}
	for {
		t.step(s)
		if r.state.CompareAndSwap(running, idle) {
			return
		}
		r.state.Store(running) // it was again; only the running worker leaves that state
	}
}

// A pool runs tasks.
type pool interface {
	Submit(q zkio.Queue, t zkio.Task) bool
}

// A fetchEntry is a lock's only entry in the pool's queue of fetches, for
// whichever round is the present one when the entry's turn comes. With an entry
// for each round, rounds that begin and are given up one after the other would
// pile up there for as long as no fetch gets through.
type fetchEntry struct{ queued atomic.Bool }

// submit queues task unless the entry is queued already. It reports false if the
// pool takes no more tasks.
func (e *fetchEntry) submit(p pool, task zkio.Task) bool {
	if !e.queued.CompareAndSwap(false, true) {
		// The entry's task looks for the present round after taken, and so finds
		// the state that the caller has set.
		return true
	}
	if p.Submit(zkio.Fetches, task) {
		return true
	}
	e.queued.Store(false)
	return false
}

// taken is called first by the entry's task.
func (e *fetchEntry) taken() { e.queued.Store(false) }
