// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/pause"
)

// unsettledLimit is for how long a fault waits for the ensemble to settle.
const unsettledLimit = 15 * time.Second

// Run injects the faults of the schedule, which begins now, until it is over or ctx ends.
// Before it returns, every fault has been undone, also if ctx has ended. The error says
// what could not be undone.
//
// Record is called by several goroutines, right before a fault begins and right after it
// has been undone. The event of the end says whether the fault took effect, by OK.
func Run(ctx context.Context, env Env, s Schedule, record func(history.Event)) error {
	r := &runner{env: env, record: record, end: s.End, began: time.Now(), busy: make(map[int]bool), took: make(map[string]bool)}
	for _, in := range s.Injections {
		r.number = max(r.number, in.Number)
	}
	var servers, others []Injection
	for _, in := range s.Injections {
		if k, _ := kindNamed(in.Kind); k.server {
			servers = append(servers, in)
		} else {
			others = append(others, in)
		}
	}
	var lanes sync.WaitGroup
	lanes.Go(func() {
		for _, in := range servers {
			if r.await(ctx, in) {
				r.server(true)
				r.injectOrAgain(ctx, in)
				r.server(false)
			}
		}
	})
	lanes.Go(func() {
		var active sync.WaitGroup
		defer active.Wait()
		for _, in := range others {
			if r.await(ctx, in) {
				active.Go(func() { r.injectOrAgain(ctx, in) })
			}
		}
	})
	lanes.Wait()
	return errors.Join(r.errs...)
}

// A runner is a Run.
type runner struct {
	env    Env
	record func(history.Event)
	began  time.Time
	end    time.Duration // of the schedule

	mu       sync.Mutex      // protects what follows
	atServer bool            // a fault that hits a server is active
	busy     map[int]bool    // the processes that a fault hits
	took     map[string]bool // the kinds of which a fault took effect
	number   int             // the highest of a fault
	errs     []error
}

func (r *runner) server(active bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.atServer = active
}

// await waits until the fault is to begin. It reports false if ctx ends before that, or the
// fault would last longer than the schedule.
func (r *runner) await(ctx context.Context, in Injection) bool {
	if !pause.For(ctx, in.After-time.Since(r.began), nil) {
		return false
	}
	r.mu.Lock()
	atServer := r.atServer
	r.mu.Unlock()
	// While a server is down, the ensemble need not settle: faults that overlap are wanted.
	// After that it must have the time.
	if servers := r.env.Servers(); servers != nil && !atServer {
		settled, cancel := context.WithTimeout(ctx, unsettledLimit)
		_, err := servers.Settled(settled)
		cancel()
		if err != nil && ctx.Err() == nil {
			r.env.Note(fmt.Sprintf("fault %d (%s) begins although the ensemble has not settled for %v: %v", in.Number, in.Kind, unsettledLimit, err))
		}
	}
	if late := time.Since(r.began) + in.Lasts - r.end; late > 0 {
		r.env.Note(fmt.Sprintf("fault %d (%s) is left out: it would end %v after the last one is to be over", in.Number, in.Kind, late.Round(time.Millisecond)))
		return false
	}
	return ctx.Err() == nil
}

// errNoTarget means that a fault found nothing to hit.
var errNoTarget = errors.New("there is nothing to hit")

// tries is how often a fault that has no effect is injected.
const tries = 3

// injectOrAgain injects a fault, and another of its kind if it had no effect: there was
// nothing to hit at that moment. A run that is to show what a kind of fault does would
// show nothing otherwise.
//
// Workers stay inside also for a later fault of a kind if none of it took effect before.
func (r *runner) injectOrAgain(ctx context.Context, in Injection) {
	r.mu.Lock()
	in.Stays = in.Stays || !r.took[in.Kind]
	r.mu.Unlock()
	for try := 1; ; try++ {
		if r.inject(ctx, in) || try == tries || !pause.For(ctx, time.Second, nil) || time.Since(r.began)+in.Lasts > r.end {
			return
		}
		r.mu.Lock()
		r.number++
		in.Number = r.number
		r.mu.Unlock()
		in.Pick++
	}
}

// inject injects a fault and undoes it. It reports false if the fault had no effect.
func (r *runner) inject(ctx context.Context, in Injection) bool {
	k, ok := kindNamed(in.Kind)
	if !ok {
		r.env.Note(fmt.Sprintf("fault %d: there is no kind %q", in.Number, in.Kind))
		return true
	}
	f := &fault{runner: r, in: in, rng: rand.New(rand.NewPCG(in.Pick, 0)), process: -1}
	err := k.inject(ctx, f)
	f.ended(false) // unless the kind has said more
	f.release()
	r.mu.Lock()
	r.took[in.Kind] = r.took[in.Kind] || f.effect
	r.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, errNoTarget):
		r.env.Note(fmt.Sprintf("fault %d (%s) had no effect: %v", in.Number, in.Kind, err))
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, fmt.Errorf("fault %d (%s): %w", in.Number, in.Kind, err))
	}
	return f.effect
}

// A fault is one that is being injected. Its goroutine alone uses it.
type fault struct {
	*runner
	in      Injection
	rng     *rand.Rand
	process int    // the process that it keeps from other faults, or -1
	target  string // once it has begun
	lock    string
	over    bool
	effect  bool // it took effect
}

// begin records that the fault begins. It is called right before what the fault does.
func (f *fault) begin(target, lock string) {
	f.target, f.lock = target, lock
	f.record(f.event(history.FaultBegan))
}

// ended records that the fault has been undone, once, and only if it has begun.
func (f *fault) ended(tookEffect bool) {
	if f.target == "" || f.over {
		return
	}
	f.over, f.effect = true, tookEffect
	e := f.event(history.FaultEnded)
	e.OK = tookEffect
	f.record(e)
}

func (f *fault) event(kind history.Kind) history.Event {
	return history.Event{At: f.env.Now(), Kind: kind, Process: history.Harness, Fault: f.in.Number, Text: f.in.Kind, Target: f.target, Lock: f.lock, Stays: f.in.Stays}
}

// hit injects the fault by do, waits for as long as it lasts, and undoes it by undo, unless that is
// nil. The fault takes effect if do has no error. It is undone also after an error. To record that it
// begins can take seconds, so what limits the time of do is for do to begin.
func (f *fault) hit(ctx context.Context, target, lock string, do, undo func() error) (err error) {
	f.begin(target, lock)
	if err = do(); err == nil {
		f.last(ctx)
	}
	var undone error
	if undo != nil {
		undone = undo()
	}
	f.ended(err == nil)
	return errors.Join(err, undone)
}

// last waits for as long as the fault lasts, or until ctx ends.
func (f *fault) last(ctx context.Context) { pause.For(ctx, f.in.Lasts, nil) }

// undoLimit bounds the time in which a fault is undone.
const undoLimit = 90 * time.Second

// undoing returns a context for undoing a fault, which does not end with ctx.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
}
