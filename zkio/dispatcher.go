// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"sync"
	"time"
)

// A dispatcher calls the user's watchers and listener, one after the other and
// in order, on a goroutine of its own, so that the connection's goroutines never
// run user code. Its queue has no bound, so that they never wait for it either.
type dispatcher struct {
	watches  *watches
	listener Listener       // nil if there is none
	wake     chan struct{}  // of capacity 1: the queue is not empty, or is closed
	running  sync.WaitGroup // the goroutine of run

	mu     sync.Mutex // protects what follows
	queue  fifo[notice]
	closed bool
}

// A notice is one call to be made. Exactly one of its groups is set.
type notice struct {
	path  string // something happened to path …
	event Event  // … namely this

	started *Session // the session has begun

	cut     *Session      // the session has lost its connection, because of cause
	resumed *Session      // the session has a connection again …
	after   time.Duration // … after so long

	lapsed *Lease // the lease is over

	paused time.Duration // this process did not run for so long

	ended *Session // the session is over …
	cause error    // … because of this; also of cut
}

func newDispatcher(w *watches, l Listener) *dispatcher {
	return &dispatcher{watches: w, listener: l, wake: make(chan struct{}, 1)}
}

// push queues n. It never blocks.
func (d *dispatcher) push(n notice) {
	d.mu.Lock()
	if !d.closed {
		d.queue.push(n)
	}
	d.mu.Unlock()
	d.wakeUp()
}

func (d *dispatcher) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default: // a wake-up is on its way
	}
}

// run makes the calls, until close was called and the queue is empty.
func (d *dispatcher) run() {
	for {
		n, ok, closed := d.pop()
		switch {
		case ok:
			d.tell(n)
		case closed:
			return
		default:
			<-d.wake
		}
	}
}

func (d *dispatcher) pop() (n notice, ok, closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.len() == 0 {
		return notice{}, false, d.closed
	}
	return d.queue.pop(), true, d.closed
}

func (d *dispatcher) tell(n notice) {
	if n.path != "" {
		d.watches.tell(n.path, n.event)
		return
	}
	if d.listener == nil {
		return
	}
	switch {
	case n.started != nil:
		d.listener.SessionStarted(n.started)
	case n.cut != nil:
		d.listener.ConnectionLost(n.cut, n.cause)
	case n.resumed != nil:
		d.listener.ConnectionResumed(n.resumed, n.after)
	case n.lapsed != nil:
		d.listener.LeaseLapsed(n.lapsed)
	case n.paused != 0:
		d.listener.ProcessPaused(n.paused)
	case n.ended != nil:
		d.listener.SessionOver(n.ended, n.cause)
	}
}

// close waits until every call in the queue is made, and joins run. What is pushed
// after it is dropped.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wakeUp()
	d.running.Wait()
}
