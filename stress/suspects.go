// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
)

// The referee knows nothing of faults. A process that was stopped has its flocks until it
// goes on and leaves, and one that was told of a loss has them for a moment longer. Both
// may happen with a correct lock. So while faults are injected, what a referee sees is
// suspect until the history tells whether there was such a reason. The judge of the history
// decides exactly about these cases: it knows when each worker was told.
//
// A reason counts only for the process that has lost the lock: of two that are inside, that
// is the one with the lower token. Of several, each two need a reason.

const (
	// A suspect is judged when the history has been read so far beyond it.
	suspectAge = 5 * time.Second
	// A process that was told of a loss, or goes on after it was stopped, may have its
	// flocks for so long.
	excuseFor = 3 * time.Second
	// As many can wait to be judged.
	mostSuspects = 100_000
)

// An excuse is a reason for which a process may be inside although it has lost the lock.
type excuse struct {
	process  int
	lock     string // empty: all
	from, to int64
}

// A hit is a process that a fault stops now, or of which it deletes a node. Whether it did,
// and of which lock, is known when the fault is over.
type hit struct {
	process int
	since   int64
}

// excuses are those that the history has told of lately. The chronicle's mutex protects
// them.
type excuses struct {
	all   []excuse
	hit   map[int]hit   // by number of the fault
	ended map[int]int64 // processes: when, by id
}

func newExcuses() excuses { return excuses{hit: map[int]hit{}, ended: map[int]int64{}} }

// add notes what an event excuses.
func (x *excuses) add(e history.Event) {
	var process int // that a fault hits
	_, err := fmt.Sscanf(e.Target, "process %d", &process)
	switch {
	case e.Kind == history.Lost:
		x.all = append(x.all, excuse{process: e.Process, lock: e.Lock, from: e.At - excuseFor.Nanoseconds(), to: e.At + excuseFor.Nanoseconds()})
	case e.Kind == history.FaultEnded && e.Text == pauseWorker:
		if h, ok := x.hit[e.Fault]; ok && e.OK {
			x.all = append(x.all, excuse{process: h.process, from: h.since, to: e.At + excuseFor.Nanoseconds()})
		}
		delete(x.hit, e.Fault)
	case err != nil: // it hits none
		return
	case e.Kind == history.FaultBegan && (e.Text == pauseWorker || deletes(e)):
		x.hit[e.Fault] = hit{process, e.At}
	case e.Kind == history.FaultEnded && deletes(e):
		// Its holder learns of it a moment later. A waiter may have become the holder before
		// its node was deleted. The answer may come late. Without one the node may have been
		// deleted, too.
		if h, ok := x.hit[e.Fault]; ok && e.Lock != "" {
			x.all = append(x.all, excuse{process: process, lock: e.Lock, from: h.since, to: e.At + excuseFor.Nanoseconds()})
		}
		delete(x.hit, e.Fault)
	default:
		return
	}
	// Those that no suspect can need any more.
	old := e.At - time.Minute.Nanoseconds()
	x.all = slices.DeleteFunc(x.all, func(x excuse) bool { return x.to < old })
}

// deletes reports whether a fault deletes a node of a process.
func deletes(e history.Event) bool { return e.Text == deleteHolder || e.Text == deleteWaiter }

// awaits reports whether a fault may excuse v of which it is not known yet what it did.
func (x *excuses) awaits(v referee.Violation) bool {
	for _, h := range x.hit {
		involved := h.process == v.Process || slices.ContainsFunc(v.Others, func(o referee.Party) bool { return o.Process == h.process })
		if involved && v.At >= h.since {
			return true
		}
	}
	return false
}

// has reports whether the process has an excuse at the time of v.
func (x *excuses) has(process int, v referee.Violation) bool {
	lock := strings.TrimSuffix(v.Lock, referee.ThirdMark)
	return slices.ContainsFunc(x.all, func(x excuse) bool {
		return x.process == process && (x.lock == "" || x.lock == lock) && x.from <= v.At && v.At <= x.to
	})
}

// excuse reports whether v has an excuse.
func (x *excuses) excuse(v referee.Violation) bool {
	switch v.Kind {
	case referee.TokenShared:
		return false
	case referee.TokenFell, referee.TwoRounds, referee.TwoTurns:
		return x.has(v.Process, v)
	}
	pairs := 0
	for _, other := range v.Others {
		if at, over := x.ended[other.PID]; over && at <= v.At {
			continue // it was killed: its flocks ended with it
		}
		pairs++
		if !x.pair(v, other) {
			return false
		}
	}
	return pairs > 0
}

// pair reports whether the one of the process that v is about and of another that was inside
// has an excuse that has lost the lock.
func (x *excuses) pair(v referee.Violation, other referee.Party) bool {
	if v.Kind == referee.Premature {
		return x.has(other.Process, v) // all others were let out since it had lost its place
	}
	entered, inside := x.has(v.Process, v), x.has(other.Process, v)
	if v.Token == 0 || other.Token == 0 || besideUpgrade(v.Mode, other.Mode) || besideUpgrade(other.Mode, v.Mode) {
		return entered || inside // which of them has lost the lock is not known
	}
	switch cmp.Compare(v.Token, other.Token) {
	case -1:
		return entered
	case 1:
		return inside
	}
	return false
}

// besideUpgrade reports whether a is the mode of an upgraded holder, whose token says nothing
// of its order among readers, and b a reader's.
func besideUpgrade(a, b string) bool {
	return a == referee.Upgraded && history.Mode(b) == history.Read
}

// suspect keeps what a referee has seen until the history tells whether it has an excuse.
func (p *parent) suspect(v referee.Violation) {
	if len(p.suspects) >= mostSuspects {
		p.unjudged++
		return
	}
	p.suspects = append(p.suspects, v)
}

// judgeSuspects judges what referees have seen until then.
func (p *parent) judgeSuspects(until int64) {
	p.suspects = slices.DeleteFunc(p.suspects, func(v referee.Violation) bool {
		if v.At > until || until != math.MaxInt64 && p.chronicle.awaits(v) {
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

// judgeAllSuspects judges those that are left at the end. Those for which there was no room
// make the run fail: it is not known whether they had an excuse.
func (p *parent) judgeAllSuspects() {
	p.judgeSuspects(math.MaxInt64)
	if p.unjudged > 0 {
		p.fail(fmt.Sprintf("%s that referees saw beside others are not judged: more than %s at once would have had to wait until the history tells whether they have an excuse", plural(p.unjudged, "entry"), thousands(mostSuspects)))
	}
}
