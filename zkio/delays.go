// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"container/heap"
	"sync"
	"time"
)

// delays holds the tasks of [Client.SubmitAfter] until they are due, in one heap
// with one timer, and no goroutine. A time.AfterFunc for each task would take
// more memory, and Close could not find the tasks that have to be run then.
type delays struct {
	pool  *pool
	clock *clock
	timer *time.Timer // runs move when the first task is due

	mu     sync.Mutex // protects what follows; the pool's is taken while it is held
	heap   delayHeap
	owned  map[any]*delayed // by owner: the last of its tasks
	closed bool
}

// delaysKeep is how many tasks the memory is kept for when there are none.
const delaysKeep = 1024

func newDelays(p *pool, c *clock) *delays {
	d := &delays{pool: p, clock: c}
	d.timer = time.AfterFunc(time.Hour, d.move) // add sets it
	return d
}

// add has t queued after d, and reports whether the pool takes tasks. Owner is nil, or whose
// drop forgets t. Then t is not kept if it is void already: the drop may have come before.
func (d *delays) add(owner any, after time.Duration, q Queue, t Task) bool {
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
	w := &delayed{at: d.clock.now() + after, queue: q, task: t, owner: owner}
	if owner != nil {
		if isVoid(t) {
			return true
		}
		if d.owned == nil {
			d.owned = make(map[any]*delayed)
		}
		w.next = d.owned[owner]
		d.owned[owner] = w
	}
	heap.Push(&d.heap, w)
	if d.heap[0] == w {
		d.timer.Reset(after)
	}
	return true
}

// drop forgets the tasks of owner.
func (d *delays) drop(owner any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := d.owned[owner]; w != nil; w = w.next {
		heap.Remove(&d.heap, w.index) // the timer may run move early, which does no harm
	}
	delete(d.owned, owner)
	d.shrinkLocked()
}

func isVoid(t Task) bool {
	v, ok := t.(Voidable)
	return ok && v.Void()
}

// move moves the tasks that are due to the pool. The timer calls it; a call at
// any other time does no harm.
func (d *delays) move() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.now()
	for len(d.heap) > 0 && d.heap[0].at <= now {
		t := d.popLocked()
		if !isVoid(t.task) {
			d.pool.push(t.queue, t.task)
		}
	}
	if len(d.heap) > 0 {
		d.timer.Reset(d.heap[0].at - now)
	}
}

func (d *delays) popLocked() *delayed {
	t, _ := heap.Pop(&d.heap).(*delayed) // it holds nothing else
	if t.owner != nil {
		d.disownLocked(t)
	}
	d.shrinkLocked()
	return t
}

// disownLocked takes t out of its owner's tasks, of which there are few.
func (d *delays) disownLocked(t *delayed) {
	last := d.owned[t.owner]
	switch {
	case last != t:
		for last.next != t {
			last = last.next
		}
		last.next = t.next
	case t.next != nil:
		d.owned[t.owner] = t.next
	default:
		delete(d.owned, t.owner)
	}
}

func (d *delays) shrinkLocked() {
	if len(d.heap) == 0 && cap(d.heap) > delaysKeep {
		d.heap, d.owned = nil, nil
	}
}

// close moves all tasks to the pool. Nothing is accepted after it.
func (d *delays) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.timer.Stop()
	for len(d.heap) > 0 {
		t := d.popLocked()
		d.pool.push(t.queue, t.task)
	}
}

func (d *delays) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.heap)
}

// A delayHeap is ordered by the time at which tasks are due.
type delayHeap []*delayed

// A delayed is a task that is to be queued later.
type delayed struct {
	at    time.Duration // on the client's clock
	queue Queue
	task  Task
	index int      // in the heap
	owner any      // nil: none
	next  *delayed // of the same owner
}

func (h delayHeap) Len() int           { return len(h) }
func (h delayHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h delayHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is called by package heap, with a *delayed.
func (h *delayHeap) Push(x any) {
	if t, ok := x.(*delayed); ok {
		t.index = len(*h)
		*h = append(*h, t)
	}
}

// Pop is called by package heap.
func (h *delayHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = nil
	*h = old[:n]
	return x
}
