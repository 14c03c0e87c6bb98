// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/zkio"
)

// MaxShards is how many shards there can be under one name.
const MaxShards = 1000

const (
	defaultSettle = time.Second
	defaultGrace  = 10 * time.Second

	// restless is after how many times Options.Settle shards are given up although the group
	// still changes.
	restless = 10
)

// ErrMismatch says that the shards of this name are divided in another way: there is
// another number of them, or another algorithm. The text says which.
var ErrMismatch = errors.New("the shards are divided otherwise")

// ErrRunning says that a call of Run of the same Manager divides these shards already. The
// goroutines of a Manager share its locks, so both would own a shard, with the same token.
var ErrRunning = errors.New("this Manager runs these shards already")

// ErrRevoked is the cause with which the context of a function ends that was still running
// when Options.Grace was over.
var ErrRevoked = errors.New("another process is to own the shard")

// Options say what [Run] divides, and how.
type Options struct {
	// Name is the name of the shards: a path as for manager.Exclusive.
	// There is no default.
	Name string

	// N is the number of shards, at most MaxShards, the same for all processes.
	// There is no default.
	N int

	// ID is this process's id in the group, which no other process has: see members.Join.
	// A process that starts again with the same id gets the same shards, but must wait
	// until the session that it had before is over.
	// Defaults to one that is never used again.
	ID string

	// Settle is how long the group must have been the same before this process gives up
	// shards that another is to have and waits for. It spares shards a move when processes come or go
	// one after the other. Shards without an owner are taken at once. If the group does not
	// come to rest, it is ten times as long.
	// Defaults to 1 s.
	Settle time.Duration

	// Grace is how long a function may go on after Shard.Revoked has closed. Then its
	// context ends.
	// Defaults to 10 s.
	Grace time.Duration
}

// A Shard is what a function of [Run] gets.
type Shard struct {
	Index int    // from 0 to Options.N-1
	Token uint64 // the fencing token of the grant: it rises from owner to owner
	Hold  manager.Hold

	// Revoked is closed when the process that is to own the shard waits for it. Finish what cannot be
	// interrupted, and return. See Options.Grace.
	Revoked <-chan struct{}
}

// Run joins the processes that divide the shards, and calls fn for each shard that this
// process owns, each on a goroutine of its own. It blocks until ctx ends, an fn fails, or
// Shutdown or Close of the Manager begins. Then it has every fn stopped and leaves. It returns once
// they have returned and the shards are given up, or ZooKeeper has not confirmed that for the
// session timeout. Until then a Manager has one call of Run for a name: another fails with ErrRunning.
//
// The ctx of fn ends when Run's does, when the shard's lock is lost, or when the shard was
// revoked and Options.Grace is over. Fn must return then; it is called again if this
// process gets the shard again. If fn returns nil before, the process keeps the shard, and
// fn is not called again until it has been lost or another process has had it. If fn
// returns an error before, Run ends with that error.
//
// Otherwise the error is a [*manager.Error] that wraps what has ended Run: ctx.Err() and
// context.Cause(ctx), ErrMismatch, ErrRunning, manager.ErrBadConfig for bad options,
// manager.ErrBadName, manager.ErrClosed, members.ErrFull and members.ErrBadID, or what ZooKeeper
// refuses.
func Run(ctx context.Context, m *manager.Manager, o Options, fn func(ctx context.Context, s Shard) error) error {
	r, err := newRunner(m, o, fn)
	if err == nil {
		here := place{r.access, r.dir}
		if _, other := running.LoadOrStore(here, true); other {
			err = fmt.Errorf("%w: wait until that call of Run has returned, or give this one a Manager of its own", ErrRunning)
		} else {
			defer running.Delete(here)
			err = r.agree(ctx)
		}
	}
	if err != nil {
		return access.Error(m.Access(), "shards", o.Name, err)
	}
	return r.run(ctx)
}

// running has the place of each call of Run: see ErrRunning.
var running sync.Map

// A place is where a Manager has shards.
type place struct {
	access manager.Access
	dir    string
}

func newRunner(m *manager.Manager, o Options, fn func(context.Context, Shard) error) (*runner, error) {
	switch {
	case o.N < 1 || o.N > MaxShards:
		return nil, fmt.Errorf("%w: %d shards; there must be 1 to %d", manager.ErrBadConfig, o.N, MaxShards)
	case o.Settle < 0 || o.Grace < 0:
		return nil, fmt.Errorf("%w: Settle and Grace must not be negative", manager.ErrBadConfig)
	}
	r := &runner{
		access: m.Access(), name: o.Name, id: o.ID, fn: fn,
		settle: min(cmp.Or(o.Settle, defaultSettle), math.MaxInt64/restless), grace: cmp.Or(o.Grace, defaultGrace),
		mine: make([]bool, o.N), deputies: make([]deputy, o.N), silent: make(map[string]time.Time), workers: make(map[int]*worker), ended: make(chan *worker),
	}
	if r.id == "" {
		r.id = r.access.GUID()
	}
	var err error
	if r.dir, err = r.access.Path(o.Name); err != nil {
		return nil, err
	}
	if r.group, err = members.New(m, o.Name+"/members"); err != nil {
		return nil, err
	}
	for i := range o.N {
		lock, err := m.Exclusive(o.Name + "/shards/" + strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		if err := lock.SetLinger(0); err != nil { // who has given a shard up has it no longer
			return nil, err
		}
		r.locks = append(r.locks, lock)
	}
	return r, nil
}

// A spec is what all processes must agree on. It is in the node spec.
type spec struct {
	Shards    int    `json:"shards"`
	Algorithm string `json:"algorithm"`
}

// agree makes the node spec, or checks that it says what we would have it say.
func (r *runner) agree(ctx context.Context) error {
	ours, err := json.Marshal(spec{len(r.locks), algorithm})
	if err != nil {
		return err
	}
	path := r.dir + "/spec"
	theirs, err := access.Ask(ctx, r.access, func(s *zkio.Session) ([]byte, error) {
		theirs, _, err := s.Get(path)
		if !errors.Is(err, zkio.ErrNoNode) {
			return theirs, err
		}
		if err = s.EnsureDir(r.dir, r.access.ACL()); err == nil {
			err = s.Create(path, ours, r.access.ACL())
		}
		if errors.Is(err, zkio.ErrNodeExists) || errors.Is(err, zkio.ErrNoNode) {
			err = fmt.Errorf("%w: %w", zkio.ErrNotSent, err) // look again
		}
		return ours, err
	})
	if err == nil && !bytes.Equal(theirs, ours) {
		err = fmt.Errorf("%w: %s says %s, and this process %s; to divide them anew, stop all processes that do, and delete that node", ErrMismatch, path, theirs, ours)
	}
	return err
}

// why returns what has ended Run, which no fn has.
func (r *runner) why(ctx context.Context) error {
	err := manager.ErrClosed
	if ctx.Err() != nil {
		err = ctxerr.Of(ctx)
	}
	return access.Error(r.access, "shards", r.name, err)
}
