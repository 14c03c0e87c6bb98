// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"container/heap"
	"sync"
	"time"
)

// delays holds the tasks of [Client.SubmitAfter] until they are due: one heap,
// one timer and one goroutine, however many tasks wait.
type delays struct {
	pool  *pool
	clock *clock
	wake  chan struct{} // of capacity 1: the heap has a new first element, or is closed
	done  chan struct{} // closed when run has returned

	mu     sync.Mutex // protects what follows
	heap   delayHeap
	closed bool
}

func newDelays(p *pool, c *clock) *delays {
	return &delays{pool: p, clock: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// add has t queued after d, and reports whether it will be.
func (d *delays) add(after time.Duration, q Queue, t Task) bool {
	if after <= 0 {
		return d.pool.submit(q, t)
	}
	if !d.pool.accepts(q) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	at := d.clock.now() + after
	heap.Push(&d.heap, delayed{at, q, t})
	if d.heap[0].at == at {
		d.wakeUp()
	}
	return true
}

func (d *delays) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default: // a wake-up is on its way
	}
}

// run moves tasks to the pool when they are due, until close; then it moves all.
func (d *delays) run() {
	defer close(d.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, closed := d.move()
		if closed {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-d.wake:
		}
	}
}

// move hands over what is due, everything after close, and returns how long it
// is until the next task is due.
func (d *delays) move() (next time.Duration, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.now()
	for len(d.heap) > 0 && (d.closed || d.heap[0].at <= now) {
		if t, ok := heap.Pop(&d.heap).(delayed); ok {
			d.pool.push(t.queue, t.task)
		}
	}
	if len(d.heap) == 0 {
		return time.Hour, d.closed
	}
	return d.heap[0].at - now, d.closed
}

// close hands the pool what is left, and joins run. Nothing is accepted after it.
func (d *delays) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wakeUp()
	<-d.done
}

func (d *delays) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.heap)
}

// A delayHeap is ordered by the time at which tasks are due.
type delayHeap []delayed

// A delayed is a task that is to be queued later.
type delayed struct {
	at    time.Duration // on the client's clock
	queue Queue
	task  Task
}

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h delayHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is called by package heap, with a delayed.
func (h *delayHeap) Push(x any) {
	if t, ok := x.(delayed); ok {
		*h = append(*h, t)
	}
}

// Pop is called by package heap.
func (h *delayHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = delayed{}
	*h = old[:n]
	return x
}
