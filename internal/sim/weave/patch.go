// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// A patch is a change of one file.
type patch struct {
	file  string // below GOROOT/src, or below the module's root
	edits []edit
	tail  string // appended
}

// An edit replaces old, which must occur exactly once.
type edit struct{ old, new string }

// clockPatch changes a file of this module.
var clockPatch = patch{
	file: "zkio/clock.go",
	edits: []edit{{
		"c.suspended = systemSuspended",
		"c.suspended = func() time.Duration { return 0 }",
	}},
}

var patches = []patch{
	{
		file: "runtime/rand.go",
		edits: []edit{
			{"\t\t\tseed[i%len(seed)] ^= c\n", "\t\t\t_ = c\n\t\t\tseed[i%len(seed)] ^= 1\n"},
			{"\nfunc rand() uint64 {\n", "\nfunc rand() uint64 {\n\tif holdfastSeeded {\n\t\treturn holdfastNext()\n\t}\n"},
		},
		// With one P, no two goroutines run this at the same time.
		tail: `
var (
	holdfastSeeded bool
	holdfastState  uint64
)

//go:nosplit
func holdfastNext() uint64 {
	holdfastState += 0x9e3779b97f4a7c15
	z := holdfastState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func holdfastRand() uint32 {
	if holdfastSeeded {
		return uint32(holdfastNext() >> 32)
	}
	return cheaprand()
}

//go:linkname holdfastSeed
func holdfastSeed(seed uint64) {
	holdfastState = seed
	holdfastSeeded = true
}
`,
	},
	// Of the runtime's cheap random numbers, those that decide an order. It draws
	// others for itself, some of them at random moments.
	{
		file:  "runtime/select.go",
		edits: []edit{{"\t\tj := cheaprandn(uint32(norder + 1))\n", "\t\tj := uint32((uint64(holdfastRand()) * uint64(norder+1)) >> 32)\n"}},
	},
	{
		file:  "runtime/sema.go",
		edits: []edit{{"\ts.ticket = cheaprand() | 1\n", "\ts.ticket = holdfastRand() | 1\n"}},
	},
	{
		file:  "runtime/time.go",
		edits: []edit{{"\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = holdfastRand()\n"}},
	},
	{
		file:  "runtime/proc.go",
		edits: []edit{{"\nconst haveSysmon = GOARCH != \"wasm\"\n", "\nconst haveSysmon = false\n"}},
	},
	{
		// After a real millisecond, a waiter would be handed the mutex directly.
		file:  "internal/sync/mutex.go",
		edits: []edit{{"\tstarvationThresholdNs = 1e6\n", "\tstarvationThresholdNs = 1e18\n"}},
	},
}

func (p patch) apply(src string) (string, error) {
	for _, e := range p.edits {
		if n := strings.Count(src, e.old); n != 1 {
			return "", fmt.Errorf("%q occurs %d times, not once", strings.TrimSpace(e.old), n)
		}
		src = strings.Replace(src, e.old, e.new, 1)
	}
	return src + p.tail, nil
}
