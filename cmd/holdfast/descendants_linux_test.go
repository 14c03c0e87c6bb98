// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"
	"testing"
)

// requireDescendants ends a test that needs what only Linux has.
func requireDescendants(*testing.T) {}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, parent int) (children []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && parentOf(e.Name()) == parent {
			children = append(children, pid)
		}
	}
	return children
}
