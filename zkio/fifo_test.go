// SPDX-License-Identifier: Apache-2.0

package zkio

import "testing"

func TestFIFO(t *testing.T) {
	var q fifo[int]
	in, out := 0, 0
	push := func(n int) {
		for range n {
			q.push(in)
			in++
		}
	}
	pop := func(n int) {
		for range n {
			if got := q.pop(); got != out {
				t.Fatalf("popped %d, want %d", got, out)
			}
			out++
		}
	}
	// Rounds that leave the head everywhere in the ring, and grow it there.
	for n := range 50 {
		push(n)
		pop(n / 2)
		if q.len() != in-out {
			t.Fatalf("len is %d, want %d", q.len(), in-out)
		}
	}
	pop(q.len())
	push(fifoKeep + 1)
	pop(fifoKeep + 1)
	if q.ring != nil {
		t.Errorf("an empty queue keeps a ring of %d", len(q.ring))
	}
	push(1)
	pop(1)
}
