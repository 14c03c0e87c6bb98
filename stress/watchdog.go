// SPDX-License-Identifier: Apache-2.0

package main

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
)

// An operation is something that a worker does and that has to end by itself.
type operation struct {
	what      string
	lock      *contended
	since     time.Time
	allowance time.Duration // what it may take by rights, before anybody waits for its end
}

// An activity is what one worker does now: an operation, or nil between its
// steps. The worker writes it, the watchdog reads it.
type activity struct{ atomic.Pointer[operation] }

// begin says that the worker begins an operation; it calls the result when the
// operation has ended. From then on until the next one it is between two
// operations, which has to end too: it calls only what does not block.
func (a *activity) begin(what string, l *contended) (end func()) {
	return a.beginFor(what, l, 0)
}

// beginFor is begin for an operation that takes some time by rights.
func (a *activity) beginFor(what string, l *contended, allowance time.Duration) (end func()) {
	a.Store(&operation{what, l, time.Now(), allowance})
	return func() { a.Store(&operation{"calls that do not block", l, time.Now(), 0}) }
}

// none says that the worker is between two steps.
func (a *activity) none() { a.Store(nil) }

// watch reports each worker that is in one operation for longer than patience,
// once, until ctx ends.
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
		// Who is stuck makes others stick: the first one first.
		slices.SortFunc(found, func(a, b finding) int { return a.op.since.Compare(b.op.since) })
		for _, f := range found {
			stuck(f.worker, f.op)
		}
	}
}

// workerLabel is the profiler label that tells the workers' stacks apart.
const workerLabel = "worker"

// stuckIn describes a worker that is stuck.
func (w *worker) stuckIn(op *operation) failure {
	phase, holders := op.lock.lock.State()
	return failure{
		Text: fmt.Sprintf("stuck: worker %d has been in %q on %v for %v; the lock is %v/%d here, stats %+v",
			w.id, op.what, op.lock, time.Since(op.since).Round(time.Millisecond), phase, holders, op.lock.lock.Stats()),
		Stack: stacksOf(w.id),
		Dump:  allStacks(),
		Fatal: true,
	}
}

// stacksOf returns the stacks of the goroutines of one worker.
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

// allStacks returns the stacks of all goroutines, the first megabytes of them.
func allStacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}
