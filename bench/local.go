// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// local is what Go programs use inside a process. It is what a lock that its process
// holds is compared with.
type local struct {
	version string
	// pairs returns a function that takes and releases a new lock n times. It may be
	// called concurrently.
	pairs func() func(n int)
	// locker returns a new lock that one goroutine at a time can have; nil if this is
	// none.
	locker func() work.Locker
}

// locals has the subjects that are local.
var locals = map[string]local{
	limitRWMutex: {version: "sync.RWMutex, RLock and RUnlock", pairs: func() func(int) {
		var mu padded[sync.RWMutex]
		return func(n int) {
			for range n {
				mu.v.RLock()
				inside()
				mu.v.RUnlock()
			}
		}
	}},
	limitMutex: {version: "sync.Mutex, Lock and Unlock", locker: func() work.Locker { return new(mutexLocker) }, pairs: func() func(int) {
		var mu padded[sync.Mutex]
		return func(n int) {
			for range n {
				mu.v.Lock()
				inside()
				mu.v.Unlock()
			}
		}
	}},
	limitSemaphore: {version: "golang.org/x/sync/semaphore, Acquire and Release", pairs: func() func(int) {
		s := semaphore.NewWeighted(math.MaxInt64)
		ctx := context.Background()
		return func(n int) {
			for range n {
				if err := s.Acquire(ctx, 1); err != nil {
					panic(err) // the context has no end
				}
				s.Release(1)
			}
		}
	}},
	limitClock: {version: "time.Now", pairs: func() func(int) {
		return func(n int) {
			var last time.Time
			for range n {
				last = time.Now()
			}
			if last.IsZero() {
				panic("no time has passed since year 1")
			}
		}
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

func (l local) Open(context.Context, string) (work.Session, error) {
	s := localSession{pairs: l.pairs()}
	if l.locker != nil {
		s.shared = l.locker()
	}
	return s, nil
}

type localSession struct {
	pairs  func(n int)
	shared work.Locker
}

func (localSession) Close() error { return nil }

// Locker returns the same lock whatever the path is: a job takes one.
func (s localSession) Locker(_ string, read bool) (work.Locker, error) {
	if s.shared == nil || read {
		return nil, fmt.Errorf("%w: it does not exclude goroutines", work.ErrUnsupported)
	}
	return s.shared, nil
}

// mutexLocker is a sync.Mutex, whose Lock ignores the end of the context.
type mutexLocker struct{ mu sync.Mutex }

func (l *mutexLocker) Lock(context.Context) error { l.mu.Lock(); return nil }

func (l *mutexLocker) Unlock(context.Context) error { l.mu.Unlock(); return nil }

func (s localSession) Reenter(ctx context.Context, _ string, _ bool) (pairs func(int) error, leave func() error, err error) {
	pairs = func(n int) error {
		s.pairs(n)
		return nil
	}
	return pairs, func() error { return nil }, ctx.Err()
}
