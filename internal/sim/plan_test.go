// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A plan is what the seed decides before the simulation starts.
type plan struct {
	seed      uint64
	processes int
	workers   int           // in each process
	ops       int           // how many all workers do together, at least
	faults    int           // how many strike, at least
	quiet     time.Duration // the longest between two of them
	pause     time.Duration
	latency   time.Duration // the longest that the server takes for a request
	grain     time.Duration // random times are multiples of it, so that events coincide
	tick      time.Duration // of the server
	timeout   time.Duration // of the sessions
	tenure    time.Duration
	margin    time.Duration // Config.LostMargin
	sequence  int32         // of the first node in each directory
	yield     uint32        // one in this many woven points yields; 0: none
	stall     time.Duration // how long a goroutine can be held up at some points
	followers int           // goroutines that watch who holds a lock, throughout

	// Some seeds concentrate on something.
	focus  string
	locks  []int    // indexes of the process's locks to choose from; repeated ones are chosen more often
	long   int      // one in this many visits is long
	down   int      // one in this many acts of a writer is a downgrade
	faulty []string // kinds of faults that come more often
	storm  bool     // pauses are short
	mutex  bool     // workers use a mutex, too
	sieges bool     // workers besiege each other
	crowds bool     // workers acquire many locks at once
	stingy bool     // processes make few requests
	quorum quorum   // the servers
}

// lastSafe is the last sequence number that orders its node in the queue. Those
// above, up to 2^31-1, are reserved for creates that were in flight.
const lastSafe = math.MaxInt32 + 1 - 1<<20

func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan{
		seed:      seed,
		processes: 3 + rng.IntN(2),
		workers:   2 + rng.IntN(4),
		ops:       200 + rng.IntN(50),
		faults:    10 + rng.IntN(8),
		quiet:     120 * time.Millisecond,
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
		p.stall, p.yield = p.timeout/10, 2 // so that timers are late
	}
	if rng.IntN(3) == 0 {
		p.margin = p.timeout / 10
	}
	if rng.IntN(6) == 0 {
		p.sequence = pick[int32](rng, lastSafe-30, math.MaxInt32-60, math.MaxInt32)
	}
	p.followers = pick(rng, 0, 0, 1, 3, 6)
	if p.mutex = usesMutex(seed); p.mutex {
		p.ops *= 2 // half of them are on the mutex
	}
	if p.sieges = besieges(seed); p.sieges {
		p.besiege()
	}
	p.quorum = newQuorum(seed)
	p.quorum.adapt(&p)
	// Not in simulations that take long anyway.
	if p.crowds = crowds(seed) && !p.sieges && !p.quorum.stay; p.crowds && len(p.faulty) == 0 {
		p.faulty = []string{noDirectory, "drop reply", "cut"}
	}
	return p
}

// upTo returns a random duration below d.
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
	return fmt.Sprintf("focus on %s: %d processes × %d goroutines, %d operations, %d faults, pauses to %v, latency to %v, grain %v, tick %v, session timeout %v, tenure %v, lost margin %v, sequence from %d, yields 1 in %d, stalls to %v, %d followers, a mutex: %v, sieges: %v, crowds: %v, servers %+v",
		p.focus, p.processes, p.workers, p.ops, p.faults, p.pause, p.latency, p.grain, p.tick, p.timeout, p.tenure, p.margin, p.sequence, p.yield, p.stall, p.followers, p.mutex, p.sieges, p.crowds, p.quorum)
}
