// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// The referee knows nothing of faults. A process that was stopped has its flocks until it
// goes on and leaves, and one that was told of a loss has them for a moment longer. Both
// may happen with a correct lock. So while faults are injected, what a referee sees is
// suspect until the history tells whether there was such a reason. The judge of the history
// decides exactly about these cases: it knows when each worker was told.

const (
	// A suspect is judged when the history has been read so far beyond it.
	suspectAge = 5 * time.Second
	// A process that was told of a loss, or goes on after it was stopped, may have its
	// flocks for so long.
	excuseFor = 3 * time.Second
	// As many can wait to be judged.
	mostSuspects = 100_000
)

// An excuse is a reason for which processes may be inside together.
type excuse struct {
	lock     string // empty: all
	from, to int64
}

// excuses are those that the history has told of lately. The chronicle's mutex protects
// them.
type excuses struct {
	all     []excuse
	stopped map[int]int64 // since when, by number of the fault
}

// add notes what an event excuses.
func (x *excuses) add(e history.Event) {
	switch {
	case e.Kind == history.Lost:
		x.all = append(x.all, excuse{lock: e.Lock, from: e.At - excuseFor.Nanoseconds(), to: e.At + excuseFor.Nanoseconds()})
	case e.Kind == history.FaultBegan && e.Text == pauseWorker:
		x.stopped[e.Fault] = e.At
	case e.Kind == history.FaultEnded && (e.Text == deleteHolder || e.Text == deleteWaiter) && e.OK:
		// Its holder learns of it a moment later, and may have left before that. A waiter
		// may have become the holder before its node was deleted.
		x.all = append(x.all, excuse{lock: e.Lock, from: e.At - excuseFor.Nanoseconds(), to: e.At + excuseFor.Nanoseconds()})
	case e.Kind == history.FaultEnded && e.Text == pauseWorker:
		x.all = append(x.all, excuse{from: x.stopped[e.Fault], to: e.At + excuseFor.Nanoseconds()})
		delete(x.stopped, e.Fault)
	default:
		return
	}
	// Those that no suspect can need any more.
	old := e.At - time.Minute.Nanoseconds()
	x.all = slices.DeleteFunc(x.all, func(x excuse) bool { return x.to < old })
}

// excuse reports whether v has an excuse.
func (x *excuses) excuse(v violation) bool {
	for _, from := range x.stopped {
		if v.At >= from {
			return true
		}
	}
	return slices.ContainsFunc(x.all, func(x excuse) bool {
		return (x.lock == "" || x.lock == v.Lock) && x.from <= v.At && v.At <= x.to
	})
}

// judgeSuspects judges what referees have seen until then.
func (p *parent) judgeSuspects(until int64) {
	p.suspects = slices.DeleteFunc(p.suspects, func(v violation) bool {
		if v.At > until {
			return false
		}
		if p.chronicle.excused(v) {
			p.summary.Excused++
		} else {
			p.violations++
			p.showViolation("a referee", v)
		}
		return true
	})
}
