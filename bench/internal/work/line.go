// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// errTwo says that a subject does not exclude.
var errTwo = errors.New("two sessions hold the lock")

// line does the work Line.
func line(ctx context.Context, sessions []Session, j Job) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &queue{job: j, cancel: cancel}
	for _, session := range sessions {
		l, err := j.locker(session, 0)
		if err != nil {
			return Result{}, err
		}
		q.lockers = append(q.lockers, l)
	}
	// The first time makes the directory, and what else a subject makes once.
	r := Result{Allocs: -1}
	var measured time.Duration
	began := time.Now()
	for n := 0; n < 2 || time.Since(began) < j.Length(); n++ {
		gaps, err := q.once(ctx)
		if err != nil {
			return Result{}, err
		}
		r.Total += int64(len(gaps)) + 1
		if n == 0 {
			continue
		}
		for _, gap := range gaps {
			measured += gap
			r.Waits = append(r.Waits, float64(gap)/float64(time.Microsecond))
		}
	}
	r.Entries, r.Seconds = int64(len(r.Waits)), measured.Seconds()
	if len(r.Waits) > MaxWaits {
		r.Waits = r.Waits[len(r.Waits)-MaxWaits:]
	}
	return r, nil
}

// A queue is sessions that queue for a lock.
type queue struct {
	job     Job
	lockers []Locker
	cancel  func(error) // ends the context of all calls, when one has failed

	holders  atomic.Int32
	released atomic.Int64 // when Unlock was last called, since the beginning of once
}

// once has the first session take the lock and the others queue. Then each in turn
// holds it and releases it. once returns the times from a call of Unlock to the next
// grant.
func (q *queue) once(ctx context.Context) (gaps []time.Duration, err error) {
	var (
		began = time.Now()
		each  = make([]time.Duration, len(q.lockers))
		turn  = func(i int, hold time.Duration) error {
			if i > 0 {
				if err := q.lockers[i].Lock(ctx); err != nil {
					return fmt.Errorf("lock: %w", err)
				}
				each[i] = time.Since(began) - time.Duration(q.released.Load())
			}
			if q.holders.Add(1) != 1 {
				return errTwo
			}
			if err := Sleep(ctx, hold); err != nil {
				return err
			}
			q.holders.Add(-1)
			q.released.Store(int64(time.Since(began)))
			if err := q.lockers[i].Unlock(ctx); err != nil {
				return fmt.Errorf("unlock: %w", err)
			}
			return nil
		}
	)
	if err := q.lockers[0].Lock(ctx); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	var g errgroup.Group
	for i := range q.lockers {
		hold := q.job.Hold()
		if i == 0 {
			hold += time.Duration(q.job.QueueMillis) * time.Millisecond
		}
		g.Go(func() error {
			err := turn(i, hold)
			if err != nil {
				q.cancel(err)
			}
			return err
		})
	}
	if g.Wait() != nil {
		return nil, context.Cause(ctx) // the first error
	}
	return each[1:], nil
}
