// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// The stages of a measurement.
const (
	warming int32 = iota
	measuring
	over
)

// contend does the work Contend.
func contend(ctx context.Context, sessions []Session, j Job) (Result, error) {
	var workers []*worker
	for _, session := range sessions {
		for i := range j.Workers {
			l, err := j.locker(session, i)
			if err != nil {
				return Result{}, err
			}
			workers = append(workers, &worker{locker: l, hold: j.Hold()})
		}
	}
	var stage atomic.Int32
	g, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		g.Go(func() error { return w.contend(ctx, &stage) })
	}
	seconds := clock(ctx, &stage, j)
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	r := Result{Seconds: seconds, Allocs: -1}
	r.Fewest = workers[0].entries
	for _, w := range workers {
		r.Fewest, r.Most = min(r.Fewest, w.entries), max(r.Most, w.entries)
		r.Entries += w.entries
		r.Total += w.total
	}
	r.Waits = sample(workers)
	return r, nil
}

// locker returns what worker i of a session takes and releases.
func (j Job) locker(s Session, i int) (Locker, error) {
	switch {
	case j.Together > 0:
		g, ok := s.(Gatherer)
		if !ok {
			return nil, fmt.Errorf("%w: it takes one lock at a time", ErrUnsupported)
		}
		return g.All(j.Paths(j.Together))
	case j.Read:
		sharer, ok := s.(Sharer)
		if !ok {
			return nil, fmt.Errorf("%w: it has no read locks", ErrUnsupported)
		}
		return sharer.ReadLocker(j.Lock(i % j.Locks))
	}
	return s.Locker(j.Lock(i % j.Locks))
}

// clock advances the stages and returns the duration of the measurement in seconds.
func clock(ctx context.Context, stage *atomic.Int32, j Job) float64 {
	wait := func(millis int) {
		_ = Sleep(ctx, time.Duration(millis)*time.Millisecond) // it ends early if a worker has failed
	}
	wait(j.WarmupMillis)
	begin := time.Now()
	stage.Store(measuring)
	wait(j.MeasureMillis)
	stage.Store(over)
	return time.Since(begin).Seconds()
}

// A worker is a goroutine that takes and releases a lock.
type worker struct {
	locker  Locker
	hold    time.Duration
	entries int64 // during the measurement
	total   int64

	waits  []time.Duration // of every stride-th entry
	stride int64
}

// contend takes and releases the lock until the stage is over.
func (w *worker) contend(ctx context.Context, stage *atomic.Int32) error {
	w.stride = 1
	for n := int64(0); ; n++ {
		timed := n%w.stride == 0
		var asked time.Time
		if timed {
			asked = time.Now()
		}
		if err := w.locker.Lock(ctx); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		var waited time.Duration
		if timed {
			waited = time.Since(asked)
		}
		now := stage.Load()
		if w.hold > 0 {
			_ = Sleep(ctx, w.hold) // if it fails, so will the next Lock
		}
		if err := w.locker.Unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		w.total++
		switch now {
		case measuring:
			w.entries++
			if timed {
				w.waited(waited)
			}
		case over:
			if c, ok := w.locker.(io.Closer); ok {
				return c.Close()
			}
			return nil
		}
	}
}

// waited records a wait. When there are too many, it drops every other one and
// halves the rate.
func (w *worker) waited(d time.Duration) {
	if w.waits = append(w.waits, d); len(w.waits) < MaxWaits {
		return
	}
	for i := range MaxWaits / 2 {
		w.waits[i] = w.waits[2*i]
	}
	w.waits = w.waits[:MaxWaits/2]
	w.stride *= 2
}

// sample returns an even sample of all workers' waits, in microseconds.
func sample(workers []*worker) []float64 {
	var all []float64
	// A wait recorded with stride 4 stands for four entries. If some worker has
	// that stride, take every fourth wait of a worker with stride 1.
	var most int64 = 1
	for _, w := range workers {
		most = max(most, w.stride)
	}
	for _, w := range workers {
		for i := int64(0); i < int64(len(w.waits)); i += most / w.stride {
			all = append(all, float64(w.waits[i])/float64(time.Microsecond))
		}
	}
	if len(all) <= MaxWaits {
		return all
	}
	drawn := make([]float64, MaxWaits)
	for i := range drawn {
		drawn[i] = all[i*len(all)/MaxWaits]
	}
	return drawn
}
