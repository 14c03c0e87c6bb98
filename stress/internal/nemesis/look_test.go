// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestContenders(t *testing.T) {
	const guid = "_c_0123456789abcdef0123456789abcdef-"
	for _, tt := range []struct {
		name  string
		nodes string // without the guid
		holds string // the nodes that hold the lock, in the order of the queue
		waits string
	}{
		{"nothing", "", "", ""},
		{"a queue", "lock-0000000012 lock-0000000007 lock-0000000009", "lock-0000000007", "lock-0000000009 lock-0000000012"},
		{"readers before a writer", "__READ__0000000003 __READ__0000000001 __WRIT__0000000004 __READ__0000000005",
			"__READ__0000000001 __READ__0000000003", "__WRIT__0000000004 __READ__0000000005"},
		{"a writer before readers", "__READ__0000000002 __WRIT__0000000001 __READ__0000000003", "__WRIT__0000000001", "__READ__0000000002 __READ__0000000003"},
		{"a downgrade", "__READ__0000000001 __WRIT__0000000001 __READ__0000000002", "__WRIT__0000000001", "__READ__0000000001 __READ__0000000002"},
		{"strangers", "README lock-7 qn-0000000001 lease-0000000000 lock-0000000008 lock--000000009 lock-00000000x8", "lock-0000000008", ""},
		{"a latch", "latch-0000000002 latch-0000000001", "latch-0000000001", "latch-0000000002"},
		{"kazoo's", "__lock__0000000001 lock-0000000002", "__lock__0000000001", "lock-0000000002"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var names []string
			for node := range strings.FieldsSeq(tt.nodes) {
				names = append(names, guid+node)
			}
			var holds, waits []string
			for _, c := range contenders(names) {
				if name := strings.TrimPrefix(c.name, guid); c.holds {
					holds = append(holds, name)
				} else {
					waits = append(waits, name)
				}
			}
			if got := strings.Join(holds, " "); got != tt.holds {
				t.Errorf("holds: %q, want %q", got, tt.holds)
			}
			if got := strings.Join(waits, " "); got != tt.waits {
				t.Errorf("waits: %q, want %q", got, tt.waits)
			}
		})
	}
}

// Look tells the nodes of worker processes by their sessions, and leaves out others'.
func TestLook(t *testing.T) {
	f := newFake()
	f.nodes["/root/lock-a/_c_000000000000000000000000000000ff-lock-0000000001"] = true // of another client
	dirs := map[string]string{"a": "/root/lock-a", "b": "/root/lock-b", "none": "/root/none"}
	holders, waiters, err := Look(f.Tree(), dirs, func(session int64) (int, bool) { return int(session) - 1, session > 1 })
	if err != nil {
		t.Fatal(err)
	}
	// Process 0 has session 1, which the function above does not know.
	want := []Place{{Process: 3, Lock: "b", Node: fakeNode(3, "lock-b", 17)}}
	if !slices.Equal(holders, want) {
		t.Errorf("holders %v, want %v", holders, want)
	}
	var got []string
	for _, w := range waiters {
		got = append(got, fmt.Sprintf("%d %s", w.Process, w.Lock))
	}
	if want := []string{"1 a", "2 a", "3 a", "2 b", "1 b"}; !slices.Equal(got, want) {
		t.Errorf("waiters %v, want %v", got, want)
	}
}
