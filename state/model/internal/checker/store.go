// SPDX-License-Identifier: Apache-2.0

package checker

import "hash/maphash"

// A store is a set of states, numbered in the order in which they were added. It
// keeps each state once, in chunks that never move, and finds it by a hash table
// of numbers. Two states are the same only if they are equal: the hash decides
// where to look, and nothing else.
type store[S comparable] struct {
	hash   func(S) uint64
	chunks [][]S
	count  int32
	slots  []int32 // number+1, or 0; a power of two of them
}

const (
	chunkSize  = 4096
	firstSlots = 1024
)

func newStore[S comparable]() *store[S] {
	seed := maphash.MakeSeed()
	return &store[S]{
		hash:  func(s S) uint64 { return maphash.Comparable(seed, s) },
		slots: make([]int32, firstSlots),
	}
}

func (t *store[S]) len() int32 { return t.count }

func (t *store[S]) at(i int32) S { return t.chunks[i/chunkSize][i%chunkSize] }

// add returns the number of s, and whether it was added just now.
func (t *store[S]) add(s S) (i int32, added bool) {
	slot := t.slot(s)
	if i := t.slots[slot]; i != 0 {
		return i - 1, false
	}
	i = t.count
	t.count++
	t.slots[slot] = i + 1
	if i%chunkSize == 0 {
		t.chunks = append(t.chunks, make([]S, 0, chunkSize))
	}
	last := &t.chunks[len(t.chunks)-1]
	*last = append(*last, s)
	if len(t.slots) < 2*int(t.count) {
		t.grow()
	}
	return i, true
}

// slot returns the slot that has the number of s, or the free one where it belongs.
func (t *store[S]) slot(s S) int {
	slot := int(t.hash(s) % uint64(len(t.slots)))
	for {
		i := t.slots[slot]
		if i == 0 || t.at(i-1) == s {
			return slot
		}
		slot = (slot + 1) % len(t.slots)
	}
}

// grow doubles the slots, so that at least half of them are free.
func (t *store[S]) grow() {
	t.slots = make([]int32, 2*len(t.slots))
	for i := range t.count {
		t.slots[t.slot(t.at(i))] = i + 1
	}
}
