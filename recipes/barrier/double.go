// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/oneline"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// A Double is a barrier at which processes begin a round of work together, and end it
// together. All methods may be called concurrently: each call of Enter is a member of its own.
type Double struct {
	access  manager.Access
	keeper  *own.Keeper
	name    string
	members int

	record string // the path of the record
	dir    string // the path of the directory of the members

	// strangers has the names of nodes in dir that were found to be none of ours: those of
	// processes that are not ephemeral, and those that have children.
	strangers sync.Map
}

// MaxMembers is how many members a Double barrier can have: as many as one transaction, which
// names all of them, can be about.
const MaxMembers = 500

// maxPath is the longest path of a barrier, in bytes, for the same reason.
const maxPath = 400

// NewDouble returns the barrier of this name, which is one as for [manager.Manager.Exclusive],
// at which so many members begin and end together. All processes must give the same number. It
// does no I/O. It fails with [ErrBadMembers], [manager.ErrBadName], and [manager.ErrClosed] if
// the Manager is closed.
func NewDouble(m *manager.Manager, name string, members int) (*Double, error) {
	a := m.Access()
	p, err := a.Path(name)
	switch {
	case err != nil:
	case members < 1 || members > MaxMembers:
		err = fmt.Errorf("%w: %d is not within 1 and %d", ErrBadMembers, members, MaxMembers)
	case len(p) > maxPath:
		err = fmt.Errorf("%w: its path has %d bytes, and may have %d", manager.ErrBadName, len(p), maxPath)
	}
	if err != nil {
		return nil, access.Error(a, "barrier", name, err)
	}
	return &Double{
		access: a, keeper: own.NewKeeper(a, ErrLost), name: name, members: members,
		record: p + "/round", dir: p + "/members",
	}, nil
}

// Enter blocks until as many callers as the barrier has members have entered, and returns the
// stage of this one, on which it must call [Stage.Leave]. While Enter waits, it survives the
// end of the session and the deletion of its node: it then waits with a new one.
//
// It fails if ctx ends, or has ended before, with [ErrMismatch] if other processes use the
// barrier with another number of members, and with [manager.ErrClosed] if the Manager is shut
// down or closed. No node is left then: if ZooKeeper cannot be reached now, it is deleted later.
// If the round has begun in the very moment, the caller counts as one that has left it, unless
// Close ends the session before ZooKeeper knows; Shutdown waits for that.
func (d *Double) Enter(ctx context.Context) (*Stage, error) {
	switch {
	case d.access.Accepting().Err() != nil:
		return nil, d.error("enter", manager.ErrClosed)
	case ctx.Err() != nil: // run would begin: its node may make up the number of a round
		return nil, d.error("enter", ctxerr.Of(ctx))
	}
	st, err := run(ctx, d.access, d.access.Finish, func() (*Stage, error) { return d.enter(ctx) }, func(st *Stage) { _ = st.leave() })
	return st, d.error("enter", err)
}

func (d *Double) enter(ctx context.Context) (*Stage, error) {
	e := &entry{Double: d, lookout: d.lookout()}
	e.lookout.Watch(d.record)
	err := e.lookout.Run(ctx, func(s *zkio.Session) (bool, error) {
		err := e.step(s)
		return e.stage != nil, err
	})
	if err != nil {
		_ = access.Tell(d.access, e.withdraw)
		return nil, err
	}
	d.access.Go(e.stage.cleanUp)
	return e.stage, nil
}

// in and left return the paths of the nodes of a process inside, or waiting, and of one that
// has left.
func (d *Double) in(name string) string   { return d.dir + "/" + inPrefix + name }
func (d *Double) left(name string) string { return d.dir + "/" + leftPrefix + name }

// owned reports whether the node of the process of this name belongs to a session, which will
// end. One that does not would be waited for in vain: it counts no more.
func (d *Double) owned(name string, stat zkio.Stat) bool {
	if stat.EphemeralOwner != 0 {
		return true
	}
	d.strangers.Store(inPrefix+name, true)
	return false
}

// waitedInVain reports whether the node of this name in dir seems to be that of a process that is
// inside, or waits, and is none of ours.
func (d *Double) waitedInVain(node string) bool {
	_, is := d.strangers.Load(node)
	return is && strings.HasPrefix(node, inPrefix)
}

// look returns what the barrier's nodes look like. A list that lies between two reads of the
// same record is of the moment between them.
func (d *Double) look(s *zkio.Session) (v view, err error) {
	for {
		before := &zkio.Read{Path: d.record, What: zkio.ReadData}
		list := &zkio.Read{Path: d.dir, What: zkio.ReadChildren}
		after := &zkio.Read{Path: d.record, What: zkio.ReadStat}
		s.Read(before, list, after)
		// The directory may be missing: the server removes an empty one.
		if err := oneline.Join(before.Err, access.Unless(list.Err, zkio.ErrNoNode), after.Err); err != nil {
			return v, err
		}
		if !s.CaughtUp() {
			if err := s.Sync(d.record); err != nil {
				return v, err
			}
			continue
		}
		if before.Stat.Mzxid == after.Stat.Mzxid {
			rec, err := decode(d.record, before.Data)
			return newView(rec, before.Stat, slices.DeleteFunc(list.Names, d.waitedInVain)), err
		}
	}
}

// leave makes the process of this name one that has left. It fails with ErrNoNode if its node
// is gone, and with ErrNodeExists if it has left before.
func (d *Double) leave(s *zkio.Session, name string) error {
	_, err := s.Multi(zkio.DeleteOp(d.in(name), -1), zkio.CreateOp(d.left(name), nil, d.access.ACL()))
	return err
}

// change replaces the record that v shows, together with ops, and deletes the nodes of those
// that have left. It does nothing, and succeeds, if the barrier has changed since.
func (d *Double) change(s *zkio.Session, v view, rec record, ops ...zkio.Op) error {
	ops = append(ops, zkio.SetOp(d.record, rec.encode(), v.version))
	for _, name := range v.left {
		if _, stays := d.strangers.Load(leftPrefix + name); !stays {
			ops = append(ops, zkio.DeleteOp(d.left(name), -1))
		}
	}
	_, err := s.Multi(ops...)
	if errors.Is(err, zkio.ErrNotEmpty) {
		return d.spare(s, v.left)
	}
	return access.Unless(err, zkio.ErrNoNode, zkio.ErrBadVersion)
}

// spare finds out which nodes of those that have left have children, so cannot be deleted.
func (d *Double) spare(s *zkio.Session, left []string) error {
	return access.Each(s, left, d.left, func(name string, node *zkio.Read) {
		if node.Stat.NumChildren > 0 {
			d.strangers.Store(leftPrefix+name, true)
		}
	})
}

func (d *Double) error(op string, err error) error { return access.Error(d.access, op, d.name, err) }
