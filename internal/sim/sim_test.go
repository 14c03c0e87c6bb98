// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/sim/yield"
)

var (
	seeds = flag.Int("seeds", 20, "how many seeds to simulate")
	first = flag.Uint64("first", 1, "the first one of them")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runSeed simulates a seed. It prints what happened if that fails or show is true.
func runSeed(t *testing.T, seed uint64, show bool) (o outcome) {
	p := newPlan(seed)
	// A simulation in an endless loop must not use up the machine's memory.
	debug.SetMemoryLimit(2 << 30)
	cryptotest.SetGlobalRandom(t, seed)
	yield.Seed(seed, p.yield, p.stall)
	var lines []string
	defer func() { // also if the bubble's failure ends this goroutine
		if t.Failed() || show {
			fmt.Printf("what happened in seed %d (%d lines):\n%s\n", seed, len(lines), strings.Join(lines, "\n"))
		}
		if t.Failed() {
			t.Logf("to simulate it again: make sim SEED=%d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) { o = simulate(t, p, &lines) })
	o.Branches = yield.Counts()
	return o
}
