// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// local is what Go programs use inside a process. It is what a lock that its process
// holds is compared with.
type local struct {
	version string
	open    func() *localSession
}

// locals has the subjects that are local.
var locals = map[string]local{
	limitCAS: {"two bare compare-and-swaps", func() *localSession {
		w := new(padded[word])
		return &localSession{pairs: w.v.pairs, lost: &w.v.lost}
	}},
	limitBusy: {"two compare-and-swaps, and three of a word of the goroutine's own between them", func() *localSession {
		w := new(padded[word])
		return &localSession{pairs: w.v.busyPairs, lost: &w.v.lost}
	}},
	limitContext: {"context.WithCancelCause and WithValue", func() *localSession {
		return &localSession{pairs: func(n int, _ bool) {
			for range n {
				_, cancel := newContext()
				cancel(nil)
			}
		}}
	}},
	limitDone: {"context.WithCancelCause and WithValue, with Done", func() *localSession {
		return &localSession{pairs: func(n int, _ bool) {
			for range n {
				ctx, cancel := newContext()
				ctx.Done()
				cancel(nil)
			}
		}}
	}},
	limitRWMutex: {"sync.RWMutex, RLock and RUnlock", func() *localSession {
		var mu padded[sync.RWMutex]
		return &localSession{pairs: func(n int, _ bool) {
			for range n {
				mu.v.RLock()
				inside()
				mu.v.RUnlock()
			}
		}}
	}},
	limitMutex: {"sync.Mutex, Lock and Unlock", func() *localSession {
		var mu padded[sync.Mutex]
		return &localSession{shared: &mutexLocker{}, pairs: func(n int, _ bool) {
			for range n {
				mu.v.Lock()
				inside()
				mu.v.Unlock()
			}
		}}
	}},
	limitSemaphore: {"golang.org/x/sync/semaphore, Acquire and Release", func() *localSession {
		s := semaphore.NewWeighted(math.MaxInt64)
		ctx := context.Background()
		return &localSession{pairs: func(n int, _ bool) {
			for range n {
				if err := s.Acquire(ctx, 1); err != nil {
					panic(err) // the context has no end
				}
				s.Release(1)
			}
		}}
	}},
	limitClock: {"time.Now", func() *localSession {
		return &localSession{pairs: func(n int, _ bool) {
			var last time.Time
			for range n {
				last = time.Now()
			}
			if last.IsZero() {
				panic("no time has passed since year 1")
			}
		}}
	}},
}

// inside is where a user of a lock would do something. The compiler removes its calls.
func inside() {}

// padded is alone on its cache lines.
type padded[T any] struct {
	_ [64]byte
	v T
	_ [64]byte
}

func (l local) Version() string { return l.version }

func (l local) Open(context.Context, string) (work.Session, error) { return l.open(), nil }

type localSession struct {
	// pairs takes and releases a lock n times. It may be called concurrently, unless
	// alone is set.
	pairs func(n int, alone bool)
	// shared is a lock that one goroutine at a time can have; nil if there is none.
	shared work.Locker
	lost   *atomic.Uint64 // counts failed compare-and-swaps; may be nil

	workers atomic.Int32 // of Reenter
}

func (*localSession) Close() error { return nil }

// Locker returns the same lock whatever the path is: a job takes one.
func (s *localSession) Locker(string) (work.Locker, error) {
	if s.shared == nil {
		return nil, fmt.Errorf("%w: it does not exclude goroutines", work.ErrUnsupported)
	}
	return s.shared, nil
}

func (s *localSession) Reenter(ctx context.Context, _ string) (pairs func(int) error, err error) {
	s.workers.Add(1)
	return func(n int) error {
		s.pairs(n, s.workers.Load() == 1)
		return nil
	}, ctx.Err()
}

func (s *localSession) Lost() uint64 {
	if s.lost == nil {
		return 0
	}
	return s.lost.Load()
}

// mutexLocker is a sync.Mutex, whose Lock ignores the end of the context.
type mutexLocker struct{ mu sync.Mutex }

func (l *mutexLocker) Lock(context.Context) error { l.mu.Lock(); return nil }

func (l *mutexLocker) Unlock(context.Context) error { l.mu.Unlock(); return nil }

// word is the limit for a lock that its process holds: a pair is two compare-and-swaps,
// which increment and decrement it. A single goroutine knows the word's value; several must
// load it first.
type word struct {
	atomic.Uint32
	_    [64]byte
	lost atomic.Uint64
}

func (w *word) pairs(n int, alone bool) {
	for alone && n > 0 && w.CompareAndSwap(0, 1) {
		n--
		if !w.CompareAndSwap(1, 0) {
			w.add(^uint32(0))
			break
		}
	}
	lost := 0
	for range n {
		lost += w.add(1) + w.add(^uint32(0))
	}
	if lost > 0 {
		w.lost.Add(uint64(lost))
	}
}

// busyPairs does pairs with three compare-and-swaps between, of a word of the caller's own.
// Bare pairs of two processors come in bursts, since the one that has the word keeps it for
// several; what does something while it is inside cannot have that.
func (w *word) busyPairs(n int, _ bool) {
	own := new(padded[atomic.Uint32])
	lost := 0
	for range n {
		lost += w.add(1)
		for i := range uint32(3) {
			own.v.CompareAndSwap(i, (i+1)%3)
		}
		lost += w.add(^uint32(0))
	}
	if lost > 0 {
		w.lost.Add(uint64(lost))
	}
}

// contextKey is the key of the value in newContext.
type contextKey struct{}

// newContext makes what [manager.Lock.Do] gives its function: a context with a cause and a value.
func newContext() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ctx = context.WithValue(ctx, contextKey{}, &cancel)
	return ctx, cancel
}

// add adds d to the word and returns how many races it lost.
func (w *word) add(d uint32) (lost int) {
	for {
		old := w.Load()
		if w.CompareAndSwap(old, old+d) {
			return lost
		}
		lost++
	}
}
