// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What an upgradable does that has put a writer's node into the queue.
func TestUpgrade(t *testing.T) {
	for _, test := range []struct {
		queue string
		own   string // the upgradable
		x     string // its writer's node
		want  string
	}{
		{"u1 w2", "u1", "w2", "enter"},
		{"u1 w2 r3 w4 u5", "u1", "w2", "enter"},
		{"r1 u2 w3", "u2", "w3", "wait for r1"},
		{"r1 u2 r3 w4", "u2", "w4", "wait for r3"},
		{"u1 r1 w2", "u1", "w2", "wait for r1"}, // one of our own, beside it
		{"u1 u2 w3", "u1", "w3", "enter"},
		{"u1 u2 r3 w4", "u1", "w4", "wait for r3"},
		{"u1 r2 u3 w4", "u1", "w4", "wait for r2"},

		// With other writers.
		{"u1 w2 w3", "u1", "w3", "enter"},
		{"u1 w2 u3 w4", "u1", "w4", "enter"},
		{"u1 w2 r3 w4", "u1", "w4", "shield beside w2"},
		{"u1 x2 r3 w4", "u1", "w4", "shield beside x2"},
		{"u1 w2 w3 r4 w5", "u1", "w5", "shield beside w2"},
		{"u1 w2 r3 w4 r5 w6", "u1", "w6", "shield beside w2"},
		{"r1 u2 w3 w4", "u2", "w4", "wait for r1"},
		{"r1 u2 w3 r4 w5", "u2", "w5", "shield beside w3, wait for r1"},

		// With the shield, beside the writer or alone.
		{"u1 w2 W2 r3 w4", "u1", "W2", "enter"},
		{"r1 u2 w3 W3 r4", "u2", "W3", "wait for r1"},
		{"u1 W2 r3", "u1", "W2", "enter"},

		// Numbers that have run out are behind it.
		{"u2147483646 w2147483647", "u1", "w2", "gone"},
		{"u1 w2 r2147483647 w2147483647", "u1", "w2", "enter"},

		// Without one of its nodes.
		{"u1 r2", "u1", "w3", "w3 is gone"},
		{"w3 r4", "u1", "w3", "gone"},
	} {
		mark := map[string]string{} // by name
		name := func(m string) string {
			n := contenderOf(t, strings.ToLower(m)).Name
			if m[0] == 'W' { // the shield
				n = strings.Replace(n, hex32, hex32b, 1)
			}
			mark[n] = m
			return n
		}
		var names []string
		for _, m := range strings.Fields(test.queue) {
			names = append(names, name(m))
		}
		slices.Reverse(names) // the order of a list says nothing
		own, x := name(test.own), name(test.x)
		u := List(names, false, 20).Upgrade(own, x)
		var got []string
		switch {
		case !u.Upgradable:
			got = append(got, "gone")
		case !u.Writer:
			got = append(got, test.x+" is gone")
		}
		if u.Shield != "" {
			got = append(got, "shield beside "+mark[u.Shield])
		}
		if u.Wait != "" {
			got = append(got, fmt.Sprintf("wait for %s", mark[u.Wait]))
		}
		if s := cmp.Or(strings.Join(got, ", "), "enter"); s != test.want {
			t.Errorf("%s, %s with %s: %s, want %s", test.queue, test.own, test.x, s, test.want)
		}
	}
}
