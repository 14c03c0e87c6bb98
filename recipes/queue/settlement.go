// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A settlement is an element's Ack, Return or Bury under way.
type settlement struct {
	*Element
	op    string
	ops   func(*zkio.Session) ([]zkio.Op, error)
	ours  bool // the claim was not lost before it was forgotten
	doubt bool // a request was sent whose outcome is not known
}

// carryOut blocks until the operations are carried out, were refused, or come too late.
func (t *settlement) carryOut() error {
	err := access.Do(context.Background(), t.q.access, func(*zkio.Session) error { return t.try(t.node.Session()) })
	if err != nil && t.doubt {
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
	t.doubt = false // the verdict says what is known
	return access.Verdict(err)
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
