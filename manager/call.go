// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/zkio"
)

// A call is a task of the pool that reads from ZooKeeper while its caller waits.
type call struct {
	client *zkio.Client
	do     func(s *zkio.Session) error

	gaveUp atomic.Bool   // the caller has stopped waiting
	done   chan struct{} // closed when do has ended for good
	err    error         // written before done is closed

	attempts int // used by the present worker only
}

// call has a worker run do, which must only read, and runs it again until ZooKeeper has
// answered. It blocks until do has succeeded or was refused, the manager is closed, or
// ctx ends. If ctx ends, a worker may still be in do, so the caller must not look at what
// do writes.
func (m *Manager) call(ctx context.Context, op, name string, do func(*zkio.Session) error) error {
	if ctx.Err() != nil {
		return &Error{Op: op, Name: name, Err: ctxerr.Of(ctx)}
	}
	c := &call{client: m.client, do: do, done: make(chan struct{})}
	if !m.client.Submit(zkio.Fetches, c) {
		return &Error{Op: op, Name: name, Err: ErrClosed}
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.gaveUp.Store(true)
		return &Error{Op: op, Name: name, Err: ctxerr.Of(ctx), Outage: m.outage()}
	}
	switch {
	case c.err == nil:
		return nil
	case errors.Is(c.err, zkio.ErrClosed):
		return &Error{Op: op, Name: name, Err: ErrClosed}
	}
	return &Error{Op: op, Name: name, Err: c.err}
}

// Run is called by the pool.
func (c *call) Run(s *zkio.Session) {
	if c.gaveUp.Load() {
		return
	}
	err := c.do(s)
	if class := zkio.ClassOf(err); err == nil || class == zkio.Definite || class == zkio.Closed {
		c.end(err)
		return
	}
	wait := backoff(c.attempts)
	c.attempts++
	if !c.client.SubmitAfter(wait, zkio.Fetches, c) {
		c.end(zkio.ErrClosed)
	}
}

func (c *call) end(err error) {
	c.err = err
	close(c.done)
}
