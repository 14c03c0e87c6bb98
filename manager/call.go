// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager/internal/errand"
	"github.com/holdfast-go/holdfast/zkio"
)

// A call is a task of the pool that talks to ZooKeeper while its caller waits.
type call struct {
	client *zkio.Client
	do     func(s *zkio.Session) error
	undo   func(s *zkio.Session) error // nil: there is nothing to undo
	places *places                     // nil: do and undo wait for nothing but ZooKeeper

	// state is callWaiting until one of the two has won: the worker that has ended do, or the
	// caller, who waits no longer.
	state atomic.Uint32
	done  chan struct{} // closed after callAnswered was set
	err   error         // written before done is closed

	// These are used by the present worker only.
	begun   bool // do was run
	undoing bool // undo is run in place of do
	tries   errand.Tries
	placed  bool // it has one of the places, from the call that had it before
}

// places bounds how many workers run functions given to [Access.Call] at a time. Such a
// function may wait for a lock, which needs a worker itself. A call that has to wait for a
// place waits here, and on no worker.
type places struct {
	mu      sync.Mutex // held for a few instructions
	free    int
	waiting []*call // none while a place is free
}

// enter takes a place for c, or has c wait: then leave submits it again.
func (p *places) enter(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.placed:
		c.placed = false
	case p.free > 0:
		p.free--
	default:
		p.waiting = append(p.waiting, c)
		return false
	}
	return true
}

// leave passes a place on to the call that has waited longest, or frees it.
func (p *places) leave() {
	for {
		p.mu.Lock()
		if len(p.waiting) == 0 {
			p.free++
			p.mu.Unlock()
			return
		}
		next := p.waiting[0]
		p.waiting[0], p.waiting = nil, p.waiting[1:]
		p.mu.Unlock()
		next.placed = true // no worker has it
		if next.client.Submit(zkio.Fetches, next) {
			return
		}
		next.end(zkio.ErrClosed)
	}
}

// The states of a call.
const (
	callWaiting  uint32 = iota
	callAnswered        // do has ended
	callGivenUp         // the caller has stopped waiting
)

// call has a worker run do, which must only read, and runs it again until ZooKeeper has
// answered. It blocks until do has succeeded or was refused, the manager is closed, or
// ctx ends. If ctx ends, a worker may still be in do, so the caller must not look at what
// do writes.
func (m *Manager) call(ctx context.Context, op, name string, do func(*zkio.Session) error) error {
	err := m.await(ctx, do, nil, nil)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return &Error{Op: op, Name: name, Err: err, Outage: m.outage()}
	}
	return &Error{Op: op, Name: name, Err: err}
}

// await is [Access.Call]. Do and undo take one of the places, if there are any.
func (m *Manager) await(ctx context.Context, do, undo func(*zkio.Session) error, in *places) error {
	if ctx.Err() != nil {
		return ctxerr.Of(ctx)
	}
	c := &call{client: m.client, do: do, undo: undo, places: in, done: make(chan struct{})}
	if !m.client.Submit(zkio.Fetches, c) {
		return ErrClosed
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.state.CompareAndSwap(callWaiting, callGivenUp) {
			return ctxerr.Of(ctx)
		}
		<-c.done // a worker has won, and closes it now
	}
	if errors.Is(c.err, zkio.ErrClosed) {
		return ErrClosed
	}
	return c.err
}

// Run is called by the pool.
func (c *call) Run(s *zkio.Session) {
	if c.places != nil {
		if !c.places.enter(c) {
			return
		}
		defer c.places.leave()
	}
	if !c.undoing && c.state.Load() == callGivenUp && !c.beginUndo() {
		return
	}
	for {
		run := c.do
		if c.undoing {
			run = c.undo
		}
		c.begun = true
		err := run(s)
		if class := zkio.ClassOf(err); err != nil && class != zkio.Definite && class != zkio.Closed {
			if !c.tries.Again(c.client, zkio.Fetches, c) {
				c.end(zkio.ErrClosed)
			}
			return
		}
		if c.undoing || c.end(err) || !c.beginUndo() {
			return
		}
	}
}

// beginUndo is called when the caller has given up. It reports whether there is anything
// to undo.
func (c *call) beginUndo() bool {
	c.undoing, c.tries = c.begun && c.undo != nil, 0
	return c.undoing
}

// end gives the caller its answer, and reports false if the caller has given up.
func (c *call) end(err error) bool {
	if !c.state.CompareAndSwap(callWaiting, callAnswered) {
		return false
	}
	c.err = err
	close(c.done)
	return true
}
