// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/recipes/shards"
)

// moved counts the shards that have another owner afterwards, and those that must have one:
// those of members that have gone, and a full share, rounded down, for each newcomer.
func moved(before, after []string) (moves, least int) {
	there := make(map[string]int)
	for _, id := range after {
		there[id]++
	}
	had := make(map[string]int)
	for _, id := range before {
		had[id]++
	}
	delete(had, "") // which is no member
	for i := range before {
		if before[i] != after[i] {
			moves++
		}
	}
	for id, n := range had {
		if there[id] == 0 {
			least += n
		}
	}
	for id := range there {
		if had[id] == 0 {
			least += len(after) / len(there)
		}
	}
	return moves, least
}

func ids(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("process-", i))
	}
	return all
}

// Every shard has an owner, no member has two shards more than another, and neither the order of
// the ids nor an id that is there twice matters.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		who := rapid.SliceOfNDistinct(rapid.StringN(1, 20, 40), 1, 50, rapid.ID[string]).Draw(t, "ids")
		owners := shards.Assign(n, who)
		count := make(map[string]int)
		for i, id := range owners {
			if !slices.Contains(who, id) {
				t.Fatalf("shard %d is %q's", i, id)
			}
			count[id]++
		}
		least, most := n/len(who), (n+len(who)-1)/len(who)
		for _, id := range who {
			if has := count[id]; has < least || has > most {
				t.Fatalf("%q has %d of %d, and must have %d or %d", id, has, n, least, most)
			}
		}
		other := append(rapid.Permutation(who).Draw(t, "other"), who[0])
		if !slices.Equal(owners, shards.Assign(n, other)) {
			t.Fatal("the order of the ids matters")
		}
	})
	if got := shards.Assign(2, nil); len(got) != 2 || got[0] != "" {
		t.Errorf("without members: %q", got)
	}
}

// Few shards move when members come or go.
func TestAssignMoves(t *testing.T) {
	for _, tt := range []struct{ n, before, after int }{
		{200, 4, 5}, {200, 5, 4}, {200, 5, 3}, {200, 9, 10}, {200, 10, 9}, {1000, 10, 11}, {1000, 50, 51}, {12, 3, 4},
	} {
		moves, least := moved(shards.Assign(tt.n, ids(tt.before)), shards.Assign(tt.n, ids(tt.after)))
		t.Logf("%d shards, %d → %d members: %d move, least %d", tt.n, tt.before, tt.after, moves, least)
		if moves > 2*least {
			t.Errorf("%d shards, %d → %d members: %d move, although %d would do", tt.n, tt.before, tt.after, moves, least)
		}
	}
}

// The division is a contract between processes of different versions. If this test fails,
// give the algorithm another name.
func TestAssignStaysTheSame(t *testing.T) {
	for _, tt := range []struct {
		n    int
		want string
	}{
		{24, "cddacccadbadabbdbadbaccb"},
		{27, "cddaccdabbadabbdbaabaccbcdc"},
	} {
		got := strings.Join(shards.Assign(tt.n, []string{"a", "b", "c", "d"}), "")
		if got != tt.want {
			t.Errorf("%d shards among 4 are %q, and were %q", tt.n, got, tt.want)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, size := range []struct{ n, members int }{{200, 10}, {shards.MaxShards, 100}} {
		b.Run(fmt.Sprintf("shards=%d/members=%d", size.n, size.members), func(b *testing.B) {
			who := ids(size.members)
			for b.Loop() {
				shards.Assign(size.n, who)
			}
		})
	}
}
