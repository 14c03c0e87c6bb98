// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
)

// holdfast is Holdfast as a subject. Each session is a Manager.
type holdfast struct {
	version string
	wait    bool          // Unlock waits until the node is deleted, as the peers' does
	pairs   pairs         // of Reenter
	mutex   bool          // its locks exclude the goroutines of a process as well
	linger  time.Duration // Config.Linger

	sentinel bool // a process that is killed has its session closed
}

func (h holdfast) Version() string { return h.version }

func (h holdfast) Open(ctx context.Context, server string) (work.Session, error) {
	return h.open(ctx, server, manager.Config{Linger: h.linger})
}

// open opens a Manager with a configuration that it completes.
func (h holdfast) open(ctx context.Context, server string, cfg manager.Config) (*holdfastSession, error) {
	cfg.Servers, cfg.Root, cfg.Logger = strings.Split(server, ","), "/", slog.New(slog.DiscardHandler)
	if h.sentinel {
		helper, err := sentinel.Start(sentinel.Config{Logger: cfg.Logger})
		if err != nil {
			return nil, err
		}
		cfg.Sentinel = helper
	}
	m, err := manager.Open(ctx, cfg)
	if err != nil && cfg.Sentinel != nil {
		cfg.Sentinel.Close()
	}
	return &holdfastSession{holdfast: h, m: m, helper: cfg.Sentinel}, err
}

type holdfastSession struct {
	holdfast
	m         *manager.Manager
	helper    *sentinel.Sentinel
	reentered []*manager.Lock
}

func (s *holdfastSession) Close() error {
	err := s.m.Close()
	if s.helper != nil {
		s.helper.Close()
	}
	return err
}

// lock returns the lock at a path /bench/…, which is its name below Root.
func (s *holdfastSession) lock(p string) (*manager.Lock, error) { return s.m.Exclusive(p[1:]) }

func (s *holdfastSession) Locker(p string) (work.Locker, error) {
	if s.mutex {
		mu, err := s.m.Mutex(p[1:])
		return &holdfastLocker{lock: mu}, err
	}
	l, err := s.lock(p)
	return &holdfastLocker{lock: l, wait: s.wait}, err
}

func (s *holdfastSession) ReadLocker(p string) (work.Locker, error) {
	rw, err := s.m.ReadWrite(p[1:])
	if err != nil {
		return nil, err
	}
	return &holdfastLocker{lock: rw.Reader(), wait: s.wait}, nil
}

// exclusives returns the locks at these paths.
func (s *holdfastSession) exclusives(paths []string) ([]*manager.Lock, error) {
	locks := make([]*manager.Lock, len(paths))
	for i, p := range paths {
		var err error
		if locks[i], err = s.lock(p); err != nil {
			return nil, err
		}
	}
	return locks, nil
}

// All takes several locks at once by LockAll.
func (s *holdfastSession) All(paths []string) (work.Locker, error) {
	locks, err := s.exclusives(paths)
	return &holdfastAll{m: s.m, locks: locks}, err
}

type holdfastAll struct {
	m     *manager.Manager
	locks []*manager.Lock
	holds manager.Holds
}

func (a *holdfastAll) Lock(ctx context.Context) (err error) {
	a.holds, err = a.m.LockAll(ctx, a.locks...)
	return err
}

func (a *holdfastAll) Unlock(ctx context.Context) error { return a.holds.Unlock(ctx) }

// holdfastLocker is a Lock or a Mutex.
type holdfastLocker struct {
	lock interface {
		Lock(ctx context.Context) (manager.Hold, error)
	}
	wait bool
	hold manager.Hold
}

func (l *holdfastLocker) Lock(ctx context.Context) (err error) {
	l.hold, err = l.lock.Lock(ctx)
	return err
}

func (l *holdfastLocker) Unlock(ctx context.Context) error {
	if l.wait {
		return l.hold.Unlock(ctx)
	}
	l.hold.Release()
	return nil
}

// Reenter holds the lock, so that pairs enters and leaves it without the network.
func (s *holdfastSession) Reenter(ctx context.Context, p string) (func(int) error, error) {
	l, err := s.lock(p)
	if err != nil {
		return nil, err
	}
	h, err := l.Lock(ctx)
	if err != nil {
		return nil, err
	}
	s.reentered = append(s.reentered, l)
	return func(n int) error { return s.pairs(n, l, h) }, nil
}

// pairs does n pairs on a lock that h holds.
type pairs func(n int, l *manager.Lock, h manager.Hold) error

func acquireRelease(n int, l *manager.Lock, h manager.Hold) error {
	ctx := context.Background()
	for range n {
		l.Acquire(ctx).Release()
	}
	return h.Err()
}

func lockRelease(n int, l *manager.Lock, _ manager.Hold) error {
	ctx := context.Background()
	for range n {
		again, err := l.Lock(ctx)
		if err != nil {
			return err
		}
		again.Release()
	}
	return nil
}

