// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A plan is what the seed decides before anything runs.
type plan struct {
	seed      uint64
	processes int
	workers   int // in each process
	ops       int // to be done by all workers together, at least
	faults    int // to strike, at least
	pause     time.Duration
	latency   time.Duration // the most that a request takes to be executed
	grain     time.Duration // all times that are drawn are multiples of it, so that much comes together
	tick      time.Duration // of the server
	timeout   time.Duration // of the sessions
	tenure    time.Duration
	margin    time.Duration // Config.LostMargin
	sequence  int32         // of the first node in each directory
	yield     uint32        // a woven point yields once in so many times; 0: never
	stall     time.Duration // how long a goroutine can be held up at some points

	// What a simulation of some seeds dwells on.
	focus  string
	locks  []int    // which of a process's locks are taken, each as often as it is here
	long   int      // once in so many times somebody stays inside for long
	down   int      // a writer that has something to do downgrades once in so many times, about
	faulty []string // kinds of faults that come more often
	storm  bool     // pauses are short
}

// lastSafe is the last sequence number that says where its node stands in the
// queue; those from there to 2^31-1 are kept for creates that were under way.
const lastSafe = math.MaxInt32 + 1 - 1<<20

func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		seed:      seed,
		processes: 3 + rng.IntN(2),
		workers:   2 + rng.IntN(4),
		ops:       200 + rng.IntN(50),
		faults:    10 + rng.IntN(8),
		pause:     time.Millisecond * time.Duration(pick(rng, 2, 10, 40)),
		latency:   time.Millisecond * time.Duration(pick(rng, 0, 1, 3, 20)),
		grain:     time.Millisecond * time.Duration(pick(rng, 0, 1, 5)),
		tick:      time.Millisecond * time.Duration(pick(rng, 200, 500, 2000)),
		tenure:    time.Millisecond * time.Duration(pick(rng, 5, 20, 100, 1000, -1)),
		yield:     pick(rng, uint32(0), 2, 8, 40, 200),
	}
	p.timeout = min(max(2*p.tick, time.Second*time.Duration(pick(rng, 2, 4, 10))), 20*p.tick) // what the server grants
	p.focus, p.locks, p.long, p.down = "everything", []int{0, 0, 1, 2, 2, 3}, 30, 7
	switch rng.IntN(6) {
	case 0:
		p.focus, p.long, p.workers = "losses", 2, 2
		p.timeout = max(2*p.tick, 2*time.Second)
		p.faulty = []string{"silence", "silence", "silent connection", "refuse a process", "refuse all", "end a session"}
	case 1:
		p.focus, p.locks = "numbers that run out", []int{2, 2, 3, 3, 3}
		p.sequence = pick[int32](rng, lastSafe-3, lastSafe-30, lastSafe-30)
		p.latency = max(p.latency, time.Millisecond)
	case 2:
		p.focus, p.locks, p.workers, p.storm = "a rush", pick(rng, []int{0}, []int{2, 2, 2, 3}), 6, true
		p.tenure = 5 * time.Millisecond
		p.yield = pick(rng, uint32(2), 4)
	case 3:
		p.focus, p.locks, p.down = "names that come back", []int{2, 3, 3, 3}, 2
		p.faulty = []string{comesBack, comesBack, cleared, stranger}
	}
	p.stall = pick(rng, 0, p.timeout/200, p.timeout/50)
	if p.focus == "losses" {
		p.stall, p.yield = p.timeout/10, 2 // timers are late, too
	}
	if rng.IntN(3) == 0 {
		p.margin = p.timeout / 10
	}
	if rng.IntN(6) == 0 {
		p.sequence = pick[int32](rng, lastSafe-30, math.MaxInt32-60, math.MaxInt32)
	}
	return p
}

// upTo draws a time below d.
func (p plan) upTo(rng *rand.Rand, d time.Duration) time.Duration {
	if d <= p.grain {
		return time.Duration(rng.IntN(2)) * p.grain
	}
	t := time.Duration(rng.Int64N(int64(d)))
	if p.grain > 0 {
		t = t.Truncate(p.grain)
	}
	return t
}

// pick returns one of the values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

func (p plan) String() string {
	return fmt.Sprintf("focus on %s: %d processes × %d goroutines, %d operations, %d faults, pauses to %v, latency to %v, grain %v, tick %v, session timeout %v, tenure %v, lost margin %v, sequence from %d, yields 1 in %d, stalls to %v",
		p.focus, p.processes, p.workers, p.ops, p.faults, p.pause, p.latency, p.grain, p.tick, p.timeout, p.tenure, p.margin, p.sequence, p.yield, p.stall)
}
