// SPDX-License-Identifier: Apache-2.0

package goose

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/adapters/internal/losses"
	"github.com/holdfast-go/holdfast/manager"
)

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// A Config says how a [Locker] behaves. The zero Config is ready to use.
type Config struct {
	// Timeout is how long Lock waits for the lock. If it is negative, only the context ends
	// the wait.
	// Defaults to 5 minutes, as goose's own lockers do.
	Timeout time.Duration

	// OnLost is called when the lock is lost before Unlock, on a goroutine of its own. err
	// wraps manager.ErrLost or manager.ErrClosed.
	// Defaults to none.
	OnLost func(err error)
}

// A Locker is a lock.Locker and a lock.SessionLocker for one database. All methods may be
// called concurrently, and several providers of one process can have the same one: they
// exclude each other, too.
type Locker struct {
	mutex *manager.Mutex
	cfg   Config

	mu      sync.Mutex // protects what follows, for a few instructions only
	hold    manager.Hold
	unwatch losses.Unwatch
}

// New returns a Locker for the lock called name. It does no I/O. The errors are
// manager.ErrBadName, manager.ErrKind, and manager.ErrClosed.
func New(m *manager.Manager, name string, cfg Config) (*Locker, error) {
	mutex, err := m.Mutex(name)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute
	}
	return &Locker{mutex: mutex, cfg: cfg}, nil
}

// Lock waits for the lock, behind the processes that have asked before, and behind the other
// providers of this process. It blocks for Config.Timeout at most, and until ctx ends. Then no request is
// left in the queue. The error is a *manager.Error that names the process that has the
// lock, and wraps the error of ctx, or context.DeadlineExceeded. Lock does not use the database.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	if l.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.cfg.Timeout, fmt.Errorf("the lock was not free within %v", l.cfg.Timeout))
		defer cancel()
	}
	hold, err := l.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	unwatch := losses.Watch(hold, l.cfg.OnLost)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold, l.unwatch = hold, unwatch
	return nil
}

// Unlock gives the lock up. It blocks until ZooKeeper has confirmed that, for one session timeout
// at most, and until ctx ends. The lock is given up in any case. The error is
// manager.ErrLost if the lock was lost, so that migrations of another process may have run
// beside ours; manager.ErrUnconfirmed if ZooKeeper has not answered, which did no harm to the
// migrations; and manager.ErrReleased if it was not locked. goose returns it.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	hold, unwatch := l.hold, l.unwatch
	l.hold, l.unwatch = manager.Hold{}, nil
	l.mu.Unlock()
	if unwatch == nil {
		return fmt.Errorf("goose: unlocking %q, which is not locked: %w", l.mutex.Name(), manager.ErrReleased)
	}
	gaveUp := unwatch()
	err := hold.Unlock(ctx)
	gaveUp(err)
	return err
}

// SessionLock is Lock. It does not use the connection.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.Lock(ctx, nil) }

// SessionUnlock is Unlock. It does not use the connection.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.Unlock(ctx, nil) }

// Hold returns the hold of the provider that migrates, or, if none does, the zero Hold, which
// reports manager.ErrReleased. A migration written in Go gets the fencing token
// from it. Hold does not block.
func (l *Locker) Hold() manager.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold
}
