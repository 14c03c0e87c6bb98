// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Gate is open or shut, for all processes. It is open until [Gate.Shut] is called. All
// methods may be called concurrently.
type Gate struct {
	access manager.Access
	name   string
	path   string
}

// NewGate returns the gate of this name, which is one as for [manager.Manager.Exclusive]. It
// does no I/O. It fails with [manager.ErrBadName], and [manager.ErrClosed] if the Manager is
// closed.
func NewGate(m *manager.Manager, name string) (*Gate, error) {
	a := m.Access()
	p, err := a.Path(name)
	if err != nil {
		return nil, access.Error(a, "gate", name, err)
	}
	return &Gate{access: a, name: name, path: p}, nil
}

// Shut shuts the gate. If it is shut already, Shut succeeds.
//
// Shut blocks until ZooKeeper has answered, ctx ends or the Manager closes. If one of these
// ends interrupts it, the gate may be shut all the same: the error wraps
// [manager.ErrUnknownOutcome], too, beside ctx.Err() and context.Cause(ctx), or
// [manager.ErrClosed]. If an answer is lost, the request is repeated: a gate that another
// process opens meanwhile is then shut again.
func (g *Gate) Shut(ctx context.Context) error {
	return g.change(ctx, "shut", func(s *zkio.Session) error {
		err := access.InDir(g.access, s, path.Dir(g.path), func() error {
			return s.Create(g.path, g.access.Describe("gate"), g.access.ACL())
		})
		return access.Unless(err, zkio.ErrNodeExists)
	})
}

// Open opens the gate, and all that wait for it go on. If it is open already, Open succeeds.
// It blocks and fails as [Gate.Shut] does.
func (g *Gate) Open(ctx context.Context) error {
	return g.change(ctx, "open", func(s *zkio.Session) error {
		return access.Unless(s.Delete(g.path, -1), zkio.ErrNoNode)
	})
}

// change has do change the gate.
func (g *Gate) change(ctx context.Context, op string, do func(s *zkio.Session) error) error {
	over := ctx.Err() != nil
	doubt := false // a request was sent that has no answer; belongs to the worker until Call has its result
	err := g.access.Call(ctx, func(s *zkio.Session) error {
		err := do(s)
		doubt = doubt || errors.Is(err, zkio.ErrUnknown)
		return err
	}, nil)
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // do may still be running
		if !over {
			err = fmt.Errorf("%w: %w", manager.ErrUnknownOutcome, err)
		}
	case doubt && errors.Is(err, manager.ErrClosed):
		err = fmt.Errorf("%w: %w", manager.ErrUnknownOutcome, err)
	}
	return access.Error(g.access, op, g.name, err)
}

// Wait blocks until the gate is open, or was opened after Wait's first request; or until ctx
// ends, or the Manager is shut down or closed.
func (g *Gate) Wait(ctx context.Context) error {
	_, err := run(ctx, g.access, g.access.Go, func() (struct{}, error) { return struct{}{}, g.wait(ctx) }, func(struct{}) {})
	return access.Error(g.access, "wait", g.name, err)
}

func (g *Gate) wait(ctx context.Context) error {
	l := waiting(g.access)
	l.Watch(g.path)
	w := gateWait{gate: g}
	return l.Run(ctx, w.look)
}

// A gateWait is a call of Wait. The present look uses it.
type gateWait struct {
	gate    *Gate
	session *zkio.Session // of the last look
	shut    int64         // the transaction that had shut the gate when it was first seen
}

// look finds out whether the gate is open, or has been. A node that another transaction has
// made than the one seen before shows that it was opened in between.
func (w *gateWait) look(s *zkio.Session) (opened bool, err error) {
	read := &zkio.Read{Path: w.gate.path, What: zkio.ReadData} // watches the node, and nothing if there is none
	if err = w.read(s, read); err != nil {
		return errors.Is(err, zkio.ErrNoNode), access.Unless(err, zkio.ErrNoNode)
	}
	opened = w.shut != 0 && w.shut != read.Stat.Czxid
	w.session, w.shut = s, read.Stat.Czxid
	return opened, nil
}

// read reads the node. A session's first server may lag behind, and show a gate as open that
// was shut before Wait began. Therefore the first read of a session follows a transaction,
// which the leader has ordered.
func (w *gateWait) read(s *zkio.Session, read *zkio.Read) error {
	if s == w.session {
		s.Read(read)
	} else if _, err := s.MultiAndRead([]*zkio.Read{read}, zkio.CheckOp(read.Path, -1)); err != nil {
		return err
	}
	return read.Err
}
