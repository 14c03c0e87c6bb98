// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/holdfast-go/holdfast/adapters/internal/losses"
	"github.com/holdfast-go/holdfast/manager"
)

var _ database.Driver = (*Driver)(nil)

// A Config says how a [Driver] behaves. The zero Config is ready to use.
type Config struct {
	// Alone leaves the lock of the database out.
	Alone bool

	// Timeout is how long Lock waits for Holdfast's lock. It must be shorter than LockTimeout of
	// migrate.Migrate, by as long as the database's lock may wait: migrate forgets a Lock
	// that takes longer, and never calls Unlock for it.
	// Defaults to 10 s; migrate.DefaultLockTimeout is 15 s.
	Timeout time.Duration

	// OnLost is called when the lock is lost before Unlock, on a goroutine of its own. err
	// wraps manager.ErrLost or manager.ErrClosed.
	// Defaults to none.
	OnLost func(err error)
}

// A Driver is a database.Driver that takes a lock of Holdfast. Several drivers of one process
// exclude each other, too. As of any driver, one migrate.Migrate uses it at a time.
type Driver struct {
	inner database.Driver
	mutex *manager.Mutex
	cfg   Config

	mu      sync.Mutex              // protects what follows, for a few instructions only
	locked  bool                    // from the beginning of Lock to that of Unlock
	end     context.CancelCauseFunc // ends the Lock that waits; nil if none does
	closed  bool
	hold    manager.Hold
	unwatch losses.Unwatch
}

// New returns a driver that does what inner does, under the lock called name. It does no
// I/O. The errors are manager.ErrBadName, manager.ErrKind, and manager.ErrClosed.
func New(inner database.Driver, m *manager.Manager, name string, cfg Config) (*Driver, error) {
	mutex, err := m.Mutex(name)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Driver{inner: inner, mutex: mutex, cfg: cfg}, nil
}

// Open opens the wrapped driver with url, which is as that driver expects it, and returns it
// with the same lock.
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.inner.Open(url)
	if err != nil {
		return nil, err
	}
	return &Driver{inner: inner, mutex: d.mutex, cfg: d.cfg}, nil
}

// Close gives the lock up, if there is one, without waiting for ZooKeeper, and closes the wrapped
// driver. A Lock that waits fails, and so does each later one.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	end := d.end
	d.mu.Unlock()
	if end != nil {
		end(errClosed)
	}
	if hold, gaveUp, ok := d.take(); ok {
		gaveUp(hold.Leave()) // the release is under way
	}
	return d.inner.Close()
}

// Lock takes Holdfast's lock, and then, unless Config.Alone is set, that of the database. It
// blocks for Config.Timeout at most, and for as long as the database's lock does. The error wraps
// database.ErrLocked if another process, or another driver of this one, has the lock, or
// if this driver has it. Nothing is locked, and no request left in the queue, after an error,
// nor if Close was called meanwhile, as migrate does after a Lock that took too long for it.
func (d *Driver) Lock() error {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	d.mu.Lock()
	locked, closed := d.locked, d.closed
	if !locked && !closed {
		d.locked, d.end = true, end
	}
	d.mu.Unlock()
	switch {
	case closed:
		return d.closedError()
	case locked:
		return database.ErrLocked
	}
	hold, err := d.acquire(ctx)
	if err == nil && !d.cfg.Alone {
		if err = d.inner.Lock(); err != nil {
			hold.Release()
		}
	}
	var unwatch losses.Unwatch
	if err == nil {
		unwatch = losses.Watch(hold, d.cfg.OnLost)
	}
	d.mu.Lock()
	closed = d.closed
	d.end, d.locked = nil, err == nil && !closed
	if d.locked {
		d.hold, d.unwatch = hold, unwatch
	}
	d.mu.Unlock()
	if err == nil && closed {
		// No Unlock will follow.
		unwatch()
		if !d.cfg.Alone {
			_ = d.inner.Unlock() // if it was locked before it was closed
		}
		hold.Release()
		return d.closedError()
	}
	return err
}

var errClosed = errors.New("the driver is closed")

func (d *Driver) closedError() error {
	return fmt.Errorf("migrate: locking %q: %w", d.mutex.Name(), errClosed)
}

func (d *Driver) acquire(ctx context.Context) (manager.Hold, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Timeout, fmt.Errorf("the lock was not free within %v", d.cfg.Timeout))
	defer cancel()
	hold, err := d.mutex.Lock(ctx)
	if e, ok := errors.AsType[*manager.Error](err); ok && (e.Holder != nil || e.Ahead != nil || errors.Is(err, manager.ErrLocked)) {
		err = fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	return hold, err
}

// Unlock gives up what Lock has taken, in reverse order, whatever it returns. It waits for
// ZooKeeper for one session timeout at most. The error wraps database.ErrNotLocked if
// there was no Lock, and manager.ErrLost if the lock was lost, so that migrations of another
// process may have run beside ours; or it is that of the database. It is nil if ZooKeeper has
// not answered in time: the migrations were protected, and the lock is free when the session
// ends at the latest. migrate.Migrate would take itself for locked ever after.
func (d *Driver) Unlock() error {
	hold, gaveUp, ok := d.take()
	if !ok {
		return database.ErrNotLocked
	}
	var inner error
	if !d.cfg.Alone {
		inner = d.inner.Unlock()
	}
	err := hold.Unlock(context.Background())
	gaveUp(err)
	switch {
	case err == nil, errors.Is(err, manager.ErrUnconfirmed):
		return inner
	case inner == nil:
		return err
	default:
		return fmt.Errorf("%w; and the database: %w", err, inner)
	}
}

// take returns the hold and forgets it. ok is false if nothing is locked. gaveUp is the
// Unwatch's.
func (d *Driver) take() (hold manager.Hold, gaveUp func(err error), ok bool) {
	d.mu.Lock()
	hold, unwatch := d.hold, d.unwatch
	if unwatch != nil {
		d.hold, d.unwatch, d.locked = manager.Hold{}, nil, false
	}
	d.mu.Unlock()
	if unwatch == nil {
		return hold, nil, false
	}
	return hold, unwatch(), true
}

// Hold returns the hold of the lock, or, if there is none, the zero Hold, which reports
// manager.ErrReleased. It does not block.
func (d *Driver) Hold() manager.Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hold
}

// lost returns an error if the lock was lost since Lock. It reads the clock.
func (d *Driver) lost() error {
	if err := d.Hold().Err(); !errors.Is(err, manager.ErrReleased) {
		return err
	}
	return nil
}

// Run runs a migration, unless the lock was lost since Lock: then the error wraps
// manager.ErrLost.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.inner.Run(migration)
}

// SetVersion sets the version. If dirty is set, a migration is about to begin, and SetVersion
// fails with manager.ErrLost if the lock was lost since Lock.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil && dirty {
		return err
	}
	return d.inner.SetVersion(version, dirty)
}

// Version returns the version.
func (d *Driver) Version() (version int, dirty bool, err error) { return d.inner.Version() }

// Drop deletes everything in the database, unless the lock was lost since Lock: then the error
// wraps manager.ErrLost.
func (d *Driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.inner.Drop()
}
