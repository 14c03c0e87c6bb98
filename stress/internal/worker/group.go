// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math/rand/v2"
	"slices"
)

// mostTogether is how many locks a step of the workload all takes at most.
const mostTogether = 4

// A group is the locks that a step takes: n of them, all different.
type group struct {
	locks [mostTogether]int
	n     int // 0: the step takes one lock, in one of the ways
	nest  bool
	bound bool // LockAll has a deadline
}

// newGroup returns what a step of the workload all takes. Of four steps, two call
// LockAll, one nests two single locks, and one takes a single lock.
func newGroup(rng *rand.Rand, locks int) (g group) {
	switch rng.IntN(4) {
	case 0:
		return g
	case 1:
		g.n, g.nest = 2, true
	default:
		g.n = min(2+rng.IntN(mostTogether-1), locks)
		g.bound = rng.IntN(4) == 0
	}
	for i := range g.n {
		for g.locks[i] = rng.IntN(locks); slices.Contains(g.locks[:i], g.locks[i]); {
			g.locks[i] = rng.IntN(locks)
		}
	}
	return g
}
