// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/adapters/internal/losses"
	"github.com/holdfast-go/holdfast/manager"
)

var _ gocron.Locker = (*Locker)(nil)

// A Config says how a [Locker] behaves. The zero Config is ready to use.
type Config struct {
	// Prefix is what the locks' names begin with. The job's name follows it, as one segment
	// (see manager.Escape).
	// Defaults to "gocron/".
	Prefix string

	// Splay is for how long a lock is kept at least, from the grant on, even if the job ends
	// earlier. It must be longer than the timers of the processes can be apart, and
	// shorter than the interval of every job, which would be skipped otherwise. A negative
	// Splay keeps no lock longer than its job runs.
	// Defaults to 500 ms.
	Splay time.Duration

	// Timeout is how long Lock waits for ZooKeeper's answer. When it is over, the job is
	// skipped, so that jobs do not pile up during an outage.
	// Defaults to 5 s.
	Timeout time.Duration

	// OnLost is called when a lock is lost while its job runs, on a goroutine of its own. key
	// is the job's name, and err wraps manager.ErrLost or manager.ErrClosed.
	// Defaults to none.
	OnLost func(key string, err error)
}

// A Locker is a gocron.Locker: the process that gets a job's lock runs the job. All methods
// may be called concurrently, and several schedulers of one process can have the same one:
// they exclude each other, too.
type Locker struct {
	m   *manager.Manager
	cfg Config

	mu    sync.Mutex // protects what follows, for a few instructions only
	holds map[string]manager.Hold
}

// New returns a Locker with the locks of m. It does no I/O. The error is
// manager.ErrBadName for a prefix that no name can begin with.
func New(m *manager.Manager, cfg Config) (*Locker, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "gocron/"
	}
	if cfg.Splay == 0 {
		cfg.Splay = 500 * time.Millisecond
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if _, err := manager.LockPath("/", cfg.Prefix+"job"); err != nil {
		return nil, fmt.Errorf("gocron: prefix %q: %w", cfg.Prefix, err)
	}
	return &Locker{m: m, cfg: cfg, holds: map[string]manager.Hold{}}, nil
}

// Lock takes the lock of the job called key, or fails without waiting for the process that
// has it. It blocks until ZooKeeper has answered, for Config.Timeout at most. The error is a
// *manager.Error: it wraps manager.ErrLocked, and names the other process, if another
// process has the lock. If ctx or the time ended first, it wraps ctx's error, and no
// request is left in the queue.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	mutex, err := l.m.Mutex(l.cfg.Prefix + manager.Escape(key))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.Timeout, fmt.Errorf("ZooKeeper has not answered within %v", l.cfg.Timeout))
	defer cancel()
	hold, err := mutex.TryLock(ctx)
	if err != nil {
		return nil, err
	}
	k := &lock{locker: l, key: key, hold: hold, since: time.Now(), unwatch: l.watch(key, hold)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds[key] = hold
	return k, nil
}

// Hold returns the hold of the job called key, while this process runs it, and else the zero
// Hold, which reports manager.ErrReleased. A job gets its context and its fencing token from it. Hold
// does not block.
func (l *Locker) Hold(key string) manager.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holds[key]
}

// watch has OnLost called when hold is lost, until it is given up.
func (l *Locker) watch(key string, hold manager.Hold) losses.Unwatch {
	if l.cfg.OnLost == nil {
		return losses.Watch(hold, nil)
	}
	return losses.Watch(hold, func(err error) { l.cfg.OnLost(key, err) })
}

// A lock is what one run of a job holds.
type lock struct {
	locker  *Locker
	key     string
	hold    manager.Hold
	since   time.Time
	unwatch losses.Unwatch
	done    atomic.Bool
}

// Unlock gives the lock up, at once if it was held for Config.Splay, and else when that
// is over. ctx may have ended: gocron's does when a scheduler shuts down. Unlock waits for
// ZooKeeper for one session timeout at most. The error is manager.ErrLost if the lock was
// lost, manager.ErrUnconfirmed if ZooKeeper has not answered, and manager.ErrReleased if
// Unlock was called before. gocron ignores it, so OnLost is told of a loss that it does not know.
func (k *lock) Unlock(ctx context.Context) error {
	if !k.done.CompareAndSwap(false, true) {
		return fmt.Errorf("gocron: unlocking %q again: %w", k.key, manager.ErrReleased)
	}
	gaveUp := k.unwatch()
	k.locker.mu.Lock()
	delete(k.locker.holds, k.key)
	k.locker.mu.Unlock()
	if rest := k.locker.cfg.Splay - time.Since(k.since); rest > 0 && k.hold.Err() == nil {
		time.AfterFunc(rest, func() { k.hold.Release() }) // which does not block
		return nil
	}
	err := k.hold.Unlock(context.WithoutCancel(ctx))
	gaveUp(err)
	return err
}
