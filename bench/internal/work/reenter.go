// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// batch is the number of pairs between two checks of the stage.
const batch = 1000

// reenter does the work Reenter.
func reenter(ctx context.Context, s Subject, j Job) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Length()+Grace)
	defer cancel()
	j.Sessions = 1
	sessions, err := openAll(ctx, s, j)
	defer func() { closeAll(sessions) }()
	if err != nil {
		return Result{}, err
	}
	session, ok := sessions[0].(Reenterer)
	if !ok {
		return Result{}, fmt.Errorf("%w: a holder cannot take its lock again", ErrUnsupported)
	}
	var stage atomic.Int32
	counts, totals := make([]int64, j.Workers), make([]int64, j.Workers)
	var inside []func() error
	defer func() {
		for _, leave := range inside {
			_ = leave() // the session ends in any case
		}
	}()
	g, gctx := errgroup.WithContext(ctx)
	for i := range j.Workers {
		pairs, leave, err := session.Reenter(ctx, j.Lock(i%j.Locks), j.Read)
		if err != nil {
			stage.Store(over)
			return Result{}, errors.Join(err, g.Wait())
		}
		inside = append(inside, leave)
		g.Go(func() error {
			var n int64
			for {
				totals[i] += batch
				if err := pairs(batch); err != nil {
					return err
				}
				// Go lets goroutines that never block run for ten milliseconds
				// each. The one that keeps the session alive must not wait for
				// all of them.
				runtime.Gosched()
				switch stage.Load() {
				case measuring:
					n += batch
				case over:
					counts[i] = n
					return nil
				}
				if gctx.Err() != nil {
					return gctx.Err()
				}
			}
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	seconds := clock(gctx, &stage, j)
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	runtime.ReadMemStats(&after)
	r := Result{Seconds: seconds}
	for i := range counts {
		r.Entries += counts[i]
		r.Total += totals[i]
	}
	// This includes some dozens of allocations by the runtime itself.
	r.Allocs = float64(after.Mallocs-before.Mallocs) / float64(r.Total)
	if racer, ok := session.(Racer); ok {
		r.Lost = float64(racer.Lost()) / float64(r.Total)
	}
	return r, nil
}
