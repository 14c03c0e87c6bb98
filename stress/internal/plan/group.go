// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"slices"
)

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
