// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
	"github.com/holdfast-go/holdfast/internal/figures"
)

// setAxis lets an axis show values, of which there are some, in any order. There is a tick
// at each, if atValues, and if they are few. It sets what the label does not determine.
func setAxis(to *plot.Axis, a chart.Axis, values []float64, atValues bool) error {
	slices.Sort(values)
	values = slices.Compact(values)
	low, high := values[0], values[len(values)-1]
	if low < 0 || a.Log && low == 0 {
		return fmt.Errorf("the axis %q cannot show %v", a.Label, low)
	}
	var ticks []plot.Tick
	switch {
	case atValues && len(values) > 1 && len(values) <= 10:
		for _, v := range values {
			ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
		}
	case a.Log:
		ticks = decades(low, high)
	default:
		ticks = steps(high)
	}
	if a.Log {
		to.Scale = plot.LogScale{}
	}
	to.Min, to.Max, to.Tick.Marker = ticks[0].Value, ticks[len(ticks)-1].Value, plot.ConstantTicks(ticks)
	return nil
}

// steps returns the ticks of a linear scale from 0 to high or above.
func steps(high float64) (ticks []plot.Tick) {
	if high == 0 {
		high = 1
	}
	// The smallest of 1, 2 and 5 times a power of ten that makes at most eight steps.
	step := math.Pow10(int(math.Floor(math.Log10(high / 8))))
	for _, m := range []float64{2, 2.5, 2} {
		if high/step > 8 {
			step *= m
		}
	}
	for i := range int(math.Ceil(high/step)) + 1 {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v)})
	}
	return ticks
}

// decades returns the ticks of a logarithmic scale, at all multiples of the powers of ten. It
// goes from low or below to high or above, to one, two or five times such a power. Labels are
// at the powers, or, if these are few, at two and five times them, too; the other ticks are
// minor.
func decades(low, high float64) (ticks []plot.Tick) {
	if low == high {
		low, high = low/2, high*2
	}
	few := high <= 100*low
	for exp := int(math.Floor(math.Log10(low))); ; exp++ {
		for m := 1.0; m < 10; m++ {
			t := plot.Tick{Value: m * math.Pow10(exp)}
			round := m == 1 || m == 2 || m == 5
			if m == 1 || few && round {
				t.Label = number(t.Value)
			}
			if round && t.Value <= low {
				ticks = nil // the scale begins here, or later
			}
			if ticks = append(ticks, t); round && t.Value >= high {
				return ticks
			}
		}
	}
}

// number formats a value for reading: 0.05, 1,024.
func number(v float64) string {
	if v >= 1000 {
		return figures.Number(int64(math.Round(v)))
	}
	// Twelve digits exceed the precision of any measurement, and hide the rounding of
	// binary arithmetic.
	return strconv.FormatFloat(v, 'g', 12, 64)
}
