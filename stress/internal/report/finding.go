// SPDX-License-Identifier: Apache-2.0

package report

import "github.com/holdfast-go/holdfast/stress/internal/verdict"

// A finding is one of the verdict.
type finding struct {
	verdict.Finding
	Index   int // in the verdict
	At      string
	Place   place
	Holders string   // processes that held the lock then
	Active  []active // faults
}

// Findings returns what is wrong.
func (v view) Findings() folded[finding] {
	var all []finding
	for i, f := range v.c.verdict.Findings {
		at := v.c.micro(f.At)
		one := finding{Finding: f, Index: i, At: v.clock(f.At), Place: place{at - 500_000, at + 500_000}, Holders: numbered("process", "processes", v.c.holders[i])}
		for _, n := range f.Faults {
			if at, ok := v.c.faultAt[n]; ok {
				one.Active = append(one.Active, active{Fault: at + 1, Kind: v.c.hits[at].Kind})
			}
		}
		all = append(all, one)
	}
	return fold(all, openFindings)
}

// Standstills returns when the machine stood still.
func (v view) Standstills() folded[verdict.Standstill] {
	return fold(v.c.verdict.Standstills, openFindings)
}
