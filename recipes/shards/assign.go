// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// algorithm names what Assign does. Processes that divide shards in another way must use
// another name.
const algorithm = "bounded-rendezvous-fnv1a-2"

// Assign returns the id of the member that is to own each of n shards, by its index, when
// the members with these ids are there: see the package documentation. If there
// is none, the owners are empty. The order of ids does not matter. Assign does no I/O.
func Assign(n int, ids []string) []string {
	owners := make([]string, n)
	if len(ids) == 0 {
		return owners
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	type pair struct {
		hash          uint64
		shard, member int
	}
	pairs := make([]pair, 0, n*len(ids))
	for member, id := range ids {
		h := fnv.New64a()
		_, _ = h.Write([]byte(id)) // it cannot fail
		seed := h.Sum64()
		for shard := range n {
			pairs = append(pairs, pair{mix(seed ^ mix(uint64(shard)+1)), shard, member})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(-cmp.Compare(a.hash, b.hash), cmp.Compare(a.member, b.member), cmp.Compare(a.shard, b.shard))
	})
	share, more := n/len(ids), n%len(ids) // more members can have one more than share
	given := make([]int, len(ids))
	has := make([]bool, n)
	for _, p := range pairs {
		if has[p.shard] || given[p.member] > share || given[p.member] == share && more == 0 {
			continue
		}
		if given[p.member] == share {
			more--
		}
		has[p.shard], owners[p.shard] = true, ids[p.member]
		given[p.member]++
	}
	return owners
}

// mix spreads the bits of x; different x give different results. It is the finalizer of
// MurmurHash3, without which FNV of similar texts is too regular.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