// doing does pairs by Do of this function.
func doing(f func(context.Context, manager.Hold) error) pairs {
	return func(n int, l *manager.Lock, _ manager.Hold) error {
		ctx := context.Background()
		for range n {
			if err := l.Do(ctx, f); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkErr checks one hold throughout.
func checkErr(n int, _ *manager.Lock, h manager.Hold) error {
	for range n {
		if err := h.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns how many races were lost on the locks of Reenter.
func (s *holdfastSession) Lost() (n uint64) {
	seen := make(map[*manager.Lock]bool)
	for _, l := range s.reentered {
		if !seen[l] {
			seen[l] = true
			n += l.Stats().LostRaces
		}
	}
	return n
}

// Special returns what is measured of Holdfast only, or in a way of its own.
func (h holdfast) Special() map[string]func(context.Context, work.Job) (work.Result, error) {
	return map[string]func(context.Context, work.Job) (work.Result, error){
		work.Many: h.many, work.Footprint: h.footprint, work.Own: h.own, work.Expire: h.expire,
	}
}

// take acquires all locks at once, into holds. Its context cannot end: that would add some
// 400 bytes to each hold.
func take(holds []manager.Hold, locks []*manager.Lock) {
	for i, l := range locks {
		holds[i] = l.Acquire(context.Background())
	}
}

// granted waits until all holds are granted. It begins with the last: when that is
// granted, most others are. Each hold that it has to wait for gets a channel, which
// is 120 bytes.
func granted(ctx context.Context, holds []manager.Hold) error {
	for _, h := range slices.Backward(holds) {
		if _, err := h.Granted().Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// releaseAll releases all holds and waits until their nodes are deleted.
func releaseAll(ctx context.Context, holds []manager.Hold) error {
	for _, h := range holds {
		h.Release()
	}
	for _, h := range holds {
		if _, err := h.Released().Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// use takes all locks at once and releases them.
func use(ctx context.Context, locks []*manager.Lock) error {
	holds := make([]manager.Hold, len(locks))
	take(holds, locks)
	return errors.Join(granted(ctx, holds), releaseAll(ctx, holds))
}

// many acquires all locks from one goroutine and releases each as soon as it is
// granted.
func (h holdfast) many(ctx context.Context, j work.Job) (r work.Result, err error) {
	s, err := h.open(ctx, j.Server, manager.Config{})
	if err != nil {
		return r, err
	}
	defer s.Close()
	locks, err := s.exclusives(j.Paths(j.Locks))
	if err != nil {
		return r, err
	}
	if j.Made {
		if err := use(ctx, locks); err != nil { // which makes the directories
			return r, err
		}
	}
	before, most := runtime.NumGoroutine(), 0
	holds := make([]manager.Hold, len(locks))
	began := time.Now()
	take(holds, locks)
	for i, h := range holds {
		if _, err := h.Granted().Wait(ctx); err != nil {
			return r, err
		}
		h.Release()
		if i%100 == 0 {
			most = max(most, runtime.NumGoroutine())
		}
	}
	if err := releaseAll(ctx, holds); err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Entries = int64(len(locks))
	r.Extra = map[string]float64{"goroutines": float64(most), "goroutines at rest": float64(before)}
	return r, nil
}

// warm opens a session and uses some other locks, so that everything that a session
// allocates once has been allocated.
func (h holdfast) warm(ctx context.Context, j work.Job, name string) (*holdfastSession, error) {
	s, err := h.open(ctx, j.Server, manager.Config{})
	if err != nil {
		return nil, err
	}
	j.Dir += "/warm-" + name
	locks, err := s.exclusives(j.Paths(100))
	if err == nil {
		err = use(ctx, locks)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// footprint measures the memory of a lock by how much the heap and the goroutines'
// stacks grow with many locks.
func (h holdfast) footprint(ctx context.Context, j work.Job) (r work.Result, err error) {
	owner, err := h.warm(ctx, j, "owner")
	if err != nil {
		return r, err
	}
	defer owner.Close()
	other, err := h.warm(ctx, j, "other")
	if err != nil {
		return r, err
	}
	defer other.Close()
	held, queued := make([]manager.Hold, j.Locks), make([]manager.Hold, j.Locks) // not the locks' memory
	before := inUse()
	owners, err := owner.exclusives(j.Paths(j.Locks))
	if err != nil {
		return r, err
	}
	others, err := other.exclusives(j.Paths(j.Locks))
	if err != nil {
		return r, err
	}
	idle := inUse()
	take(held, owners)
	if err := granted(ctx, held); err != nil {
		return r, err
	}
	if err := work.Sleep(ctx, 3*time.Second); err != nil { // until each has looked at its queue
		return r, err
	}
	afterHeld := inUse()
	allQueued, err := awaitQueued(ctx, j)
	if err != nil {
		return r, err
	}
	take(queued, others)
	if err := allQueued(); err != nil {
		return r, err
	}
	if err := work.Sleep(ctx, time.Second); err != nil { // until no contender has anything to do
		return r, err
	}
	n := float64(j.Locks)
	each := (idle - before) / (2 * n)
	r.Extra = map[string]float64{
		"idle":   each,
		"held":   each + (afterHeld-idle)/n,
		"queued": each + (inUse()-afterHeld)/n,
	}
	runtime.KeepAlive(queued)
	return r, errors.Join(releaseAll(ctx, held), granted(ctx, queued), releaseAll(ctx, queued))
}

// inUse returns the bytes in use by the heap and the goroutines' stacks.
func inUse() float64 {
	runtime.GC()
	runtime.GC() // frees objects with finalizers or cleanups
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
