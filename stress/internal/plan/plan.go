// SPDX-License-Identifier: Apache-2.0

// Package plan decides by the seed what each worker attempts.
package plan

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A Plan is an endless sequence of steps for one worker. It depends only on the
// seed and on which worker it is: the outcome of a step (granted, refused, timed
// out) does not affect later ones. So a seed determines what every worker
// attempts, in which order and with which pauses, but not how the workers' steps
// interleave; that is up to the network and the operating system.
type Plan struct {
	wire.Workload
	venues []wire.Venue
	rng    *rand.Rand
}

// New returns the plan of a worker.
func New(s wire.Settings, worker int) *Plan {
	return &Plan{s.Workload, s.Venues(), rand.New(rand.NewPCG(s.Seed, uint64(s.Process)<<32|uint64(worker)))}
}

// A Step is one attempt to get a lock, and what to do with it.
type Step struct {
	Think  time.Duration // pause before the attempt
	Lock   int
	Way    Way
	Bound  time.Duration // of the wait, for the ways that have one
	Hold   time.Duration // time inside
	Nested Nested
	Order  bool // which of two handles is released first
	Giving Giving
	Again  bool // release a second time, which must be refused

	Group Group // for the workload all

	// For the workload abandoned.
	Panics   bool // panic in Do
	Recovers bool // call Recovered if the lock was abandoned

	// For read/write locks.
	Read  bool // take the read lock
	Third bool // take the upgradable read lock
	Turn  bool // from write, downgrade to read; from read, try to upgrade, which must be refused; from upgradable, upgrade
}

// A Way is how a step acquires its lock.
type Way int

// The ways.
const (
	ByOnDone     Way = iota // Acquire, and work in a function given to OnDone
	ByWait                  // Acquire, and Wait on the future
	BySelect                // Acquire, and select on the future's Done
	ByLock                  // Lock
	ByDo                    // Do
	ByTry                   // TryLock
	ByDeadline              // Lock with a context that times out
	ByCancel                // Acquire with a context that is cancelled, and Wait
	ByWithdrawal            // Acquire with a context that is cancelled, and Done; Hold.Err tells whether the hold was withdrawn
	ByGivingUp              // Acquire, and Release if not granted in time
)

// ways has each way as often as it is to be chosen.
var ways = []Way{
	ByOnDone, ByOnDone, ByOnDone,
	ByWait, ByWait, ByWait,
	BySelect, BySelect, BySelect,
	ByLock, ByLock, ByLock,
	ByDo, ByDo,
	ByTry, ByTry,
	ByDeadline,
	ByCancel,
	ByWithdrawal,
	ByGivingUp,
}

// Nested is what a step does with further handles of its hold.
type Nested int

// What a step can do inside.
const (
	Plain           Nested = iota
	ByReenter              // Hold.Reenter
	ByContext              // Lock with a context from Hold.Context
	ByAcquireInside        // Acquire with such a context
	ByTryInside            // TryLock with such a context
	ByShare                // Hold.Share, for another goroutine
	numNested
)

// Giving is how a step gives up its lock.
type Giving int

// The ways of giving a lock up.
const (
	ByRelease     Giving = iota // Release; a callback checks its future
	ByReleaseWait               // Release, and Wait on its future
	ByUnlock                    // Unlock
	numGiving
)

// Next returns the next step. A greedy worker acquires, holds and releases, without
// a pause and without a bound on its wait.
func (p *Plan) Next() Step {
	s := Step{
		Think:  p.duration(p.Think),
		Lock:   p.rng.IntN(len(p.venues)),
		Way:    ways[p.rng.IntN(len(ways))],
		Bound:  p.duration(max(2*p.Hold, 2*time.Millisecond)),
		Hold:   p.duration(p.Hold),
		Order:  p.rng.IntN(2) == 0,
		Giving: Giving(p.rng.IntN(int(numGiving))),
		Again:  p.rng.IntN(8) == 0,
	}
	// Two steps of three use no further handle.
	if n := p.rng.IntN(3 * int(numNested-1)); n < int(numNested-1) {
		s.Nested = Nested(n + 1)
	}
	venue := p.venues[s.Lock]
	if venue.ReadWrite {
		s.Read = p.rng.Float64() < p.ReadRatio
		s.Turn = p.rng.IntN(4) == 0
	}
	if venue.Kind == wire.UpgradeWorkload && p.rng.IntN(4) == 0 {
		s.Third, s.Read, s.Turn = true, false, p.rng.IntN(4) > 0
	}
	if p.Kind == wire.AbandonedWorkload {
		s.Panics, s.Recovers = p.rng.IntN(8) == 0, p.rng.IntN(4) == 0
	}
	if venue.Recipe {
		s.Bound = p.duration(max(100*p.Hold, 200*time.Millisecond))
	}
	if p.Kind == wire.MixedWorkload && venue.Kind == wire.DefaultWorkload && p.Locks > 3 && p.rng.IntN(4) == 0 {
		// The exclusive locks are each third one.
		s.Group = newGroup(p.rng, (p.Locks+2)/3)
		for i := range s.Group.N {
			s.Group.Locks[i] *= 3
		}
		s.Group.Bound = true // the locks are rarely free together
		s.Bound = p.duration(max(100*p.Hold, 100*time.Millisecond))
	}
	if p.Kind == wire.AllWorkload {
		s.Group = newGroup(p.rng, p.Locks)
		if s.Group.N > 0 {
			s.Bound = p.duration(max(100*p.Hold, 100*time.Millisecond))
		}
	}
	if p.Greedy {
		return Step{Lock: s.Lock, Way: ByLock, Hold: s.Hold, Giving: ByUnlock, Read: s.Read}
	}
	return s
}

// duration returns a random duration, exponentially distributed around mean and
// cut off at eight times that.
func (p *Plan) duration(mean time.Duration) time.Duration {
	return time.Duration(min(p.rng.ExpFloat64(), 8) * float64(mean))
}

// mostTogether is how many locks a step of the workload all takes at most.
const mostTogether = 4

// A Group is the locks that a step takes: n of them, all different.
type Group struct {
	Locks [mostTogether]int
	N     int // 0: the step takes one lock, in one of the ways
	Nest  bool
	Bound bool // LockAll has a deadline
}

// newGroup returns what a step of the workload all takes. Of four steps, two call
// LockAll, one nests two single locks, and one takes a single lock.
func newGroup(rng *rand.Rand, locks int) (g Group) {
	switch rng.IntN(4) {
	case 0:
		return g
	case 1:
		g.N, g.Nest = 2, true
	default:
		g.N = min(2+rng.IntN(mostTogether-1), locks)
		g.Bound = rng.IntN(4) == 0
	}
	for i := range g.N {
		for g.Locks[i] = rng.IntN(locks); slices.Contains(g.Locks[:i], g.Locks[i]); {
			g.Locks[i] = rng.IntN(locks)
		}
	}
	return g
}
