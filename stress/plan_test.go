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
