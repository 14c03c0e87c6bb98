// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

const (
	// MaxMembers is how many members a group can have. Each watcher of the group hears of
	// each change, so larger groups cost more than they are worth.
	MaxMembers = 1000
	// MaxData is how many bytes of data a member can have.
	MaxData = 64 << 10
)

// The conditions that the package reports. Each is wrapped in a [*manager.Error]. Those of
// package manager come as well: ErrClosed, ErrBadName.
var (
	// ErrTaken says that the id belongs to another member: one of another process, one of
	// this process that has not left, or a node that is no member's. The text says which.
	ErrTaken = errors.New("the id is taken")
	// ErrFull says that the group has MaxMembers members.
	ErrFull = fmt.Errorf("the group is full: it has %d members", MaxMembers)
	// ErrTooLarge says that a member's data has more than MaxData bytes.
	ErrTooLarge = fmt.Errorf("the data of a member is too large: it can have %d bytes", MaxData)
	// ErrBadID says that an id is empty, or too long for a node's name: that is 255 bytes,
	// of which each byte that manager.Escape escapes takes three.
	ErrBadID = errors.New("bad id of a member")
	// ErrLost says that a member is not in the group at present, although it has not left.
	// It joins again by itself.
	ErrLost = errors.New("membership was lost")
	// ErrLeft says that a member has left the group.
	ErrLeft = errors.New("member has left")
)

// A Group is a set of members, each of which has an id of its own. Groups of one name are the
// same group, also those that one Manager has: an id has one member among all of them. All
// methods may be called concurrently.
type Group struct {
	access manager.Access
	name   string
	dir    string
	keeper *own.Keeper
}

// present has the members of this process until their nodes are gone. A node of the own
// session does not tell which of the process's members it is, so there must be only one of a
// path, in whichever Group.
var present = struct {
	sync.Mutex // protects members; held for map accesses only
	members    map[place]*Member
}{members: make(map[place]*Member)}

// A place is where a Manager has a member.
type place struct {
	access manager.Access
	path   string
}

// New returns the group of this name: a path as for [manager.Manager.Exclusive]. It does no
// I/O. Its errors wrap manager.ErrBadName and manager.ErrClosed.
func New(m *manager.Manager, name string) (*Group, error) {
	g := &Group{access: m.Access(), name: name}
	var err error
	if g.dir, err = g.access.Path(name); err != nil {
		return nil, g.error("members", err)
	}
	g.keeper = own.NewKeeper(g.access, ErrLost)
	return g, nil
}

// Join makes this process a member with this id and data. Other processes see it from then
// on until it leaves, or this process's session ends; see [Member].
//
// While the id is taken, Join waits. It blocks until it has joined or ctx ends; then it
// leaves no node behind, and the error wraps ctx.Err() and context.Cause(ctx), as well as
// ErrTaken if the id was taken. After Join has returned, ctx has no effect. The other
// errors are ErrFull, ErrTooLarge, ErrBadID, and what ZooKeeper refuses; and manager.ErrClosed, if
// Shutdown of the Manager begins while Join waits for an id, or the Manager is closed.
func (g *Group) Join(ctx context.Context, id string, data []byte) (*Member, error) {
	return g.join(ctx, "join", id, data, true)
}

// TryJoin is [Group.Join], but it does not wait for an id that is taken: it returns
// ErrTaken. It blocks until ZooKeeper has answered or ctx ends.
func (g *Group) TryJoin(ctx context.Context, id string, data []byte) (*Member, error) {
	return g.join(ctx, "tryjoin", id, data, false)
}

func (g *Group) join(ctx context.Context, op, id string, data []byte, wait bool) (*Member, error) {
	if err := check(id, data); err != nil {
		return nil, g.error(op, err)
	}
	if ctx.Err() != nil {
		return nil, g.error(op, ctxerr.Of(ctx))
	}
	m := newMember(g, id, bytes.Clone(data))
	if err := g.reserve(ctx, m, wait); err != nil {
		return nil, g.error(op, err)
	}
	g.access.Go(func() { m.run(wait) })
	select {
	case <-m.joined:
		if m.err == nil {
			return m, nil
		}
		select {
		case <-m.gone:
		case <-ctx.Done():
		}
		return nil, g.error(op, m.err)
	case <-ctx.Done():
		m.leave(ErrLeft) // its goroutine cleans up
		err := ctxerr.Of(ctx)
		if why := m.why.Load(); why != nil {
			err = fmt.Errorf("%w: %w", err, *why)
		}
		return nil, g.error(op, err)
	}
}

// reserve makes m the one member of this process that has its id.
func (g *Group) reserve(ctx context.Context, m *Member, wait bool) error {
	for {
		other := g.enlist(m)
		taken := fmt.Errorf("%w: by this process, which has not left", ErrTaken)
		switch {
		case other == nil:
			return nil
		case !wait:
			return taken
		}
		select {
		case <-other.gone:
		case <-g.access.Accepting().Done():
			return manager.ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctxerr.Of(ctx), taken)
		}
	}
}

// enlist notes m as present, unless another member of its path is. It returns that one.
func (g *Group) enlist(m *Member) (other *Member) {
	present.Lock()
	defer present.Unlock()
	at := place{g.access, m.path}
	if other = present.members[at]; other == nil {
		present.members[at] = m
	}
	return other
}

// forget undoes reserve.
func (g *Group) forget(m *Member) {
	present.Lock()
	defer present.Unlock()
	delete(present.members, place{g.access, m.path})
}

// List returns the members, ordered by id. What it returns may be out of date, by as much
// as the server lags behind that this process is connected to; call [manager.Manager.Sync]
// before it to see all that has happened until then. List blocks until ZooKeeper has
// answered or ctx ends, and costs a list and one more request for all members.
func (g *Group) List(ctx context.Context) ([]Info, error) {
	all, err := access.Ask(ctx, g.access, g.list)
	return all, g.error("list", err)
}

func (g *Group) list(s *zkio.Session) ([]Info, error) {
	names, _, err := s.Children(g.dir)
	if err != nil {
		return nil, access.Unless(err, zkio.ErrNoNode)
	}
	var all []Info
	err = access.Each(s, names, g.path, func(name string, node *zkio.Read) {
		if node.Stat.EphemeralOwner != 0 {
			all = append(all, infoOf(name, node))
		}
	})
	sortByID(all)
	return all, err
}

// check refuses what cannot be a member.
func check(id string, data []byte) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrBadID)
	case idOf(manager.Escape(id)) != id:
		return fmt.Errorf("%w: it has %d bytes, and more than 255 when escaped", ErrBadID, len(id))
	}
	return checkData(data)
}

func checkData(data []byte) error {
	if len(data) > MaxData {
		return fmt.Errorf("%w: it has %d", ErrTooLarge, len(data))
	}
	return nil
}

// idOf returns the id of a member by the name of its node. Curator's GroupMember does not
// escape ids, so what is not escaped is an id as it is.
func idOf(name string) string {
	if id, err := url.PathUnescape(name); err == nil && manager.Escape(id) == name {
		return id
	}
	return name
}

func (g *Group) path(name string) string { return g.dir + "/" + name }

func (g *Group) error(op string, err error) error { return access.Error(g.access, op, g.name, err) }
