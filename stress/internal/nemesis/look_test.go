// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"fmt"
	"slices"
	"testing"
)

// Look tells the nodes of worker processes by their sessions, and leaves out others'.
func TestLook(t *testing.T) {
	f := newFake()
	f.nodes["/root/lock-a/_c_000000000000000000000000000000ff-lock-0000000001"] = true // of another client
	for process, node := range []string{"__READ__0000000001", "__WRIT__0000000001", "__READ__0000000002", "__READ__0000000003", "README"} {
		f.nodes[fmt.Sprintf("/root/downgraded/_c_%032x-%s", process+1, node)] = true
	}
	dirs := map[string]string{"a": "/root/lock-a", "b": "/root/lock-b", "c": "/root/downgraded", "none": "/root/none"}
	holders, waiters, err := Look(f.Tree(), dirs, func(session int64) (int, bool) { return int(session) - 1, session > 1 })
	if err != nil {
		t.Fatal(err)
	}
	// Process 0 has session 1, which the function above does not know.
	want := []Place{
		{Process: 3, Lock: "b", Node: fakeNode(3, "lock-b", 17)},
		{Process: 1, Lock: "c", Node: fmt.Sprintf("/root/downgraded/_c_%032x-__WRIT__0000000001", 2)},
	}
	if !slices.Equal(holders, want) {
		t.Errorf("holders %v, want %v", holders, want)
	}
	var got []string
	for _, w := range waiters {
		got = append(got, fmt.Sprintf("%d %s", w.Process, w.Lock))
	}
	if want := []string{"1 a", "2 a", "3 a", "2 b", "1 b", "2 c", "3 c"}; !slices.Equal(got, want) {
		t.Errorf("waiters %v, want %v", got, want)
	}
}
