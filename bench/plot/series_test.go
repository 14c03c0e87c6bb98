// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/plot/plotter"
)

func TestDistribution(t *testing.T) {
	upTo := func(n int) (samples []float64) {
		for i := range n {
			samples = append(samples, float64(n-i)) // in any order
		}
		return samples
	}
	for _, tt := range []struct {
		samples []float64
		corners int
		end     plotter.XY
		marks   string
		kind    plotter.StepKind
	}{
		{[]float64{7}, 2, plotter.XY{X: 7, Y: 1}, "[{7 0.25} {7 0.5} {7 0.75} {7 0.9} {7 0.99}]", plotter.PostStep},
		{upTo(4), 5, plotter.XY{X: 4, Y: 1}, "[{1 0.25} {2 0.5} {3 0.75} {4 0.9} {4 0.99}]", plotter.PostStep},
		{upTo(100), 101, plotter.XY{X: 100, Y: 1}, "[{25 0.25} {50 0.5} {75 0.75} {90 0.9} {99 0.99}]", plotter.PostStep},
		{upTo(5000), 201, plotter.XY{X: 5000, Y: 1}, "[{1250 0.25} {2500 0.5} {3750 0.75} {4500 0.9} {4950 0.99}]", plotter.NoStep},
	} {
		n := len(tt.samples)
		curve, marks, kind := series{Samples: tt.samples}.distribution()
		if want := (plotter.XY{X: slices.Min(tt.samples), Y: 0}); curve[0] != want {
			t.Errorf("%d samples: the curve begins at %v, want %v", n, curve[0], want)
		}
		if len(curve) != tt.corners || curve[len(curve)-1] != tt.end {
			t.Errorf("%d samples: the curve has %d corners and ends at %v, want %d and %v", n, len(curve), curve[len(curve)-1], tt.corners, tt.end)
		}
		for _, p := range curve[1:] {
			// Of the numbers from 1 to n, x are at most x.
			if n > 1 && p.Y != p.X/float64(n) {
				t.Errorf("%d samples: the curve goes through %v", n, p)
			}
		}
		if got := fmt.Sprint(marks); got != tt.marks {
			t.Errorf("%d samples: marks at %s, want %s", n, got, tt.marks)
		}
		if kind != tt.kind {
			t.Errorf("%d samples: steps of kind %d, want %d", n, kind, tt.kind)
		}
	}
}
