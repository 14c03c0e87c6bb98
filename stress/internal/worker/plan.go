// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A plan is an endless sequence of steps for one worker. It depends only on the
// seed and on which worker it is: the outcome of a step (granted, refused, timed
// out) does not affect later ones. So a seed determines what every worker
// attempts, in which order and with which pauses, but not how the workers' steps
// interleave; that is up to the network and the operating system.
type plan struct {
	wire.Workload
	rng *rand.Rand
}

// newPlan returns the plan of a worker.
func newPlan(s wire.Settings, worker int) *plan {
	return &plan{s.Workload, rand.New(rand.NewPCG(s.Seed, uint64(s.Process)<<32|uint64(worker)))}
}

// A step is one attempt to get a lock, and what to do with it.
type step struct {
	think  time.Duration // pause before the attempt
	lock   int
	way    way
	bound  time.Duration // of the wait, for the ways that have one
	hold   time.Duration // time inside
	nested nested
	order  bool // which of two handles is released first
	giving giving
	again  bool // release a second time, which must be refused

	group group // for the workload all

	// For the workload abandoned.
	panics   bool // panic in Do
	recovers bool // call Recovered if the lock was abandoned

	// For read/write locks.
	read  bool // take the read lock
	third bool // take the upgradable read lock
	turn  bool // from write, downgrade to read; from read, try to upgrade, which must be refused; from upgradable, upgrade
}

// A way is how a step acquires its lock.
type way int

const (
	byOnDone     way = iota // Acquire, and work in a function given to OnDone
	byWait                  // Acquire, and Wait on the future
	bySelect                // Acquire, and select on the future's Done
	byLock                  // Lock
	byDo                    // Do
	byTry                   // TryLock
	byDeadline              // Lock with a context that times out
	byCancel                // Acquire with a context that is cancelled, and Wait
	byWithdrawal            // Acquire with a context that is cancelled, and Done; Hold.Err tells whether the hold was withdrawn
	byGivingUp              // Acquire, and Release if not granted in time
)

// ways has each way as often as it is to be chosen.
var ways = []way{
	byOnDone, byOnDone, byOnDone,
	byWait, byWait, byWait,
	bySelect, bySelect, bySelect,
	byLock, byLock, byLock,
	byDo, byDo,
	byTry, byTry,
	byDeadline,
	byCancel,
	byWithdrawal,
	byGivingUp,
}

// nested is what a step does with further handles of its hold.
type nested int

const (
	plain           nested = iota
	byReenter              // Hold.Reenter
	byContext              // Lock with a context from Hold.Context
	byAcquireInside        // Acquire with such a context
	byTryInside            // TryLock with such a context
	byShare                // Hold.Share, for another goroutine
	numNested
)

// giving is how a step gives up its lock.
type giving int

const (
	byRelease     giving = iota // Release; a callback checks its future
	byReleaseWait               // Release, and Wait on its future
	byUnlock                    // Unlock
	numGiving
)

// next returns the next step. A greedy worker acquires, holds and releases, without
// a pause and without a bound on its wait.
func (p *plan) next() step {
	s := step{
		think:  p.duration(p.Think),
		lock:   p.rng.IntN(p.Venues()),
		way:    ways[p.rng.IntN(len(ways))],
		bound:  p.duration(max(2*p.Hold, 2*time.Millisecond)),
		hold:   p.duration(p.Hold),
		order:  p.rng.IntN(2) == 0,
		giving: giving(p.rng.IntN(int(numGiving))),
		again:  p.rng.IntN(8) == 0,
	}
	// Two steps of three use no further handle.
	if n := p.rng.IntN(3 * int(numNested-1)); n < int(numNested-1) {
		s.nested = nested(n + 1)
	}
	kind := p.KindOf(s.lock)
	if p.ReadWriteAt(s.lock) {
		s.read = p.rng.Float64() < p.ReadRatio
		s.turn = p.rng.IntN(4) == 0
	}
	if kind == wire.UpgradeWorkload && p.rng.IntN(4) == 0 {
		s.third, s.read, s.turn = true, false, p.rng.IntN(4) > 0
	}
	if p.Kind == wire.AbandonedWorkload {
		s.panics, s.recovers = p.rng.IntN(8) == 0, p.rng.IntN(4) == 0
	}
	if slices.Contains(wire.RecipeWorkloads, kind) {
		s.bound = p.duration(max(100*p.Hold, 200*time.Millisecond))
	}
	if p.Kind == wire.MixedWorkload && kind == wire.DefaultWorkload && p.Locks > 3 && p.rng.IntN(4) == 0 {
		// The exclusive locks are each third one.
		s.group = newGroup(p.rng, (p.Locks+2)/3)
		for i := range s.group.n {
			s.group.locks[i] *= 3
		}
		s.group.bound = true // the locks are rarely free together
		s.bound = p.duration(max(100*p.Hold, 100*time.Millisecond))
	}
	if p.Kind == wire.AllWorkload {
		s.group = newGroup(p.rng, p.Locks)
		if s.group.n > 0 {
			s.bound = p.duration(max(100*p.Hold, 100*time.Millisecond))
		}
	}
	if p.Greedy {
		return step{lock: s.lock, way: byLock, hold: s.hold, giving: byUnlock, read: s.read}
	}
	return s
}

// duration returns a random duration, exponentially distributed around mean and
// cut off at eight times that.
func (p *plan) duration(mean time.Duration) time.Duration {
	return time.Duration(min(p.rng.ExpFloat64(), 8) * float64(mean))
}
