// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A step of the workload all takes 2 to 4 different locks at once, or two inside each
// other in any order, or one.
func TestGroups(t *testing.T) {
	for _, locks := range []int{2, 3, 10} {
		rng := rand.New(rand.NewPCG(7, uint64(locks)))
		sizes := map[int]int{}
		nested := map[bool]int{} // by whether the lower lock is the outer one
		bounded := 0
		for range 5000 {
			g := newGroup(rng, locks)
			all := g.Locks[:g.N]
			sorted := slices.Sorted(slices.Values(all))
			if len(slices.Compact(sorted)) != g.N || g.N > 0 && slices.Max(all) >= locks {
				t.Fatalf("of %d locks it takes %v", locks, all)
			}
			switch {
			case g.Nest:
				if g.N != 2 {
					t.Fatalf("it nests %v", all)
				}
				nested[all[0] < all[1]]++
			default:
				sizes[g.N]++
			}
			if g.Bound {
				bounded++
			}
		}
		if sizes[1] > 0 || sizes[0] < 1000 || sizes[2] < 500 || sizes[min(locks, mostTogether)] < 500 || bounded < 300 {
			t.Errorf("of %d locks: %v by size, %d with a deadline", locks, sizes, bounded)
		}
		if nested[true] < 400 || nested[false] < 400 {
			t.Errorf("of %d locks: it nests %v", locks, nested)
		}
	}
}
