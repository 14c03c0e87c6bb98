// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// A Runner has workers of the I/O pool run a task's step whenever the task is
// woken, one worker at a time. The compare-and-swaps on the Runner's state hand
// the task from one worker to the next, so what only steps use needs no lock.
//
// Wakes that come together count as one. A wake during a step makes the worker
// run another, which sees what the waking goroutine did before.
type Runner struct{ state atomic.Uint32 }

// A Stepper is what a Runner runs.
type Stepper interface {
	// Urgent reports whether the next step removes something from ZooKeeper. Such
	// steps go through the queue of releases, which is served first.
	Urgent() bool
	// Submit has a worker take the task from queue q and call Run.
	Submit(q zkio.Queue)
	// Step does what there is to do until it has to wait. It may block in
	// ZooKeeper calls.
	Step(s *zkio.Session)
}

// The states of a Runner.
const (
	idle          uint32 = iota // no worker has the task, and none will
	queuedRefetch               // in the queue of refetches
	queuedFetch                 // in the queue of fetches, and perhaps a stale entry in that before
	queuedEnd                   // in the queue of releases, and perhaps stale entries in the others
	running                     // a worker runs a step
	again                       // the same, and it will run step once more
)

// queued are the states of a task in a queue of the pool.
var queued = [...]uint32{zkio.Refetches: queuedRefetch, zkio.Fetches: queuedFetch, zkio.Releases: queuedEnd}

// Wake makes a worker run t's step soon, by way of queue q, which is Fetches or
// Refetches, unless the step is urgent. A task that waits in a queue that is
// served later changes over. It never blocks and does no I/O.
func (r *Runner) Wake(t Stepper, q zkio.Queue) {
	if t.Urgent() {
		q = zkio.Releases
	}
	to := queued[q]
	for {
		switch from := r.state.Load(); {
		case from < to: // idle, or in a queue that is served later
			// Its entry there is stale from here on: its run finds another state and
			// does nothing, or does the work early.
			if r.state.CompareAndSwap(from, to) {
				t.Submit(q)
				return
			}
		case from == running:
			if r.state.CompareAndSwap(running, again) {
				return
			}
		default: // in as good a queue, or again: a step will come
			return
		}
	}
}

// Run is called by the worker that took t from a queue. If another worker got
// there first, it does nothing.
func (r *Runner) Run(t Stepper, s *zkio.Session) {
	for {
		state := r.state.Load()
		if state == idle || state >= running {
			return // a stale entry
		}
		if state == queuedEnd && !t.Urgent() {
			// A goroutine has joined a round that all others had left. Fetches
			// must not use the workers that are reserved for releases.
			if r.state.CompareAndSwap(queuedEnd, queuedFetch) {
				t.Submit(zkio.Fetches)
				// If the step became urgent before that swap, its wake found
				// queuedEnd and did nothing.
				if t.Urgent() {
					r.Wake(t, zkio.Fetches)
				}
				return
			}
			continue
		}
		if r.state.CompareAndSwap(state, running) {
			break
		}
	}
	for {
		t.Step(s)
		if r.state.CompareAndSwap(running, idle) {
			return
		}
		r.state.Store(running) // it was again; only the running worker leaves that state
	}
}

// Preempt runs fn in place of a step of a task that waits in the queue of fetches, on the
// caller's goroutine, and reports whether it did. A wake that comes meanwhile is lost: if
// fn leaves anything to do, the caller wakes the task.
func (r *Runner) Preempt(fn func()) bool {
	if !r.state.CompareAndSwap(queuedFetch, running) {
		return false
	}
	fn()
	r.state.Store(idle) // the task's entry is stale
	return true
}

// An Entry is a lock's only entry in the pool's queue of fetches, or in that of
// refetches, for the round that is present when the entry is run. With an entry for
// each round, rounds that begin and are given up would pile up there for as long as
// no fetch gets through.
type Entry struct{ queued atomic.Bool }

// Submit puts task into queue q unless the entry is queued already. It reports
// false if the pool takes no more tasks.
func (e *Entry) Submit(p Pool, q zkio.Queue, task zkio.Task) bool {
	if !e.queued.CompareAndSwap(false, true) {
		// The entry's task loads the present round after calling Taken, so it
		// finds the state that the caller has set.
		return true
	}
	if p.Submit(q, task) {
		return true
	}
	e.queued.Store(false)
	return false
}

// Taken is the first thing that the entry's task calls.
func (e *Entry) Taken() { e.queued.Store(false) }
