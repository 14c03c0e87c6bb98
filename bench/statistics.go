// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
)

// A spread is what several rounds have come to.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // the lowest of the rounds
	High   float64 `json:"high"` // the highest
}

// over returns the spread of values, which it sorts; all NaN if there are none.
func over(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Low: values[0], High: values[n-1]}
}

// quantile returns the value that the share q of the values does not exceed; 0 if
// there are none. The values are in order.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
