// SPDX-License-Identifier: Apache-2.0

package certmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/adapters/internal/losses"
	"github.com/holdfast-go/holdfast/manager"
)

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// A Config says how the locks of a [Storage] behave. The zero Config is ready to use.
type Config struct {
	// Prefix is what the locks' names begin with. Certmagic's name of a lock follows it, as
	// one segment (see manager.Escape).
	// Defaults to "certmagic/".
	Prefix string

	// OnLost is called when a lock is lost before Unlock, on a goroutine of its own. name is
	// certmagic's name of it, and err wraps manager.ErrLost or manager.ErrClosed.
	// Defaults to none.
	OnLost func(name string, err error)
}

// A Storage is a certmagic.Storage with locks of Holdfast. All methods may be called
// concurrently, as far as those of the wrapped storage may.
type Storage struct {
	certmagic.Storage // all but the locks

	m   *manager.Manager
	cfg Config

	mu    sync.Mutex // protects what follows, for a few instructions only
	locks map[string]lock
}

// A lock is what this process holds under one of certmagic's names.
type lock struct {
	hold    manager.Hold
	unwatch losses.Unwatch
	told    bool // of its loss, by RenewLockLease
}

// New returns a storage that stores in files, and takes its locks from m. It does no I/O. The error is
// manager.ErrBadName for a prefix that no name can begin with.
func New(files certmagic.Storage, m *manager.Manager, cfg Config) (*Storage, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "certmagic/"
	}
	if _, err := manager.LockPath("/", cfg.Prefix+"lock"); err != nil {
		return nil, fmt.Errorf("certmagic: prefix %q: %w", cfg.Prefix, err)
	}
	return &Storage{Storage: files, m: m, cfg: cfg, locks: map[string]lock{}}, nil
}

// String names the storage, for certmagic's logs.
func (s *Storage) String() string {
	return fmt.Sprintf("%v with the locks %s… of Holdfast", s.Storage, s.cfg.Prefix)
}

// Lock waits for the lock called name, behind the processes and goroutines that have asked before.
// It blocks until ctx ends at most. Then no request is left in the queue, and the
// error, a *manager.Error, names the process that has the lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	return s.take(name, manager.Hold{}, func(x *manager.Mutex) (manager.Hold, error) { return x.Lock(ctx) })
}

// TryLock takes the lock called name, and returns false without an error if another process or
// goroutine has it. It blocks until ZooKeeper has answered, or ctx ends.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.take(name, manager.Hold{}, func(x *manager.Mutex) (manager.Hold, error) { return x.TryLock(ctx) })
	if errors.Is(err, manager.ErrLocked) {
		return false, nil
	}
	return err == nil, err
}

// take has acquire take the lock called name. lost is the hold that the caller has lost, and has
// not unlocked, or else the zero Hold.
func (s *Storage) take(name string, lost manager.Hold, acquire func(*manager.Mutex) (manager.Hold, error)) error {
	mutex, err := s.m.Mutex(s.cfg.Prefix + manager.Escape(name))
	if err != nil {
		return err
	}
	hold, err := acquire(mutex)
	if err != nil {
		return err
	}
	l := lock{hold: hold, unwatch: s.watch(name, hold)}
	s.mu.Lock()
	mine := s.locks[name].hold == lost
	if mine {
		s.locks[name] = l
	}
	s.mu.Unlock()
	if !mine {
		l.unwatch()
		hold.Release()
		if lost != (manager.Hold{}) {
			// No Unlock would follow.
			return fmt.Errorf("certmagic: renewing %q: %w: it was unlocked meanwhile", name, manager.ErrReleased)
		}
		// The next Unlock is that of the goroutine that takes its lock anew.
		return fmt.Errorf("certmagic: locking %q: %w: a goroutine of this process has lost it, and takes it anew", name, manager.ErrLocked)
	}
	return nil
}

// Unlock gives the lock called name up. It blocks until ZooKeeper has confirmed that, for one
// session timeout at most, and until ctx ends. The lock is given up in any case. The error is
// manager.ErrUnconfirmed if ZooKeeper has not answered, and manager.ErrReleased if it was not
// locked. It is nil if the lock was lost, since certmagic wants an error only for a lock that
// may still be held: Config.OnLost and RenewLockLease tell of a loss.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l, ok := s.locks[name]
	delete(s.locks, name)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("certmagic: unlocking %q, which is not locked: %w", name, manager.ErrReleased)
	}
	gaveUp := l.unwatch()
	err := l.hold.Unlock(ctx)
	gaveUp(err)
	if errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrClosed) || errors.Is(err, manager.ErrReleased) {
		return nil // ErrReleased: RenewLockLease has released it, to take it anew
	}
	return err
}

// RenewLockLease returns nil if the lock called name is held. The manager keeps it, so that
// the duration does not matter. If the lock was lost, RenewLockLease returns manager.ErrLost once.
// When it is called again, it takes the lock anew, as Lock does, which blocks. The error is
// manager.ErrReleased if there was no Lock, or if Unlock was called meanwhile.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	l, ok := s.locks[name]
	err := l.hold.Err()
	if ok && err != nil && !l.told {
		told := l
		told.told = true
		s.locks[name] = told
	}
	s.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("certmagic: renewing %q, which is not locked: %w", name, manager.ErrReleased)
	case err == nil || !l.told:
		return err
	}
	l.unwatch()(err)
	l.hold.Release() // or this process could not take the lock again
	return s.take(name, l.hold, func(x *manager.Mutex) (manager.Hold, error) { return x.Lock(ctx) })
}

// Hold returns the hold of the lock called name, or, if this process does not have it, the
// zero Hold, which reports manager.ErrReleased. It does not block.
func (s *Storage) Hold(name string) manager.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks[name].hold
}

// watch has OnLost called when hold is lost, until it is given up.
func (s *Storage) watch(name string, hold manager.Hold) losses.Unwatch {
	if s.cfg.OnLost == nil {
		return losses.Watch(hold, nil)
	}
	return losses.Watch(hold, func(err error) { s.cfg.OnLost(name, err) })
}
