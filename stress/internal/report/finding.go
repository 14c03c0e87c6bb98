// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

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
		one := finding{Finding: f, Index: i, At: v.clock(f.At), Place: place{at - 500_000, at + 500_000}}
		var numbers []string
		for _, n := range v.c.holders[i] {
			numbers = append(numbers, strconv.Itoa(n))
		}
		switch len(numbers) {
		case 0:
		case 1:
			one.Holders = "process " + numbers[0]
		default:
			one.Holders = "processes " + strings.Join(numbers, ", ")
		}
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

// MayHaveCost says of the faults by kind why one must not add up what they may have cost.
func (v view) MayHaveCost() string {
	sum := 0
	for _, f := range v.c.verdict.Faults {
		sum += f.Lost
	}
	if sum == 0 {
		return ""
	}
	return "A hold counts at each fault that may have cost it, so the numbers must not be added up: they make " +
		figures.Number(sum) + ", while " + count(v.c.verdict.LostHolds, "hold") + " " + was(v.c.verdict.LostHolds) + " lost in all."
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
