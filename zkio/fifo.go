// SPDX-License-Identifier: Apache-2.0

package zkio

// A fifo is an unbounded first-in, first-out queue: a ring that grows when it is
// full, and is dropped when a large one runs empty. A list would allocate for each
// element, and a slice cut at the front be copied again and again. Its owner
// serializes the access to it.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

// fifoKeep is the largest ring that an empty queue holds on to.
const fifoKeep = 1024

func (q *fifo[T]) len() int { return q.n }

// at returns the element that i elements are ahead of.
func (q *fifo[T]) at(i int) T { return q.ring[(q.head+i)%len(q.ring)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.ring) {
		ring := make([]T, max(16, 2*len(q.ring)))
		k := copy(ring, q.ring[q.head:])
		copy(ring[k:], q.ring[:q.head])
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = v
	q.n++
}

// pop takes the oldest element; the queue must not be empty.
func (q *fifo[T]) pop() T {
	var zero T
	v := q.ring[q.head]
	q.ring[q.head] = zero // no reference is kept to what has left
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	if q.n == 0 && len(q.ring) > fifoKeep {
		q.ring, q.head = nil, 0
	}
	return v
}
