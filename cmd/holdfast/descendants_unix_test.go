// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// requireDescendants ends a test that needs what only Linux has.
func requireDescendants(t *testing.T) {
	t.Helper()
	realzk.NotRun(t, "only on Linux a process adopts its orphaned descendants")
}

func childrenOf(*testing.T, int) []int { return nil }
