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
}

// locals has the subjects that are local.
var locals = map[string]local{
	limitRWMutex: {"sync.RWMutex, RLock and RUnlock", func() func(int) {
		var mu padded[sync.RWMutex]
		return func(n int) {
			for range n {
				mu.v.RLock()
				inside()
				mu.v.RUnlock()
			}
		}
	}},
	limitMutex: {"sync.Mutex, Lock and Unlock", func() func(int) {
		var mu padded[sync.Mutex]
		return func(n int) {
			for range n {
				mu.v.Lock()
				inside()
				mu.v.Unlock()
			}
		}
	}},
	limitSemaphore: {"golang.org/x/sync/semaphore, Acquire and Release", func() func(int) {
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
	limitClock: {"time.Now", func() func(int) {
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
	return localSession{l.pairs()}, nil
}

type localSession struct{ pairs func(n int) }

func (localSession) Close() error { return nil }

func (localSession) Locker(string, bool) (work.Locker, error) {
	return nil, fmt.Errorf("%w: it does not exclude processes", work.ErrUnsupported)
}

func (s localSession) Reenter(ctx context.Context, _ string, _ bool) (pairs func(int) error, leave func() error, err error) {
	pairs = func(n int) error {
		s.pairs(n)
		return nil
	}
	return pairs, func() error { return nil }, ctx.Err()
}
