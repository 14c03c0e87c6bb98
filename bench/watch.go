// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/manager"
)

// observers is how many sessions watch who holds the lock of a watch scenario. They are
// in this process, and the contenders in another.
const observers = 1000

// The contenders of a watch scenario hold the lock for so long that the observers have
// looked before it changes hands again.
const (
	watchedHold  = 200 * time.Millisecond
	watchedLine  = 9
	watchedTimes = 20 * time.Second
)

func watchHolder(observers int) string { return fmt.Sprintf("watch-holder/observers=%d", observers) }

// watching returns the watch scenarios.
func watching() []scenario {
	of := func(n int, before func(context.Context, work.Job) (func(), error)) scenario {
		return scenario{
			id: watchHolder(n), what: fmt.Sprintf("from Unlock to the next grant, with %d in line that hold the lock once for %v, while %d other sessions watch who holds it", watchedLine, watchedHold, n),
			job: work.Job{
				Work: work.Line, Sessions: watchedLine + 1, Workers: 1, Locks: 1, HoldMicros: int(watchedHold.Microseconds()), QueueMillis: 300,
				MeasureMillis: int(watchedTimes.Milliseconds()),
			},
			subjects: []string{oursUnlock}, cold: true, at: near, before: before,
		}
	}
	return []scenario{of(0, nil), of(observers, observe)}
}

// observe has sessions watch who holds a job's lock. It returns a function that ends them.
func observe(ctx context.Context, j work.Job) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		all     = make([]*manager.Manager, observers)
		loops   sync.WaitGroup
		opening errgroup.Group
	)
	end = func() {
		cancel()
		loops.Wait()
		var closing errgroup.Group
		closing.SetLimit(32)
		for _, m := range all {
			if m != nil {
				closing.Go(m.Close)
			}
		}
		_ = closing.Wait()
	}
	opening.SetLimit(32)
	for i := range all {
		opening.Go(func() error {
			m, err := manager.Open(ctx, manager.Config{Servers: []string{j.Server}, Root: "/", Workers: 9, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				return err
			}
			all[i] = m
			l, err := m.Exclusive(j.Lock(0)[1:])
			if err != nil {
				return err
			}
			began := make(chan error, 1)
			loops.Go(func() {
				for _, err := range l.WatchHolder(ctx) {
					select {
					case began <- err:
					default: // it has begun
					}
				}
			})
			return <-began
		})
	}
	if err := opening.Wait(); err != nil {
		end()
		return nil, errors.Join(errors.New("watch who holds the lock"), err)
	}
	return end, nil
}
