// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"time"
)

// A plan is what one worker will do, step after step, for ever. It follows from
// the seed and the worker's place alone: what happens to a step (granted,
// refused, timed out) has no influence on the next. So a seed fixes what every
// worker attempts, in which order and with which pauses. It does not fix the
// schedule, how the workers' steps interleave: that is up to the network and
// to the operating systems, and two runs with one seed differ in it.
type plan struct {
	rng   *rand.Rand
	locks int
	hold  time.Duration
	think time.Duration

	greedy    bool
	readWrite bool
	readRatio float64
}

// newPlan returns the plan of a worker. A greedy one is to get in, stay inside
// for a moment, get out, and begin again at once: without a pause, and with
// nothing that ends a wait.
func newPlan(s settings, worker int) *plan {
	return &plan{
		rng:   rand.New(rand.NewPCG(s.Seed, uint64(s.Process)<<32|uint64(worker))),
		locks: s.Locks,
		hold:  s.Hold,
		think: s.Think,

		greedy:    s.Greedy,
		readWrite: s.ReadWrite,
		readRatio: s.ReadRatio,
	}
}

// A step is one attempt to get one lock, and what is done with it.
type step struct {
	think  time.Duration // before it
	lock   int
	way    way
	bound  time.Duration // of the wait, for the ways that have one
	hold   time.Duration // inside
	nested nested
	order  bool // which of two handles is released first
	giving giving
	again  bool // release a second time, which must be refused

	// Of read/write locks.
	read bool // it is a read
	turn bool // of a write: go on under the read lock; of a read: try to get the write lock, which must be refused
}

// A way is how a step gets its lock.
type way int

const (
	byOnDone     way = iota // Acquire, and the work is done by a function given to OnDone
	byWait                  // Acquire, and Wait on the future
	bySelect                // Acquire, and a select on the future's Done
	byLock                  // Lock
	byDo                    // Do
	byTry                   // TryLock
	byDeadline              // Lock with a context that times out
	byCancel                // Acquire with a context that is cancelled, and Wait
	byWithdrawal            // Acquire with a context that is cancelled, and Done alone: the hold itself says whether it was withdrawn
	byGivingUp              // Acquire, and Release if it is not granted in time
)

// The ways in the proportions in which they are taken.
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

// nested is what a step does inside with further handles.
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

// giving is how a step gives its lock up.
type giving int

const (
	byRelease     giving = iota // Release; a function looks at its future
	byReleaseWait               // Release, and Wait on its future
	byUnlock                    // Unlock
	numGiving
)

// next draws a step. It always takes the same number of draws from the
// generator, so that no step depends on what became of an earlier one.
func (p *plan) next() step {
	s := step{
		think:  p.duration(p.think),
		lock:   p.rng.IntN(p.locks),
		way:    ways[p.rng.IntN(len(ways))],
		bound:  p.duration(max(2*p.hold, 2*time.Millisecond)),
		hold:   p.duration(p.hold),
		order:  p.rng.IntN(2) == 0,
		giving: giving(p.rng.IntN(int(numGiving))),
		again:  p.rng.IntN(8) == 0,
	}
	// Two of three go in and out.
	if n := p.rng.IntN(3 * int(numNested-1)); n < int(numNested-1) {
		s.nested = nested(n + 1)
	}
	if p.readWrite {
		s.read = p.rng.Float64() < p.readRatio
		s.turn = p.rng.IntN(4) == 0
	}
	if p.greedy {
		return step{lock: s.lock, way: byLock, hold: s.hold, giving: byUnlock, read: s.read}
	}
	return s
}

// duration draws from an exponential distribution around mean, without its
// tail: many short ones, few long ones, none endless.
func (p *plan) duration(mean time.Duration) time.Duration {
	return time.Duration(min(p.rng.ExpFloat64(), 8) * float64(mean))
}
