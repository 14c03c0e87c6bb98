// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio"
)

// Run takes elements and calls fn with each, and acks an element for which fn has returned
// nil. It has as many goroutines as workers says, at least one, which call fn at the same time.
// The context that fn gets ends when ctx does, or the element is lost: then fn must return
// soon. A panic of fn ends the process, as on any goroutine; the element comes again.
//
// If fn returns an error, the element is returned, and taken again, until it was taken
// Options.MaxAttempts times. Before that the goroutine waits, for 100 ms after the first
// attempt and longer after each, up to 10 s: so an element is not buried within a moment
// in which a service that fn needs is away. If fn has called Ack, Return or Bury itself,
// nothing more is done.
//
// Run blocks until ctx ends, or there is an error that trying again does not mend, such as
// [manager.ErrClosed] or a refusal of ZooKeeper's, and all calls of fn have returned. It
// returns the reason, which is never nil: for ctx an error that wraps ctx.Err() and
// context.Cause(ctx). Elements whose fn has returned nil by then are acked.
func (q *Queue) Run(ctx context.Context, workers int, fn func(ctx context.Context, e *Element) error) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range max(1, workers) {
		all.Go(func() {
			for ctx.Err() == nil {
				e, err := q.take(ctx, true)
				if err == nil {
					err = handle(ctx, e, fn)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	if parent.Err() != nil {
		return q.error("run", ctxerr.Of(parent))
	}
	return q.error("run", context.Cause(ctx))
}

// handle calls fn with e, and settles e. It returns the errors that end Run.
func handle(ctx context.Context, e *Element, fn func(ctx context.Context, e *Element) error) error {
	work, done := e.Context(ctx)
	failure := fn(work, e)
	done()
	if e.settled.Load() {
		return nil
	}
	settle := e.Ack
	if failure != nil {
		settle = e.Return
		select {
		case <-time.After(zkio.Backoff(e.attempt-1, 100*time.Millisecond, 10*time.Second)):
		case <-ctx.Done():
		case <-e.Lost():
		}
	}
	err := settle(context.WithoutCancel(ctx))
	if errors.Is(err, ErrLost) || errors.Is(err, manager.ErrUnknownOutcome) || errors.Is(err, ErrSettled) {
		return nil // it comes again, or is done, or another goroutine of fn's settles it
	}
	return reason(err)
}
