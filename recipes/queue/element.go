// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// An Element is an element that this process has taken and no other can take, until it is
// settled, by [Element.Ack], [Element.Return] or [Element.Bury], or lost. All methods may be
// called concurrently.
type Element struct {
	q       *Queue
	name    string
	path    string
	data    []byte
	attempt int
	node    *own.Node // the claim
	settled atomic.Bool
	end     func() // has the queue forget the element, once
}

// newElement returns the element that this process has claimed by node.
func (q *Queue) newElement(name, path string, data []byte, attempt int, node *own.Node) *Element {
	e := &Element{q: q, name: name, path: path, data: data, attempt: attempt, node: node}
	e.end = sync.OnceFunc(func() {
		q.drop(name)
		q.unuse()
	})
	lost, done := node.Context(context.Background())
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
	_ = e.q.access.Call(context.Background(), func(s *zkio.Session) error {
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
		return unless(e.q.transact(s, ops), zkio.ErrNoNode)
	}, nil) // once the Manager is closed there is nothing to do
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

// A settlement is an element's Ack, Return or Bury under way.
type settlement struct {
	*Element
	op      string
	ops     func(*zkio.Session) ([]zkio.Op, error)
	ours    bool // the claim was not lost before it was forgotten
	doubt   bool // a request was sent whose outcome is not known
	outcome error
}

// carryOut blocks until the operations are carried out, were refused, or come too late.
func (t *settlement) carryOut() error {
	err := t.q.access.Call(context.Background(), func(*zkio.Session) error { return t.try(t.node.Session()) }, nil)
	switch {
	case err == nil:
		err = t.outcome
	case t.doubt:
		err = fmt.Errorf("%w: %w", err, manager.ErrUnknownOutcome)
	}
	if errors.Is(err, ErrFull) {
		t.settled.Store(false)
		return err
	}
	if zkio.ClassOf(err) == zkio.Definite { // ZooKeeper refuses, and the claim is there
		t.node.Forget()
		t.abandon()
	}
	t.end()
	if err != nil || t.op == opReturn {
		t.q.relist(t.name)
	}
	return err
}

// try is called by a worker, until it returns nil or a definite error.
func (t *settlement) try(s *zkio.Session) error {
	err := t.send(s)
	t.doubt = t.doubt || errors.Is(err, zkio.ErrUnknown)
	switch {
	case zkio.ClassOf(err) == zkio.SessionOver && t.doubt:
		err = fmt.Errorf("%w: the session ended meanwhile", manager.ErrUnknownOutcome)
	case zkio.ClassOf(err) == zkio.SessionOver:
		err = fmt.Errorf("%w: the session is over", ErrLost)
	case errors.Is(err, ErrFull), errors.Is(err, ErrLost), errors.Is(err, manager.ErrClosed):
	default:
		return err
	}
	t.outcome = err
	return nil
}

func (t *settlement) send(s *zkio.Session) error {
	if t.doubt {
		// Should the request have been carried out, the claim at this path is another's.
		if err := s.Sync(t.path); err != nil {
			return err
		}
		if there, err := t.node.There(s); err != nil || !there {
			return cmp.Or(err, t.check(s))
		}
	} else if err := t.node.Err(); err != nil {
		return err
	}
	ops, err := t.ops(s)
	switch {
	case errors.Is(err, zkio.ErrNoNode):
		return fmt.Errorf("%w: another client deleted it", ErrLost)
	case err != nil:
		return err
	}
	if !t.node.Forget() && !t.ours { // from now on its end is ours
		return cmp.Or(t.node.Err(), ErrLost)
	}
	t.ours = true
	err = t.q.transact(s, ops)
	if errors.Is(err, zkio.ErrNoNode) {
		return fmt.Errorf("%w: another client deleted its claim", ErrLost)
	}
	return err
}

// check is called when the claim has gone while the outcome of a request was not known: by
// that request, or by an administrator.
func (t *settlement) check(s *zkio.Session) error {
	_, there, err := s.Exists(t.path)
	if there && (t.op == opAck || t.op == opBury) {
		err = fmt.Errorf("%w: another client deleted its claim", ErrLost)
	}
	return err
}

// claimName is what the path of an element's claim ends in.
const claimName = "/claim"

// The versions of a claim tell what it is of.
const (
	ofDelay    = 0 // it keeps consumers from an element that is delayed
	ofConsumer = 1 // its data were set as it was made
)

// unclaim returns the operation that deletes a consumer's claim of the element at path. If
// that is gone, and the element is delayed by now, it spares the claim that is there.
func unclaim(path string) zkio.Op { return zkio.DeleteOp(path+claimName, ofConsumer) }

// giveBack returns the operations that delete the claim of the element at path. The
// directory's data change with it: a claim's end does not show among the elements.
func (q *Queue) giveBack(path string) []zkio.Op {
	return []zkio.Op{unclaim(path), q.tells()}
}

// attempts returns how often the element of this Stat was taken. Cversion counts creations and
// deletions of children. Each change of the element's data says that one claim, or what else
// was made and deleted in place of a claim, was no attempt.
func attempts(st zkio.Stat) int {
	return max(int(uint32(st.Cversion+st.NumChildren)/2)-int(st.Version), 1)
}

// uncounted returns the operation that has one claim of the element at path be no attempt.
func uncounted(s *zkio.Session, path string) (zkio.Op, error) {
	data, stat, err := s.Get(path)
	return zkio.SetOp(path, data, stat.Version), err
}

// burial returns the operations that move the element at path, which this process has
// claimed, to dead/.
func (q *Queue) burial(s *zkio.Session, path string, data []byte) ([]zkio.Op, error) {
	stat, _, err := s.Exists(q.dirs.dead)
	switch {
	case err != nil:
		return nil, err
	case stat.NumChildren >= maxLength:
		return nil, fmt.Errorf("%w: %s has %d elements: requeue or drop some", ErrFull, q.dirs.dead, stat.NumChildren)
	}
	return []zkio.Op{
		unclaim(path), zkio.DeleteOp(path, -1),
		zkio.CreateOp(q.dirs.dead+"/"+prefix, data, q.access.ACL()).Sequential(),
	}, nil
}

// transact carries out operations, of which only the first can be the deletion of a claim. If
// the error wraps ErrNoNode, what the first one is for is not there. What else is in their way it
// removes.
func (q *Queue) transact(s *zkio.Session, ops []zkio.Op) error {
	results, err := s.Multi(ops...)
	which := failed(results)
	switch {
	case errors.Is(err, zkio.ErrNoNode) && which > 0: // a directory was deleted, or never made
		return cmp.Or(q.makeDirs(s), errHindered)
	case errors.Is(err, zkio.ErrBadVersion) && which == 0 && strings.HasSuffix(ops[0].Path(), claimName): // it is delayed, or another client has written to the claim
		stat, there, err := s.Exists(ops[0].Path())
		if err == nil && (!there || stat.EphemeralOwner == 0) {
			err = fmt.Errorf("%w: the element is delayed", zkio.ErrNoNode)
		}
		if err != nil {
			return err
		}
		return q.transact(s, append([]zkio.Op{zkio.DeleteOp(ops[0].Path(), stat.Version)}, ops[1:]...))
	case errors.Is(err, zkio.ErrBadVersion): // another client has changed the element just now
		return errHindered
	case errors.Is(err, zkio.ErrNotEmpty) && which > 0: // other clients' nodes, which nothing protects
		return cmp.Or(removeBelow(s, ops[which].Path(), ops[0].Path()), errHindered)
	}
	return err
}

// removeBelow deletes what is below the node at path, but for the child that is spared.
func removeBelow(s *zkio.Session, path, spared string) error {
	names, _, err := s.Children(path)
	if err != nil {
		return unless(err, zkio.ErrNoNode)
	}
	for _, name := range names {
		child := path + "/" + name
		if child == spared {
			continue
		}
		if err := removeBelow(s, child, ""); err != nil {
			return err
		}
		// If it has got a child just now, the next try sees to that.
		if err := unless(unless(s.Delete(child, -1), zkio.ErrNoNode), zkio.ErrNotEmpty); err != nil {
			return err
		}
	}
	return nil
}
