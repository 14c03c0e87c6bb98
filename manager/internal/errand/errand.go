// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// A Pool runs tasks. Outside of tests it is a [zkio.Client].
type Pool interface {
	Submit(q zkio.Queue, t zkio.Task) bool
	SubmitAfterFor(owner any, d time.Duration, q zkio.Queue, t zkio.Task) bool
	Drop(owner any)
}

// A Task is what an Errand does.
type Task interface {
	// Urgent and Step are as in a [Stepper].
	Urgent() bool
	Step(s *zkio.Session)
	// Closed is called if the pool takes no more tasks for queue q: no step comes
	// then. It is called on the goroutine that has woken the task, or in the step
	// that wanted to have it woken later.
	Closed(q zkio.Queue)
}

// An Errand is a [Runner] with its task and one deadline: when the task is woken if
// nothing else has woken it. Wake, WakeBy and Preempt may be called concurrently and in a
// step, and do not block. Only steps use Tries, WakeAfter, Retry and Stop.
type Errand struct {
	Runner
	Task
	Tries Tries // failed steps in a row

	pool  Pool
	alarm atomic.Pointer[alarm] // the wake that is on its way; nil: none
}

// Init makes the zero Errand one of task, whose steps pool runs. It is called before any
// other method.
func (e *Errand) Init(pool Pool, task Task) { e.pool, e.Task = pool, task }

// Wake has a worker run a step soon.
func (e *Errand) Wake() { e.WakeBy(zkio.Fetches) }

// WakeBy is Wake by way of queue q, which is Fetches or Refetches, unless the step is urgent.
func (e *Errand) WakeBy(q zkio.Queue) { e.Runner.Wake(e, q) }

// Run is called by the pool.
func (e *Errand) Run(s *zkio.Session) { e.Runner.Run(e, s) }

// Submit is called by the Runner.
func (e *Errand) Submit(q zkio.Queue) {
	if !e.pool.Submit(q, e) {
		e.Closed(q)
	}
}

// WakeAfter wakes the task after d, or before, if an earlier wake is on its way.
func (e *Errand) WakeAfter(d time.Duration) {
	a := &alarm{errand: e, at: time.Now().Add(d), queue: zkio.Fetches}
	if e.Urgent() { // a pool that is being closed still takes it
		a.queue = zkio.Releases
	}
	if old := e.alarm.Load(); old != nil {
		if !a.at.Before(old.at) {
			if old.queue == a.queue {
				return
			}
			a.at, d = old.at, time.Until(old.at) // the earlier one, by the other queue
		}
		// If the old one has rung meanwhile, there will be another step.
		e.pool.Drop(e)
	}
	e.alarm.Store(a) // before the pool looks whether it is void
	if !e.pool.SubmitAfterFor(e, d, a.queue, a) {
		e.alarm.Store(nil)
		e.Closed(a.queue)
	}
}

// Retry is WakeAfter for a step that has failed, and counts it.
func (e *Errand) Retry() { e.WakeAfter(e.Tries.Wait()) }

// Stop forgets the wake that is on its way.
func (e *Errand) Stop() {
	if e.alarm.Swap(nil) != nil {
		e.pool.Drop(e)
	}
}

// An alarm is a wake that was put off.
type alarm struct {
	errand *Errand
	at     time.Time
	queue  zkio.Queue
}

// Void is called before the task is queued. WakeAfter may have set an earlier one.
func (a *alarm) Void() bool { return a.errand.alarm.Load() != a }

// Run is called by the pool. Only the errand's present alarm wakes it.
func (a *alarm) Run(*zkio.Session) {
	if a.errand.alarm.CompareAndSwap(a, nil) {
		a.errand.Wake()
	}
}

// Tries counts failures in a row, up to a number that matters no more.
type Tries uint8

// More counts one more, and returns how many there are.
func (n *Tries) More() int {
	*n = min(*n, 254) + 1
	return int(*n)
}

const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// Wait counts one more, and returns how long to wait before the next try.
func (n *Tries) Wait() time.Duration { return zkio.Backoff(n.More()-1, firstRetry, lastRetry) }

// Again has pool run t once more after a while, by way of queue q. It reports false if the
// pool is closed.
func (n *Tries) Again(pool Pool, q zkio.Queue, t zkio.Task) bool {
	return pool.SubmitAfterFor(nil, n.Wait(), q, t)
}
