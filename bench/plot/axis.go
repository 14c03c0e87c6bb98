// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// An axis is an axis of a figure.
type axis struct {
	Label string   `json:"label"`
	Log   bool     `json:"log"`
	Min   *float64 `json:"min"`
}

// check returns an error if the values, in ascending order, cannot be shown.
func (a axis) check(values []float64) error {
	low := values[0]
	if a.Min != nil {
		if low < *a.Min {
			return fmt.Errorf("the axis begins at %v, above the value %v; lower its min", *a.Min, low)
		}
		low = *a.Min
	}
	if a.Log && low <= 0 {
		return fmt.Errorf("a logarithmic axis cannot show %v; leave it out, or make the axis linear", low)
	}
	return nil
}

// A scale is an axis with its ends and its ticks, in ascending order. Ticks without a
// label are minor.
type scale struct {
	low, high float64
	ticks     []plot.Tick
}

// most is the greatest number of ticks at values.
const most = 10

// at returns a scale with a tick at each value, if there are few.
func (a axis) at(values []float64) scale {
	if a.Min != nil && values[0] > *a.Min {
		values = slices.Insert(slices.Clone(values), 0, *a.Min)
	}
	if len(values) == 1 || len(values) > most {
		return a.over(values)
	}
	s := scale{low: values[0], high: values[len(values)-1]}
	for _, v := range values {
		s.ticks = append(s.ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return s
}

// over returns a scale from the first to the last value, extended to round numbers.
func (a axis) over(values []float64) scale {
	low, high := values[0], values[len(values)-1]
	if a.Min != nil {
		low = *a.Min
	}
	if a.Log {
		return decades(low, high)
	}
	return steps(low, high)
}

// steps returns a linear scale.
func steps(low, high float64) scale {
	if low == high {
		// Show a single value together with zero.
		low, high = min(low, 0), max(high, 0)
	}
	if low == high {
		high = 1
	}
	// The smallest of 1, 2 and 5 times a power of ten that makes at most eight steps.
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 8))))
	for _, m := range []float64{2, 2.5, 2} {
		if (high-low)/step <= 8 {
			break
		}
		step *= m
	}
	first, last := math.Floor(low/step), math.Ceil(high/step)
	s := scale{low: first * step, high: last * step}
	for i := first; i <= last; i++ {
		s.ticks = append(s.ticks, plot.Tick{Value: i * step, Label: number(i * step)})
	}
	return s
}

// decades returns a logarithmic scale with labels at the powers of ten, or, if there
// are few, at one, two and five times these.
func decades(low, high float64) scale {
	if low == high {
		low, high = low/2, high*2
	}
	few := high/low <= 100
	var round, all []plot.Tick // 1, 2, 5 times a power; all multiples
	for exp := int(math.Floor(math.Log10(low))) - 1; exp <= int(math.Ceil(math.Log10(high)))+1; exp++ {
		for m := 1; m < 10; m++ {
			// Parsing returns the value closest to the decimal number.
			value, err := strconv.ParseFloat(fmt.Sprintf("%de%d", m, exp), 64)
			if err != nil || value == 0 {
				continue // beyond the precision of a float64
			}
			t := plot.Tick{Value: value}
			isRound := m == 1 || m == 2 || m == 5
			if m == 1 || few && isRound {
				t.Label = number(value)
			}
			if isRound {
				round = append(round, t)
			}
			all = append(all, t)
		}
	}
	s := scale{low: low, high: high}
	for _, t := range round {
		if t.Value <= low {
			s.low = t.Value
		}
		if t.Value >= high {
			s.high = t.Value
			break
		}
	}
	for _, t := range all {
		if t.Value >= s.low && t.Value <= s.high {
			s.ticks = append(s.ticks, t)
		}
	}
	return s
}

// thin removes labels that would be closer than gap to the one before. where returns
// the position of a value, and size the extent of its label along the axis.
func (s *scale) thin(gap vg.Length, where func(value float64) vg.Length, size func(label string) vg.Length) {
	end := vg.Length(math.Inf(-1))
	for i := range s.ticks {
		t := &s.ticks[i]
		if t.Label == "" {
			continue
		}
		at, half := where(t.Value), size(t.Label)/2
		if at-half < end+gap {
			t.Label = ""
			continue
		}
		end = at + half
	}
}

// number formats a value for reading: 0.05, 1,024, 10M.
func number(v float64) string {
	suffix := ""
	if math.Abs(v) >= 1e6 {
		v, suffix = v/1e6, "M"
	}
	// Twelve digits exceed the precision of any measurement, and hide the rounding
	// of binary arithmetic.
	text := strconv.FormatFloat(v, 'g', 12, 64)
	if strings.Contains(text, "e") {
		return text + suffix
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimPrefix(whole, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if strings.HasPrefix(whole, "-") {
		digits = "−" + digits
	}
	if fraction != "" {
		digits += "." + fraction
	}
	return digits + suffix
}
