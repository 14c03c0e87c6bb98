// SPDX-License-Identifier: Apache-2.0

package checker

import "testing"

// A store numbers states in order, whatever their hashes: bad hashes make it slow,
// not wrong.
func TestStore(t *testing.T) {
	for name, hash := range map[string]func([2]int) uint64{
		"its own hash":     newStore[[2]int]().hash,
		"the same for all": func([2]int) uint64 { return 7 },
		"the last slot":    func([2]int) uint64 { return firstSlots - 1 },
		"of four values":   func(s [2]int) uint64 { return uint64(s[0] % 4) },
	} {
		s := newStore[[2]int]()
		s.hash = hash
		const n = firstSlots + 10 // so that the table grows
		for round, added := range []bool{true, false} {
			for i := range n {
				if at, fresh := s.add([2]int{i, n - i}); int(at) != i || fresh != added {
					t.Fatalf("%s: state %d has number %d, added %t, in round %d", name, i, at, fresh, round)
				}
			}
		}
		if s.len() != n {
			t.Errorf("%s: %d states, want %d", name, s.len(), n)
		}
		for i := range int32(n) {
			if got := s.at(i); got != [2]int{int(i), n - int(i)} {
				t.Errorf("%s: state %d is %v", name, i, got)
			}
		}
	}
}

// Chunks do not mix states up.
func TestStoreChunks(t *testing.T) {
	s := newStore[int32]()
	const n = 3*chunkSize + 1
	for i := range int32(n) {
		s.add(i * 7)
	}
	for i := range int32(n) {
		if s.at(i) != i*7 {
			t.Fatalf("state %d is %d", i, s.at(i))
		}
	}
}
