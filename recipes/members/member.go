// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/look"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// lookEvery is how often a member that cannot join tries again if nothing happens.
const lookEvery = 10 * time.Second

// A Member is a membership of this process, from [Group.Join] until [Member.Leave] or the
// Manager's Close. It is lost with the session, and when another client deletes its node.
// Then it joins again by itself as soon as it can, with the same id and data; if another
// process has the id by then, it waits. All methods may be called concurrently.
type Member struct {
	group *Group
	id    string
	path  string

	ctx   context.Context         // ends when the member leaves or the Manager closes, with that as its cause
	leave context.CancelCauseFunc // ends ctx

	data atomic.Pointer[[]byte]   // what its node is to have
	node atomic.Pointer[own.Node] // the present node, or the last; nil before the first
	why  atomic.Pointer[error]    // why it could not join when it tried last; nil if it could

	joined chan struct{} // closed when the first attempt has ended …
	err    error         // … with this, written before
	gone   chan struct{} // closed when the member has left, and its node is gone …
	end    error         // … unless this says otherwise, written before

	// The I/O goroutine uses these. There is one at a time.
	tried *zkio.Session // may have a node of ours that node does not have
	taken bool          // the id was taken at the last look
}

func newMember(g *Group, id string, data []byte) *Member {
	m := &Member{
		group: g, id: id, path: g.path(manager.Escape(id)),
		joined: make(chan struct{}), gone: make(chan struct{}),
	}
	m.ctx, m.leave = context.WithCancelCause(g.access.Context())
	m.data.Store(&data)
	return m
}

// ID returns the id with which the member has joined.
func (m *Member) ID() string { return m.id }

// Since returns the transaction by which the member has joined, or joined again: its
// [Info.Since].
func (m *Member) Since() uint64 { return m.node.Load().Token() }

// Lost returns a channel that closes when the membership that the member has now is lost,
// before ZooKeeper can show the group without it. It never closes because the member
// leaves. Once the member has joined again, Lost returns another channel. It does not block.
func (m *Member) Lost() <-chan struct{} { return m.node.Load().Lost() }

// Err returns nil while the member is in the group; ErrLost while it is not, with what
// keeps it from joining again; and ErrLeft or manager.ErrClosed once it has left. It reads
// the clock, and does not block.
func (m *Member) Err() error {
	err := context.Cause(m.ctx)
	if err == nil {
		if err = m.node.Load().Err(); err == nil {
			return nil
		}
		if why := m.why.Load(); why != nil {
			err = fmt.Errorf("%w; it cannot join again: %w", err, *why)
		}
	}
	return m.group.error("member", err)
}

// Set replaces the member's data, also for when it joins again. It blocks until ZooKeeper
// has the data or ctx ends: while the membership is lost, until the member has joined
// again. If ctx ends first, the data may still be set. Of several calls at the same time,
// one wins. The errors are ErrTooLarge, ErrLeft, manager.ErrClosed, and what ZooKeeper
// refuses. Set costs a read and a write.
func (m *Member) Set(ctx context.Context, data []byte) error {
	if err := checkData(data); err != nil {
		return m.group.error("set", err)
	}
	data = bytes.Clone(data)
	m.data.Store(&data)
	err := m.group.access.Call(ctx, m.set, nil)
	if err == nil && m.left() {
		err = context.Cause(m.ctx)
	}
	return m.group.error("set", err)
}

// left reports whether the member has left, or the Manager is closed.
func (m *Member) left() bool { return m.ctx.Err() != nil }

// set writes the newest data to the node. It asks for the version before it looks for the
// newest data, so it cannot replace newer data that another call has written.
func (m *Member) set(s *zkio.Session) error {
	if m.left() {
		return nil
	}
	n := m.node.Load()
	if s != n.Session() { // the node may be there yet, and another process's when ours is written
		return fmt.Errorf("%w: %w", zkio.ErrNotSent, ErrLost)
	}
	node := s.GetAll(m.path)[0] // which leaves no watch: the member may leave meanwhile
	switch {
	case errors.Is(node.Err, zkio.ErrNoNode), node.Err == nil && uint64(node.Stat.Czxid) != n.Token():
		return fmt.Errorf("%w: %w", zkio.ErrNotSent, ErrLost) // try again when it has joined again
	case node.Err != nil:
		return node.Err
	}
	_, err := s.Set(m.path, *m.data.Load(), node.Stat.Version)
	if errors.Is(err, zkio.ErrBadVersion) || errors.Is(err, zkio.ErrNoNode) {
		return fmt.Errorf("%w: %w", zkio.ErrNotSent, err)
	}
	return err
}

// Leave ends the membership. It blocks until the member's node is gone or ctx ends;
// the member leaves in any case. If ctx ends first, the error wraps ctx.Err() and
// context.Cause(ctx), and the node is deleted as soon as ZooKeeper can be reached. Leave
// returns nil if the membership was lost before.
func (m *Member) Leave(ctx context.Context) error {
	m.leave(ErrLeft)
	select {
	case <-m.gone:
		return m.group.error("leave", m.end)
	case <-ctx.Done():
		return m.group.error("leave", ctxerr.Of(ctx))
	}
}

