// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// An Element is an element that this process has taken and no other can take, until it is
// settled, by [Element.Ack], [Element.Return] or [Element.Bury], or lost. All methods may be
// called concurrently.
type Element struct {
	q       *consumer
	name    string
	path    string
	data    []byte
	attempt int
	node    *own.Node // the claim
	settled atomic.Bool
	end     func() // has the queue forget the element, once
}

// newElement returns the element that c has claimed for a caller that waits for it. Of what is
// claimed for one that has given up there is none, so its loss ends nothing.
func (q *consumer) newElement(c *claim) *Element {
	e := &Element{q: q, name: c.name, path: c.path, data: c.data, attempt: c.attempt, node: c.kept}
	e.end = sync.OnceFunc(func() {
		q.drop(e.name)
		q.unuse()
	})
	lost, done := e.node.Context(context.Background())
	context.AfterFunc(lost, func() {
		done()
		q.access.Go(e.abandon)
	})
	return e
}

// abandon gives the lost element back. Its claim goes with the session, but the session may
// live on when only the lease has ended. If an administrator has deleted the claim, no other
// process has noticed.
func (e *Element) abandon() {
	e.end()
	e.q.relist(e.name)
	_ = access.Do(context.Background(), e.q.access, func(s *zkio.Session) error {
		if s != e.node.Session() {
			return nil
		}
		if err := s.Sync(e.path); err != nil {
			return err
		}
		there, err := e.node.There(s)
		if err != nil {
			return err
		}
		ops := e.q.giveBack(e.path)
		if !there {
			ops = ops[1:] // tell the others all the same
		}
		return access.Unless(e.q.transact(s, ops), zkio.ErrNoNode)
	}) // once the Manager is closed there is nothing to do
}

// Data returns what was put into the queue. The caller owns it.
func (e *Element) Data() []byte { return e.data }

// Name returns the name of the element's node. It tells elements of a queue apart, as long
// as the queue's numbers have not begun anew.
func (e *Element) Name() string { return e.name }

// Attempt returns how often the element was taken, this time included, by any process. An
// attempt counts when Take has returned the element: what was claimed for a caller that gave up
// meanwhile does not, unless its process died at that moment, too.
func (e *Element) Attempt() int { return e.attempt }

// Token returns the fencing token of this attempt: the transaction that made the claim. It
// rises from one attempt to the next.
func (e *Element) Token() uint64 { return e.node.Token() }

// Lost returns a channel that is closed when the element is lost, before another consumer
// can take it. It stays open when the element is settled.
func (e *Element) Lost() <-chan struct{} { return e.node.Lost() }

// Err returns nil while the element is this process's, and then an error that wraps
// [ErrLost], or [manager.ErrClosed] after Close of the Manager. It reads the clock, and does
// not block. Once the element is settled, Err does not change any more.
func (e *Element) Err() error { return e.node.Err() }

// Context returns a context that ends when parent does, when the element is lost, with the
// error of Err as its cause, or when done is called.
func (e *Element) Context(parent context.Context) (ctx context.Context, done context.CancelFunc) {
	return e.node.Context(parent)
}

// Ack removes the element from the queue: it is done. Ack blocks until it is gone or ctx
// ends. It is carried out even if ctx ends meanwhile, but not if ctx has ended before.
//
// The errors are [ErrLost], [ErrSettled], those of ctx, and [manager.ErrUnknownOutcome] if
// the session has ended while the request was under way: another consumer may get the
// element. Whatever the error is, except one of ctx, the element is not this process's any
// more.
func (e *Element) Ack(ctx context.Context) error {
	return e.settle(ctx, opAck, func(*zkio.Session) ([]zkio.Op, error) {
		return []zkio.Op{unclaim(e.path), zkio.DeleteOp(e.path, -1)}, nil
	})
}

// Return gives the element back. It is where it was in the queue, and other consumers can
// take it. Return blocks, and fails, as Ack does.
func (e *Element) Return(ctx context.Context) error {
	return e.settle(ctx, opReturn, func(*zkio.Session) ([]zkio.Op, error) { return e.q.giveBack(e.path), nil })
}

// Bury moves the element to the queue's directory dead/, where no consumer takes it. Bury
// blocks, and fails, as Ack does. If dead/ has no room, the error is [ErrFull], and the
// element remains this process's.
func (e *Element) Bury(ctx context.Context) error {
	return e.settle(ctx, opBury, func(s *zkio.Session) ([]zkio.Op, error) {
		data, _, err := s.Get(e.path) // the caller may have changed its own
		if err != nil {
			return nil, err
		}
		return e.q.burial(s, e.path, data)
	})
}

// withdraw is Return of an element that no caller has seen: the attempt does not count.
func (e *Element) withdraw(ctx context.Context) error {
	return e.settle(ctx, opReturn, func(s *zkio.Session) ([]zkio.Op, error) {
		uncount, err := uncounted(s, e.path)
		return append(e.q.giveBack(e.path), uncount), err
	})
}

// The ways to settle an element, as errors name them.
const (
	opAck    = "ack"
	opReturn = "return"
	opDelay  = "return later"
	opBury   = "bury"
)

// settle has a worker carry out the operations, in the session that has claimed the element.
func (e *Element) settle(ctx context.Context, op string, ops func(*zkio.Session) ([]zkio.Op, error)) error {
	switch {
	case ctx.Err() != nil:
		return e.q.error(op, ctxerr.Of(ctx))
	case e.settled.Swap(true):
		return e.q.error(op, ErrSettled)
	}
	t := &settlement{Element: e, op: op, ops: ops}
	done := make(chan error, 1)
	// Other consumers wait for it, so Shutdown does, too, even if the caller has given up.
	e.q.access.Finish(func() { done <- t.carryOut() })
	select {
	case err := <-done:
		return e.q.error(op, err)
	case <-ctx.Done():
		return e.q.error(op, fmt.Errorf("%w; it goes on", ctxerr.Of(ctx)))
	}
}
