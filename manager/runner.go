// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// A runner has workers of the I/O pool run a task's step whenever the task is
// woken, one worker at a time. The compare-and-swaps on the runner's state hand
// the task from one worker to the next, so what only steps use needs no lock.
//
// Wakes that come together count as one. A wake during a step makes the worker
// run another, which sees what the waking goroutine did before.
type runner struct{ state atomic.Uint32 }

// A stepper is what a runner runs.
type stepper interface {
	// due reports whether the steps may begin. Until then wakes do nothing; once
	// due, always due.
	due() bool
	// urgent reports whether the next step removes something from ZooKeeper. Such
	// steps go through the queue of releases, which is served first.
	urgent() bool
	// submit has a worker take the task from queue q and call run.
	submit(q zkio.Queue)
	// step does what there is to do until it has to wait. It may block in
	// ZooKeeper calls.
	step(s *zkio.Session)
}

// The states of a runner.
const (
	idle          uint32 = iota // no worker has the task, and none will
	queuedRefetch               // in the queue of refetches
	queuedFetch                 // in the queue of fetches, and perhaps a stale entry in that before
	queuedEnd                   // in the queue of releases, and perhaps stale entries in the others
	running                     // a worker runs step
	again                       // the same, and it will run step once more
)

// queued are the states of a task in a queue of the pool.
var queued = [...]uint32{zkio.Refetches: queuedRefetch, zkio.Fetches: queuedFetch, zkio.Releases: queuedEnd}

// wake makes a worker run t's step soon, by way of queue q, which is Fetches or
// Refetches, unless the step is urgent. A task that waits in a queue that is
// served later changes over. It never blocks and does no I/O.
func (r *runner) wake(t stepper, q zkio.Queue) {
	if !t.due() {
		return
	}
	if t.urgent() {
		q = zkio.Releases
	}
	to := queued[q]
	for {
		switch from := r.state.Load(); {
		case from < to: // idle, or in a queue that is served later
			// Its entry there is stale from here on: its run finds another state and
			// does nothing, or does the work early.
			if r.state.CompareAndSwap(from, to) {
				t.submit(q)
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

// run is called by the worker that took t from a queue. If another worker got
// there first, it does nothing.
func (r *runner) run(t stepper, s *zkio.Session) {
	for {
		state := r.state.Load()
		if state == idle || state >= running {
			return // a stale entry
		}
		if state == queuedEnd && !t.urgent() {
			// A goroutine has joined a round that all others had left. Fetches
			// must not use the workers that are reserved for releases.
			if r.state.CompareAndSwap(queuedEnd, queuedFetch) {
				t.submit(zkio.Fetches)
				// If the step became urgent before that swap, its wake found
				// queuedEnd and did nothing.
				if t.urgent() {
					r.wake(t, zkio.Fetches)
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

// A fetchEntry is a lock's only entry in the pool's queue of fetches, or in that of
// refetches, for the round that is present when the entry is run. With an entry for
// each round, rounds that begin and are given up would pile up there for as long as
// no fetch gets through.
type fetchEntry struct{ queued atomic.Bool }

// submit puts task into queue q unless the entry is queued already. It reports
// false if the pool takes no more tasks.
func (e *fetchEntry) submit(p pool, q zkio.Queue, task zkio.Task) bool {
	if !e.queued.CompareAndSwap(false, true) {
		// The entry's task loads the present round after calling taken, so it
		// finds the state that the caller has set.
		return true
	}
	if p.Submit(q, task) {
		return true
	}
	e.queued.Store(false)
	return false
}

// taken is the first thing that the entry's task calls.
func (e *fetchEntry) taken() { e.queued.Store(false) }