// run joins, joins again whenever the membership is lost, and leaves. It is the member's
// goroutine.
func (m *Member) run(wait bool) {
	defer close(m.gone)
	defer m.group.forget(m)
	defer m.leave(ErrLeft)
	err := m.enter(m.group.access.Accepting(), func(err error) bool { return wait && errors.Is(err, ErrTaken) })
	m.err = err
	close(m.joined)
	for err == nil {
		select {
		case <-m.Lost():
			err = m.enter(m.ctx, func(error) bool { return true })
		case <-m.ctx.Done():
			err = context.Cause(m.ctx)
		}
	}
	m.end = access.Tell(m.group.access, m.clean)
}

// enter joins, and tries again while again says so, and until has not ended. It fails when the
// member leaves. No try is interrupted by that, so nothing is under way when clean begins.
func (m *Member) enter(until context.Context, again func(error) bool) error {
	l := look.New(m.group.access, until)
	l.Again = lookEvery
	l.Watch(m.path)
	err := l.Run(m.ctx, func(s *zkio.Session) (bool, error) { return m.try(s, again) })
	if m.left() {
		err = context.Cause(m.ctx)
	}
	return err
}

// try makes one attempt to join. It reports whether that was the last one.
func (m *Member) try(s *zkio.Session, again func(error) bool) (last bool, err error) {
	if m.left() {
		return true, nil
	}
	n, err := m.create(s)
	switch {
	case err == nil:
		m.node.Store(n)
		m.why.Store(nil)
		return true, nil
	case errors.Is(err, zkio.ErrNoNode): // it, or its directory, has gone again
		return false, fmt.Errorf("%w: %w", zkio.ErrNotSent, err)
	case !errors.Is(err, ErrTaken) && !errors.Is(err, ErrFull) && zkio.ClassOf(err) != zkio.Definite:
		return false, err
	case !again(err):
		return false, access.Verdict(err)
	}
	why := err
	m.why.Store(&why)
	return false, nil
}

// create makes the node in s, and has it kept.
func (m *Member) create(s *zkio.Session) (*own.Node, error) {
	g := m.group
	node := zkio.Read{Path: m.path, What: zkio.ReadStat}
	dir := zkio.Read{Path: g.dir, What: zkio.ReadStat}
	if m.taken { // look before we try, which costs a write
		s.Read(&node)
		if err := m.look(s, &node); err != nil && !errors.Is(err, zkio.ErrNoNode) {
			return nil, err
		}
	}
	m.tried = s
	err := access.InDir(g.access, s, g.dir, func() error {
		op := zkio.CreateOp(m.path, *m.data.Load(), g.access.ACL()).Ephemeral()
		_, err := s.MultiAndRead([]*zkio.Read{&node, &dir}, op)
		return err
	})
	if errors.Is(err, zkio.ErrNodeExists) {
		s.Read(&node, &dir)
	} else if err != nil {
		return nil, err
	}
	if err := m.look(s, &node); err != nil {
		return nil, err
	}
	if dir.Err == nil && dir.Stat.NumChildren > MaxMembers {
		if fits, err := m.fits(s, node.Stat.Czxid); err != nil {
			return nil, err
		} else if !fits {
			if err := s.Delete(m.path, -1); err != nil {
				return nil, err
			}
			return nil, ErrFull
		}
	}
	n, err := g.keeper.Keep(s, m.path, node.Stat.Czxid)
	if err == nil {
		m.tried = nil
	}
	return n, err
}

// fits reports whether the member, whose node transaction czxid has created, is among the first
// MaxMembers of the group. If some join at a time, that decides which of them fit.
func (m *Member) fits(s *zkio.Session, czxid int64) (bool, error) {
	names, _, err := s.Children(m.group.dir)
	if err != nil {
		return false, err
	}
	nodes := make([]*zkio.Read, len(names))
	for i, name := range names {
		nodes[i] = &zkio.Read{Path: m.group.path(name), What: zkio.ReadStat}
	}
	s.Read(nodes...)
	before := 0
	for _, n := range nodes {
		switch {
		case errors.Is(n.Err, zkio.ErrNoNode): // it has gone since
		case n.Err != nil:
			return false, n.Err
		case n.Stat.EphemeralOwner != 0 && n.Stat.Czxid < czxid:
			before++
		}
	}
	return before < MaxMembers, nil
}

// look returns nil if the node that was read is ours: this session has it, and no other
// member of this process has the id.
func (m *Member) look(s *zkio.Session, r *zkio.Read) error {
	owner := r.Stat.EphemeralOwner
	m.taken = r.Err == nil && owner != s.ID()
	if !m.taken {
		return r.Err
	}
	m.tried = nil // so it was not made
	if owner == 0 {
		return fmt.Errorf("%w: by %s, which is no member's node; delete it", ErrTaken, m.path)
	}
	return fmt.Errorf("%w: by session %#x", ErrTaken, owner)
}

// clean deletes the node, if there is one. It is repeated until it has succeeded.
func (m *Member) clean(s *zkio.Session) error {
	if n := m.node.Load(); n != nil {
		if err := n.Delete(s); err != nil {
			return err
		}
	}
	if m.tried == s { // an answer was lost
		if err := s.Sync(m.path); err != nil {
			return err
		}
		stat, there, err := s.Exists(m.path)
		if err == nil && there && stat.EphemeralOwner == s.ID() {
			err = s.Delete(m.path, -1)
		}
		if err != nil && !errors.Is(err, zkio.ErrNoNode) {
			return err
		}
	}
	return nil
}
