// SPDX-License-Identifier: Apache-2.0

package history

// A numbered event has the number by which it was read.
type numbered struct {
	Event
	number uint64
}

// events is a heap: the earliest first. What ends comes before what begins at the same
// time.
type events []numbered

func (h events) Len() int      { return len(h) }
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h events) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.At != b.At {
		return a.At < b.At
	}
	if x, y := a.Kind == Granted, b.Kind == Granted; x != y && (a.Process != b.Process || a.Worker != b.Worker) {
		return y
	}
	return a.number < b.number
}
func (h *events) Push(x any) { *h = append(*h, x.(numbered)) }
func (h *events) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = numbered{}
	*h = (*h)[:last]
	return e
}
