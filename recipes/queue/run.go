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
// If fn returns an error, the element is returned with a delay, as by [Element.ReturnAfter],
// until it was taken Options.MaxAttempts times: after 100 ms the first time, and later each time,
// up to 10 s. So elements that fail keep no goroutine from the others, and are not buried within
// a moment in which a service that fn needs is away. If fn has called Ack, Return or Bury itself,
// nothing more is done.
//
// Run blocks until ctx ends, Shutdown of the Manager begins, or there is an error that trying
// again does not mend, such as a refusal of ZooKeeper's, and all calls of fn have returned. It
// returns the reason, which is never nil: for ctx an error that wraps ctx.Err() and
// context.Cause(ctx), and for Shutdown [manager.ErrClosed]. Elements whose fn has returned nil by
// then are acked, and the others returned at once. For that Run waits no longer than the session
// timeout: what ZooKeeper has not been told by then, in an outage, it is told later. Shutdown waits
// for Run, for at most Config.CloseTimeout.
func (q *Queue) Run(ctx context.Context, workers int, fn func(ctx context.Context, e *Element) error) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.access.Accepting(), func() { cancel(manager.ErrClosed) })()
	returned := make(chan struct{})
	defer close(returned)
	q.access.Finish(func() {
		select {
		case <-returned:
		case <-q.access.Context().Done():
		}
	})
	var all sync.WaitGroup
	for range max(1, workers) {
		all.Go(func() {
			for ctx.Err() == nil {
				e, err := q.consumer.take(ctx, true)
				if err == nil {
					err = q.handle(ctx, e, fn)
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
func (q *Queue) handle(ctx context.Context, e *Element, fn func(ctx context.Context, e *Element) error) error {
	settling, done := outlasting(ctx, q.access.Session().Timeout())
	defer done()
	if ctx.Err() != nil {
		return ended(e.withdraw(settling))
	}
	work, stop := e.Context(ctx)
	failure := fn(work, e)
	stop()
	switch {
	case e.settled.Load():
		return nil
	case failure == nil:
		return ended(e.Ack(settling))
	case ctx.Err() != nil:
		return ended(e.Return(settling))
	}
	return ended(e.ReturnAfter(settling, zkio.Backoff(e.attempt-1, 100*time.Millisecond, 10*time.Second)))
}

// ended returns the error of a settlement, if it ends Run.
func ended(err error) error {
	if errors.Is(err, ErrLost) || errors.Is(err, manager.ErrUnknownOutcome) || errors.Is(err, ErrSettled) {
		return nil // it comes again, or is done, or another goroutine of fn's settles it
	}
	return reason(err)
}

// outlasting returns a context that ends d after ctx does, or when done is called.
func outlasting(ctx context.Context, d time.Duration) (_ context.Context, done context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
		context.AfterFunc(later, func() { timer.Stop() })
	})
	return later, func() {
		stop()
		cancel(context.Canceled)
	}
}
