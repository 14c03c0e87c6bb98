// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/own"
	"github.com/holdfast-go/holdfast/zkio"
)

// MaxPermits is the largest number of permits that a semaphore can have.
const MaxPermits = 1000

// The conditions that the package reports, besides those of package manager. Each is
// wrapped in a [*manager.Error]; test for it with [errors.Is].
var (
	// ErrNoPermits is returned by [Semaphore.TryLock] when too few permits are free.
	ErrNoPermits = errors.New("not enough permits are free")
	// ErrTooMany says that a caller wants more permits than the semaphore has, so it
	// would wait for ever.
	ErrTooMany = errors.New("the semaphore does not have that many permits")
	// ErrMismatch says that the semaphore in ZooKeeper does not have the number of permits
	// that Options say. The processes are configured differently, or [Semaphore.Resize] has
	// changed the number since. The text has both numbers.
	ErrMismatch = errors.New("the semaphore has another number of permits")
	// ErrLost says that permits were lost that were not released. Other processes may have
	// them. Stop the work that they are for.
	ErrLost = errors.New("permits were lost")
)

// Options are what all processes that use a semaphore must agree on.
type Options struct {
	// Permits is how many permits the semaphore has, from 1 to MaxPermits. The first process
	// that uses the semaphore writes the number to ZooKeeper; one that finds another number
	// there gets ErrMismatch. 0 takes whatever number is there.
	Permits int
}

// A Semaphore has a number of permits, which processes acquire and release. All methods
// may be called concurrently.
type Semaphore struct {
	access manager.Access
	name   string
	dir    string         // its directory in ZooKeeper
	leases string         // the directory below it that has a node for each permit in use
	number string         // the node below it that has the number of permits
	locks  *manager.Mutex // the line of those who wait
	keeper *own.Keeper

	// lookout has a value while one of the requests that wait in line is the one that looks
	// whether the line stands still. A channel serves those that wait for it in order.
	lookout chan struct{}
	head    place     // of the line, as the last look saw it; only the request that looks uses it
	since   time.Time // when a look saw it so first

	known  atomic.Pointer[size] // the number of permits as last read; nil if it must be read
	expect atomic.Int64         // the number that ZooKeeper must have, or that is written if it has none; 0: any
	agreed atomic.Bool          // ZooKeeper had the number that Options say, so it may change from now on
}

// New returns the semaphore called name: a slash-separated path, as for
// [manager.Manager.Exclusive], which no lock may have. New does no I/O. Its errors are
// [manager.ErrBadName], [manager.ErrBadConfig], [manager.ErrKind] and [manager.ErrClosed].
func New(m *manager.Manager, name string, o Options) (*Semaphore, error) {
	a := m.Access()
	dir, err := a.Path(name)
	if err == nil && (o.Permits < 0 || o.Permits > MaxPermits) {
		err = fmt.Errorf("%w: Permits is %d, want 1 to %d, or 0", manager.ErrBadConfig, o.Permits, MaxPermits)
	}
	if err != nil {
		return nil, access.Error(a, "semaphore", name, err)
	}
	locks, err := m.Mutex(name + "/locks")
	if err != nil {
		return nil, err
	}
	s := &Semaphore{
		access: a,
		name:   name,
		dir:    dir,
		leases: dir + "/leases",
		number: dir + "/permits",
		locks:  locks,
		keeper: own.NewKeeper(a, ErrLost),

		lookout: make(chan struct{}, 1),
	}
	s.expect.Store(int64(o.Permits))
	return s, nil
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// Path returns the semaphore's directory in ZooKeeper.
func (s *Semaphore) Path() string { return s.dir }

// Acquire asks for w permits, all of them or none. It never blocks and does no I/O. The
// Permits that it returns are pending; [Permits.Granted] settles when they are granted.
// Release them in either case.
//
// Those who wait get their permits in order: the goroutines of a process in the order of
// their calls, and the processes in the order in which they began to wait. A caller
// that wants many permits is not overtaken by one that wants few.
//
// If ctx ends before the grant, Granted fails with an error that wraps ctx.Err() and
// context.Cause(ctx), and nothing is left in ZooKeeper. After the grant ctx has no effect.
// Granted also fails with [ErrTooMany], [ErrMismatch], [manager.ErrClosed], and what
// ZooKeeper refuses.
func (s *Semaphore) Acquire(ctx context.Context, w int) *Permits {
	return s.start(ctx, "acquire", w)
}

// Lock is Acquire that waits. It blocks until the permits are granted, or fails as Granted
// does, and leaves nothing behind.
func (s *Semaphore) Lock(ctx context.Context, w int) (*Permits, error) {
	return s.start(ctx, "lock", w).wait()
}

// TryLock acquires w permits if so many are free. Otherwise it returns [ErrNoPermits]. It
// does not line up: it can get permits ahead of processes that are about to ask for theirs,
// but not while one waits because too few are free. TryLock blocks until ZooKeeper has
// answered or ctx ends, and fails as [Semaphore.Lock] does.
func (s *Semaphore) TryLock(ctx context.Context, w int) (*Permits, error) {
	return s.start(ctx, opTryLock, w).wait()
}

const opTryLock = "trylock"

// start returns pending permits, which a goroutine of their own is about to acquire.
func (s *Semaphore) start(ctx context.Context, op string, w int) *Permits {
	p, pending := newPermits(ctx, s, op, w)
	r := &request{Permits: p, sem: s, access: s.access, ctx: pending}
	switch {
	case ctx.Err() != nil:
		r.finish(ctxerr.Of(ctx))
		return p
	case s.access.Accepting().Err() != nil:
		r.finish(manager.ErrClosed)
		return p
	case w < 1:
		r.finish(fmt.Errorf("%w: %d permits", zkio.ErrBadArguments, w))
		return p
	case w > MaxPermits:
		r.finish(fmt.Errorf("%w: %d, and none can have more than %d", ErrTooMany, w, MaxPermits))
		return p
	}
	// A caller that gives up is told at once; the goroutine has to clean up first.
	r.stop = context.AfterFunc(pending, func() { p.fail(ctxerr.Of(pending)) })
	s.access.Go(r.run)
	return p
}

// remove deletes the nodes of c, or as many as there are. It blocks until they are gone or
// will go with their session, ZooKeeper refuses, or the manager is closed.
func (s *Semaphore) remove(c *claim) error {
	if !c.sent {
		return nil
	}
	return access.Tell(s.access, func(session *zkio.Session) error {
		if c.session.Gone() {
			return nil
		}
		return c.remove(session)
	})
}

func (s *Semaphore) error(op string, err error) error { return access.Error(s.access, op, s.name, err) }
