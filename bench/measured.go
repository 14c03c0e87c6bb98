// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A result is the answer of a subject to a job.
type result = work.Result

// measured has the results by scenario, subject and round.
type measured struct {
	Scenarios map[string]map[string][]result
}

func newMeasured() *measured {
	return &measured{Scenarios: make(map[string]map[string][]result)}
}

// add adds the result of a round.
func (m *measured) add(scenario, subject string, r result) {
	if m.Scenarios[scenario] == nil {
		m.Scenarios[scenario] = make(map[string][]result)
	}
	m.Scenarios[scenario][subject] = append(m.Scenarios[scenario][subject], r)
}

// rate returns the entries per second.
func rate(r result) float64 { return float64(r.Entries) / r.Seconds }

// nanos returns the nanoseconds per entry, of one worker.
func nanos(r result) float64 { return 1e9 / rate(r) }

// allocs returns the allocations per pair.
func allocs(r result) float64 { return r.Allocs }

// extra returns a function that returns a figure of Result.Extra.
func extra(name string) func(result) float64 {
	return func(r result) float64 { return r.Extra[name] }
}

// tenths is like extra, but rounds to tenths: the two jobs whose difference it is
// do not begin and end with exactly the same number of requests.
func tenths(name string) func(result) float64 {
	return func(r result) float64 { return math.Round(10*r.Extra[name]) / 10 }
}

// wait returns a function that returns the quantile q of the waits, in microseconds.
func wait(q float64) func(result) float64 {
	return func(r result) float64 { return quantile(slices.Sorted(slices.Values(r.Waits)), q) }
}

// waitMillis is wait in milliseconds.
func waitMillis(q float64) func(result) float64 {
	return func(r result) float64 { return wait(q)(r) / 1e3 }
}

// values returns a figure for each round.
func (m *measured) values(scenario, subject string, of func(result) float64) []float64 {
	var values []float64
	for _, r := range m.Scenarios[scenario][subject] {
		values = append(values, of(r))
	}
	return values
}

// quotients divides the values of two figures, round by round.
func quotients(a, b []float64) []float64 {
	q := make([]float64, min(len(a), len(b)))
	for i := range q {
		q[i] = a[i] / b[i]
	}
	return q
}

// ratios returns, for each round, the rate of a subject in a scenario divided by
// that of subject2 in scenario2 in the same round.
func (m *measured) ratios(scenario, subject, scenario2, subject2 string) []float64 {
	return quotients(m.values(scenario, subject, rate), m.values(scenario2, subject2, rate))
}

// best returns the subject with the highest median rate, or "" if none was measured.
func (m *measured) best(scenario string, subjects []string) string {
	return m.least(scenario, subjects, func(r result) float64 { return -rate(r) })
}

// least returns the subject with the lowest median of a figure, or "" if none was
// measured.
func (m *measured) least(scenario string, subjects []string, of func(result) float64) (best string) {
	least := math.Inf(1)
	for _, s := range subjects {
		if median := over(m.values(scenario, s, of)).Median; median < least {
			best, least = s, median
		}
	}
	return best
}
