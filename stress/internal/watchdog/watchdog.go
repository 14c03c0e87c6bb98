// SPDX-License-Identifier: Apache-2.0

// Package watchdog finds the workers of a process that are stuck.
package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/pause"
)

// An Operation is something a worker does that must come to an end.
type Operation[L any] struct {
	What      string
	Lock      L
	Since     time.Time
	allowance time.Duration // how long it may legitimately take, in addition to the patience
}

// An Activity is a worker's current operation, or nil between two steps. The
// worker stores it, the watchdog loads it.
type Activity[L any] struct{ now atomic.Pointer[Operation[L]] }

// Begin records that the worker begins an operation, and end that it has ended.
// From then until the next operation the worker must make only calls that do not
// block; the watchdog checks this, too.
func (a *Activity[L]) Begin(what string, lock L) (end func()) {
	return a.BeginFor(what, lock, 0)
}

// BeginFor is Begin for an operation that may take as long as allowance.
func (a *Activity[L]) BeginFor(what string, lock L, allowance time.Duration) (end func()) {
	a.now.Store(&Operation[L]{what, lock, time.Now(), allowance})
	return func() { a.now.Store(&Operation[L]{"calls that do not block", lock, time.Now(), 0}) }
}

// None records that the worker is between two steps.
func (a *Activity[L]) None() { a.now.Store(nil) }

// Watch calls stuck once for each operation that exceeds patience, until ctx ends. all are the
// activities of the workers, by id.
func Watch[L any](ctx context.Context, all []*Activity[L], patience time.Duration, stuck func(id int, op *Operation[L])) {
	reported := map[*Operation[L]]bool{}
	for pause.For(ctx, min(patience/4, time.Second), nil) {
		var found []int
		ops := make(map[int]*Operation[L])
		for id, a := range all {
			op := a.now.Load()
			if op == nil || reported[op] || time.Since(op.Since) < patience+op.allowance {
				continue
			}
			reported[op] = true
			found, ops[id] = append(found, id), op
		}
		// The first to block is likely to be the reason for the others.
		slices.SortFunc(found, func(a, b int) int { return ops[a].Since.Compare(ops[b].Since) })
		for _, id := range found {
			stuck(id, ops[id])
		}
	}
}

// label is the profiler label that identifies a worker's goroutines.
const label = "worker"

// Do runs fn as the worker with that id: [StacksOf] finds its goroutines.
func Do(ctx context.Context, id int, fn func(context.Context)) {
	pprof.Do(ctx, pprof.Labels(label, strconv.Itoa(id)), fn)
}

// StacksOf returns the stacks of one worker's goroutines.
func StacksOf(worker int) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	its := fmt.Sprintf("%q:%q", label, strconv.Itoa(worker))
	var found []string
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(stack, its) {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// AllStacks returns the stacks of all goroutines, up to 4 MiB.
func AllStacks() string {
	b := make([]byte, 4<<20)
	return string(b[:runtime.Stack(b, true)])
}
