// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/bench/internal/work"
)

// A result is what a subject answers to a job.
type result = work.Result

// measured is what has been measured: by cell, subject and round. What is absent
// was not asked for, or the subject is not there.
type measured struct {
	Cells map[string]map[string][]result
}

func newMeasured() *measured {
	return &measured{Cells: make(map[string]map[string][]result)}
}

// add adds a round's result.
func (m *measured) add(cell, subject string, r result) {
	if m.Cells[cell] == nil {
		m.Cells[cell] = make(map[string][]result)
	}
	m.Cells[cell][subject] = append(m.Cells[cell][subject], r)
}

// rate is how many entries there are in a second.
func rate(r result) float64 { return float64(r.Entries) / r.Seconds }

// allocs is how often memory is allocated per pair.
func allocs(r result) float64 { return r.Allocs }

// extra returns one of the result's own figures.
func extra(name string) func(result) float64 {
	return func(r result) float64 { return r.Extra[name] }
}

// tenths is extra, rounded: the two jobs whose difference it comes from do not begin
// and end alike, to some requests.
func tenths(name string) func(result) float64 {
	return func(r result) float64 { return math.Round(10*r.Extra[name]) / 10 }
}

// wait is the quantile q of the waits, in microseconds.
func wait(q float64) func(result) float64 {
	return func(r result) float64 { return quantile(slices.Sorted(slices.Values(r.Waits)), q) }
}

// values returns a figure of each round.
func (m *measured) values(cell, subject string, of func(result) float64) []float64 {
	var values []float64
	for _, r := range m.Cells[cell][subject] {
		values = append(values, of(r))
	}
	return values
}

// ratios returns, of each round, the rate of one subject in one cell by that of
// another in another. What is to be compared was done in the same round, by turns.
func (m *measured) ratios(cell, subject, cell2, subject2 string) []float64 {
	a, b := m.values(cell, subject, rate), m.values(cell2, subject2, rate)
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}

// best returns the subject with the highest median rate; "" if none was measured.
func (m *measured) best(cell string, subjects []string) (best string) {
	var most float64
	for _, s := range subjects {
		if median := over(m.values(cell, s, rate)).Median; median > most {
			best, most = s, median
		}
	}
	return best
}
