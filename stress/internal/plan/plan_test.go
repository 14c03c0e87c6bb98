// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// steps returns the first n steps of a worker's plan.
func steps(s wire.Settings, worker, n int) (all []Step) {
	p := New(s, worker)
	for range n {
		all = append(all, p.Next())
	}
	return all
}

func TestPlanFollowsFromTheSeed(t *testing.T) {
	s := wire.Settings{Workload: wire.Workload{Seed: 7, Locks: 4, Hold: time.Millisecond, Think: 4 * time.Millisecond}, Process: 1}
	otherSeed, otherProcess := s, s
	otherSeed.Seed, otherProcess.Process = 8, 2
	first := steps(s, 3, 100)
	for _, tt := range []struct {
		name  string
		steps []Step
		same  bool
	}{
		{"the same worker", steps(s, 3, 100), true},
		{"another worker", steps(s, 4, 100), false},
		{"a worker of another process", steps(otherProcess, 3, 100), false},
		{"another seed", steps(otherSeed, 3, 100), false},
	} {
		if slices.Equal(first, tt.steps) != tt.same {
			t.Errorf("%s: the same plan is %v, want %v", tt.name, !tt.same, tt.same)
		}
	}
}

// A plan reads in the given share of its steps, and tries to downgrade and to
// upgrade in some.
func TestPlanReadsAndWrites(t *testing.T) {
	const n = 5000
	for _, ratio := range []float64{0, 0.25, 0.95, 1} {
		reads, turns := 0, map[bool]int{}
		for _, s := range steps(wire.Settings{Workload: wire.Workload{Seed: 7, Locks: 4, ReadWrite: true, ReadRatio: ratio}}, 3, n) {
			if s.Read {
				reads++
			}
			if s.Turn {
				turns[s.Read]++
			}
		}
		if got := float64(reads) / n; got < ratio-0.03 || got > ratio+0.03 || ratio == 1 && reads < n || ratio == 0 && reads > 0 {
			t.Errorf("%d of %d steps are reads, want %v", reads, n, ratio)
		}
		if (turns[true] == 0) != (ratio == 0) || (turns[false] == 0) != (ratio == 1) {
			t.Errorf("ratio %v: %d upgrades and %d downgrades", ratio, turns[true], turns[false])
		}
	}
	for _, s := range steps(wire.Settings{Workload: wire.Workload{Seed: 7, Locks: 4}}, 3, 100) {
		if s.Read || s.Turn {
			t.Fatalf("a plan for exclusive locks has %+v", s)
		}
	}
}

// A greedy worker never pauses and never gives up.
func TestPlanOfAGreedyWorker(t *testing.T) {
	locks, reads := map[int]int{}, map[bool]int{}
	for _, s := range steps(wire.Settings{Workload: wire.Workload{Locks: 2, Hold: time.Millisecond, Greedy: true, ReadWrite: true, ReadRatio: 0.5}}, 3, 1000) {
		locks[s.Lock]++
		reads[s.Read]++
		if want := (Step{Lock: s.Lock, Read: s.Read, Hold: s.Hold, Way: ByLock, Giving: ByUnlock}); s != want {
			t.Fatalf("got %+v, want %+v", s, want)
		}
	}
	if len(locks) != 2 || len(reads) != 2 {
		t.Errorf("locks %v, reads %v: something is missing", locks, reads)
	}
}

func TestPlanHasEverything(t *testing.T) {
	const n = 5000
	locks, taken, inside, givings := map[int]int{}, map[Way]int{}, map[Nested]int{}, map[Giving]int{}
	var hold time.Duration
	for _, s := range steps(wire.Settings{Workload: wire.Workload{Seed: 1, Locks: 3, Hold: time.Millisecond, Think: 4 * time.Millisecond}}, 0, n) {
		locks[s.Lock]++
		taken[s.Way]++
		inside[s.Nested]++
		givings[s.Giving]++
		hold += s.Hold
		if s.Hold < 0 || s.Think < 0 || s.Bound < 0 {
			t.Fatalf("a negative duration in %+v", s)
		}
	}
	if len(locks) != 3 || len(taken) != int(ByGivingUp)+1 || len(inside) != int(numNested) || len(givings) != int(numGiving) {
		t.Errorf("locks %v, ways %v, nested %v, givings %v: something is missing", locks, taken, inside, givings)
	}
	if mean := hold / n; mean < 800*time.Microsecond || mean > 1200*time.Microsecond {
		t.Errorf("the mean hold is %v, want about 1ms", mean)
	}
}
