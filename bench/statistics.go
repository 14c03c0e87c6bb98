// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// A spread summarizes the values of several rounds.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // lowest
	High   float64 `json:"high"` // highest
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s – %s)", number(s.Median), number(s.Low), number(s.High))
}

// MarshalJSON writes null for what JSON has no number for: infinity, of a ratio to
// nothing, and NaN.
func (s spread) MarshalJSON() ([]byte, error) {
	finite := func(v float64) *float64 {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(map[string]*float64{"median": finite(s.Median), "low": finite(s.Low), "high": finite(s.High)})
}

// over sorts values and returns their spread, which is NaN if there are none.
func over(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	slices.Sort(values)
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Low: values[0], High: values[n-1]}
}

// quantile returns the q-quantile of values in ascending order, or 0 if there are
// none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
