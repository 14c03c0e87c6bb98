// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// An operation is something a worker does that must come to an end.
type operation struct {
	what      string
	lock      *contended
	since     time.Time
	allowance time.Duration // how long it may legitimately take, in addition to the patience
}

// An activity is a worker's current operation, or nil between two steps. The
// worker stores it, the watchdog loads it.
type activity struct{ atomic.Pointer[operation] }

// begin records that the worker begins an operation, and end that it has ended.
// From then until the next operation the worker must make only calls that do not
// block; the watchdog checks this, too.
func (a *activity) begin(what string, l *contended) (end func()) {
	return a.beginFor(what, l, 0)
}

// beginFor is begin for an operation that may take as long as allowance.
func (a *activity) beginFor(what string, l *contended, allowance time.Duration) (end func()) {
	a.Store(&operation{what, l, time.Now(), allowance})
	return func() { a.Store(&operation{"calls that do not block", l, time.Now(), 0}) }
}

// none records that the worker is between two steps.
func (a *activity) none() { a.Store(nil) }

// watch calls stuck once for each operation that exceeds patience, until ctx ends.
func watch(ctx context.Context, workers []*worker, patience time.Duration, stuck func(*worker, *operation)) {
	reported := map[*operation]bool{}
	tick := time.NewTicker(min(patience/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		type finding struct {
			worker *worker
			op     *operation
		}
		var found []finding
		for _, w := range workers {
			op := w.activity.Load()
			if op == nil || reported[op] || time.Since(op.since) < patience+op.allowance {
				continue
			}
			reported[op] = true
			found = append(found, finding{w, op})
		}
		// The first to block is likely to be the reason for the others.
		slices.SortFunc(found, func(a, b finding) int { return a.op.since.Compare(b.op.since) })
		for _, f := range found {
			stuck(f.worker, f.op)
		}
	}
}

// workerLabel is the profiler label that identifies a worker's goroutines.
const workerLabel = "worker"

// stuckIn describes w, which is stuck in op.
func (w *worker) stuckIn(op *operation) wire.Failure {
	phase, holders := op.lock.lock.State()
	return wire.Failure{
		Text: fmt.Sprintf("stuck: worker %d has been in %q on %v for %v; in this process the lock is %v with %d holders, %+v",
			w.id, op.what, op.lock, time.Since(op.since).Round(time.Millisecond), phase, holders, op.lock.lock.Stats()),
		Stack: stacksOf(w.id),
		Dump:  allStacks(),
		Fatal: true,
	}
}

// stacksOf returns the stacks of one worker's goroutines.
func stacksOf(worker int) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	label := fmt.Sprintf("%q:%q", workerLabel, fmt.Sprint(worker))
	var found []string
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, label) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// allStacks returns the stacks of all goroutines, up to 4 MiB.
func allStacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}
