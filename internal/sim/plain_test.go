// SPDX-License-Identifier: Apache-2.0

//go:build !woven

package sim

import (
	"fmt"
	"testing"
)

// TestSeeds simulates some seeds. Go's scheduler takes part in what happens: only a
// woven program repeats a simulation exactly.
func TestSeeds(t *testing.T) {
	for s := *first; s < *first+uint64(*seeds); s++ {
		t.Run(fmt.Sprint(s), func(t *testing.T) { runSeed(t, s, false) })
	}
}
