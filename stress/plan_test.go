// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"
)

func steps(p *plan, n int) (s []step) {
	for range n {
		s = append(s, p.next())
	}
	return s
}

func TestPlanFollowsFromTheSeed(t *testing.T) {
	s := settings{Seed: 7, Process: 1, Locks: 4, Hold: time.Millisecond, Think: 4 * time.Millisecond}
	const n = 100
	reference := steps(newPlan(s, 3), n)
	if !slices.Equal(reference, steps(newPlan(s, 3), n)) {
		t.Error("the same worker of the same seed has another plan the second time")
	}
	other := s
	other.Seed = 8
	if slices.Equal(reference, steps(newPlan(other, 3), n)) {
		t.Error("another seed gives the same plan")
	}
	other = s
	other.Process = 2
	if slices.Equal(reference, steps(newPlan(other, 3), n)) {
		t.Error("another process has the same plan")
	}
	if slices.Equal(reference, steps(newPlan(s, 4), n)) {
		t.Error("another worker has the same plan")
	}
}

// Of read/write locks so many steps are reads as were asked for, and some of
// either kind try to become the other.
func TestPlanReadsAndWrites(t *testing.T) {
	for _, ratio := range []float64{0, 0.25, 0.95, 1} {
		s := settings{Seed: 7, Locks: 4, Hold: time.Millisecond, Think: time.Millisecond, ReadWrite: true, ReadRatio: ratio}
		const n = 5000
		reads, turns := 0, map[bool]int{}
		for _, s := range steps(newPlan(s, 3), n) {
			if s.read {
				reads++
			}
			if s.turn {
				turns[s.read]++
			}
		}
		if got := float64(reads) / n; got < ratio-0.03 || got > ratio+0.03 || ratio == 1 && reads < n || ratio == 0 && reads > 0 {
			t.Errorf("%d of %d steps are reads, want %v", reads, n, ratio)
		}
		if turns[true] == 0 && ratio > 0 || turns[false] == 0 && ratio < 1 {
			t.Errorf("with %v, nobody goes from one to the other: %v", ratio, turns)
		}
	}
	for _, s := range steps(newPlan(settings{Seed: 7, Locks: 4}, 3), 100) {
		if s.read || s.turn {
			t.Fatalf("a plan for exclusive locks has %+v", s)
		}
	}
}

// A greedy worker neither pauses nor gives up, in whatever it does.
func TestPlanOfTheGreedy(t *testing.T) {
	s := settings{Seed: 7, Locks: 2, Hold: time.Millisecond, Greedy: true, ReadWrite: true, ReadRatio: 0.5}
	locks, reads := map[int]int{}, map[bool]int{}
	for _, s := range steps(newPlan(s, 3), 1000) {
		locks[s.lock]++
		reads[s.read]++
		if want := (step{lock: s.lock, read: s.read, hold: s.hold, way: byLock, giving: byUnlock}); s != want {
			t.Fatalf("got %+v, want %+v", s, want)
		}
	}
	if len(locks) != 2 || len(reads) != 2 {
		t.Errorf("locks %v, reads %v: something never comes", locks, reads)
	}
}

// A plan has everything in it that there is to do.
func TestPlanHasEverything(t *testing.T) {
	s := settings{Seed: 1, Locks: 3, Hold: time.Millisecond, Think: 4 * time.Millisecond}
	locks, taken, inside, givings := map[int]int{}, map[way]int{}, map[nested]int{}, map[giving]int{}
	var hold time.Duration
	const n = 5000
	for _, s := range steps(newPlan(s, 0), n) {
		locks[s.lock]++
		taken[s.way]++
		inside[s.nested]++
		givings[s.giving]++
		hold += s.hold
		if s.hold < 0 || s.think < 0 || s.bound < 0 {
			t.Fatalf("a negative duration in %+v", s)
		}
	}
	if len(locks) != 3 || len(taken) != int(byGivingUp)+1 || len(inside) != int(numNested) || len(givings) != int(numGiving) {
		t.Errorf("locks %v, ways %v, nested %v, givings %v: something never comes", locks, taken, inside, givings)
	}
	if mean := hold / n; mean < 800*time.Microsecond || mean > 1200*time.Microsecond {
		t.Errorf("the holds last %v on average, want about 1ms", mean)
	}
}
