// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Queuer is a session that can use a queue.
type Queuer interface {
	Queue(path string) (Queue, error)
}

// A Queue is a session's way to a queue.
type Queue interface {
	// Offer puts elements into the queue.
	Offer(ctx context.Context, n int) error

	// Take takes one element and removes it.
	Take(ctx context.Context) error
}

// drain does the work Drain.
func drain(ctx context.Context, sessions []Session, j Job) (Result, error) {
	var queues []Queue
	for _, session := range sessions {
		q, ok := session.(Queuer)
		if !ok {
			return Result{}, fmt.Errorf("%w: it has no queue", ErrUnsupported)
		}
		way, err := q.Queue(j.Dir + "/queue")
		if err != nil {
			return Result{}, err
		}
		queues = append(queues, way)
	}
	if err := queues[0].Offer(ctx, j.Elements); err != nil {
		return Result{}, fmt.Errorf("offer: %w", err)
	}
	var left atomic.Int64
	left.Store(int64(j.Elements))
	g, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for _, q := range queues {
		g.Go(func() error {
			for left.Add(-1) >= 0 {
				if err := q.Take(ctx); err != nil {
					return fmt.Errorf("take: %w", err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return Result{}, err
	}
	n := int64(j.Elements)
	return Result{Entries: n, Total: n, Seconds: time.Since(begin).Seconds(), Allocs: -1}, nil
}
