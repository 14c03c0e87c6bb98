// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"strings"
	"testing"
)

// A process is known by the name of any of its nodes. The memory for processes is
// bounded, and keeps those that are asked for.
func TestPeers(t *testing.T) {
	node := func(process, n int) string { return fmt.Sprintf("_c_%016x%016x-lock-%010d", process, n, n) }
	var p peers
	p.note(node(1, 7), author{label: "first"}, 1)
	by, known := p.find(node(1, 8))
	expect(t, known && by.label == "first", "another node of a known process: %+v, %t", by, known)
	for _, name := range []string{
		node(2, 7), "lock-0000000007", "_c_short", hex32 + "__lock__0000000007",
		"_c_00000000-0000-0001-0000-000000000007-lock-0000000007", // Curator's
	} {
		p.note(strings.Repeat("x", 40), author{label: "stray"}, 1)
		by, known := p.find(name)
		expect(t, !known, "%s is known as %+v", name, by)
	}
	for i := range 3 * maxRecentPeers {
		p.note(node(10+i, 0), author{pid: i}, 1)
		if _, known := p.find(node(1, i)); !known {
			t.Fatalf("a process that is asked for is forgotten after %d others", i)
		}
	}
	n := len(p.recent) + len(p.older)
	expect(t, n <= 2*maxRecentPeers, "%d processes are remembered, want at most %d", n, 2*maxRecentPeers)
	_, known = p.find(node(10, 0))
	expect(t, !known, "a process that was not asked for is remembered for ever")
}
