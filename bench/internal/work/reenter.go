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
func reenter(ctx context.Context, sessions []Session, j Job) (Result, error) {
	session, ok := sessions[0].(Reenterer)
	if !ok {
		return Result{}, fmt.Errorf("%w: a holder cannot take its lock again", ErrUnsupported)
	}
	var stage atomic.Int32
	var entries, total atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for i := range j.Workers {
		pairs, err := session.Reenter(ctx, j.Lock(i%j.Locks))
		if err != nil {
			stage.Store(over)
			return Result{}, errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			var n, all int64
			defer func() {
				entries.Add(n)
				total.Add(all)
			}()
			for gctx.Err() == nil {
				all += batch
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
					return nil
				}
			}
			return gctx.Err()
		})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	seconds := clock(gctx, &stage, j)
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	runtime.ReadMemStats(&after)
	r := Result{Entries: entries.Load(), Total: total.Load(), Seconds: seconds}
	// This includes some dozens of allocations by the runtime itself.
	r.Allocs = float64(after.Mallocs-before.Mallocs) / float64(r.Total)
	if racer, ok := session.(Racer); ok {
		r.Lost = float64(racer.Lost()) / float64(r.Total)
	}
	return r, nil
}
