// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
)

const (
	// targetPatience is for how long a fault looks for something to hit.
	targetPatience = 2 * time.Second
	// targetPoll is how often it looks.
	targetPoll = 20 * time.Millisecond
)

// seek calls found until it reports true. Its error is one that nothing was found to hit,
// which says why.
func (f *fault) seek(ctx context.Context, why string, found func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, targetPatience)
	defer cancel()
	for !found() {
		if !pause.For(ctx, targetPoll, nil) {
			return fmt.Errorf("%w: %s", errNoTarget, why)
		}
	}
	return nil
}

// reserve chooses a worker process and keeps other faults from it. It takes one of those
// that hold a lock and wait for another, if there are any, or else of those that do one of
// the two, or else any.
func (f *fault) reserve(ctx context.Context) (process int, err error) {
	err = f.seek(ctx, "no further worker process may be hit", func() (ok bool) {
		holds, waits := f.env.Look()
		holders, waiters := processesOf(holds), processesOf(waits)
		process, ok = f.choose(f.env.Processes(), func(p int) int { return count(holders[p], waiters[p]) })
		return ok
	})
	return process, err
}

// choose reserves one of the processes that no other fault hits, one of those with the
// highest worth. It leaves one process alone, if there are several, so that the others'
// locks have takers.
func (f *fault) choose(all []int, worth func(process int) int) (process int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.busy) >= max(1, len(all)-1) {
		return 0, false
	}
	var best []int
	for _, p := range all {
		switch {
		case f.busy[p]:
		case len(best) == 0 || worth(p) > worth(best[0]):
			best = []int{p}
		case worth(p) == worth(best[0]):
			best = append(best, p)
		}
	}
	if len(best) == 0 {
		return 0, false
	}
	f.process = best[f.rng.IntN(len(best))]
	f.busy[f.process] = true
	return f.process, true
}

// keep reserves the process, unless another fault hits it.
func (f *fault) keep(process int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.busy[process] {
		f.process, f.busy[process] = process, true
	}
}

// release ends what reserve or keep has done, if anything.
func (f *fault) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, f.process)
}

func processesOf(places []Place) map[int]bool {
	set := make(map[int]bool)
	for _, p := range places {
		set[p.Process] = true
	}
	return set
}

func count(all ...bool) (n int) {
	for _, b := range all {
		if b {
			n++
		}
	}
	return n
}

func killWorker(ctx context.Context, f *fault) error { return f.replace(ctx, 0) }

// clockOffset makes a clock that is ahead by up to four months: the clock of a machine that
// was started so much earlier.
func clockOffset(ctx context.Context, f *fault) error {
	return f.replace(ctx, time.Hour+time.Duration(f.rng.Int64N(int64(2880*time.Hour))))
}

func (f *fault) replace(ctx context.Context, clock time.Duration) error {
	p, err := f.reserve(ctx)
	if err != nil {
		return err
	}
	return f.hit(ctx, history.ProcessTarget(p), "", func() error { return f.another(ctx, p, clock) }, nil)
}

// another kills the process and has another one started in its place, also if ctx ends.
func (f *fault) another(ctx context.Context, process int, clock time.Duration) error {
	undo, cancel := undoing(ctx)
	defer cancel()
	return f.env.Replace(undo, process, clock)
}

func pauseWorker(ctx context.Context, f *fault) error {
	p, err := f.reserve(ctx)
	if err != nil {
		return err
	}
	return f.hit(ctx, history.ProcessTarget(p), "", func() error { return f.env.Pause(p) }, func() error { return f.env.Resume(p) })
}
