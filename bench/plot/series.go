// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/plot/plotter"
)

// A series is the data of one subject.
type series struct {
	Name     string    `json:"name"`
	Emphasis bool      `json:"emphasis"`
	Points   []point   `json:"points"`
	Samples  []float64 `json:"samples"`
}

// A point is a measurement; Low and High are the ends of its error bar.
type point struct {
	X    float64  `json:"x"`
	Y    float64  `json:"y"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

func (s series) measured() bool { return len(s.Points)+len(s.Samples) > 0 }

func (s series) check(kind string) error {
	switch {
	case kind == kindLines && len(s.Samples) > 0:
		return errors.New("it has samples, which only a figure of kind cdf shows")
	case kind == kindCDF && len(s.Points) > 0:
		return errors.New("it has points, which a figure of kind cdf does not show; give samples")
	}
	for i, p := range s.Points {
		switch {
		case (p.Low == nil) != (p.High == nil):
			return fmt.Errorf("the point at x = %v has half an error bar; give low and high, or neither", p.X)
		case p.Low != nil && (*p.Low > p.Y || *p.High < p.Y):
			return fmt.Errorf("the error bar of the point at x = %v, from %v to %v, does not include its y, %v", p.X, *p.Low, *p.High, p.Y)
		case i > 0 && p.X <= s.Points[i-1].X:
			return fmt.Errorf("the point at x = %v follows the one at %v; sort points by x, and give one for each x", p.X, s.Points[i-1].X)
		}
	}
	return nil
}

// line returns the points for drawing.
func (s series) line() plotter.XYs {
	xys := make(plotter.XYs, len(s.Points))
	for i, p := range s.Points {
		xys[i] = plotter.XY{X: p.X, Y: p.Y}
	}
	return xys
}

// An errorBars has the points that have an error bar.
type errorBars struct {
	plotter.XYs
	plotter.YErrors
}

func (s series) errorBars() (bars errorBars) {
	for _, p := range s.Points {
		if p.Low != nil {
			bars.XYs = append(bars.XYs, plotter.XY{X: p.X, Y: p.Y})
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{p.Y - *p.Low, *p.High - p.Y})
		}
	}
	return bars
}

// percentiles are where a distribution has its marks.
var percentiles = []int{25, 50, 75, 90, 99}

// distribution returns the cumulative distribution of the samples and its
// percentiles. There must be samples. The curve has steps or, if there are too many to
// see, straight lines through some of its points and the last.
func (s series) distribution() (curve, marks plotter.XYs, kind plotter.StepKind) {
	const most = 200
	sorted := slices.Sorted(slices.Values(s.Samples))
	// The smallest sample that at least this share of them does not exceed.
	at := func(part, of int) plotter.XY {
		return plotter.XY{X: sorted[(part*len(sorted)+of-1)/of-1], Y: float64(part) / float64(of)}
	}
	kind = plotter.PostStep
	n := len(sorted)
	if n > most {
		kind, n = plotter.NoStep, most
	}
	curve = append(curve, plotter.XY{X: sorted[0], Y: 0})
	for i := range n {
		curve = append(curve, at(i+1, n))
	}
	for _, percent := range percentiles {
		marks = append(marks, at(percent, 100))
	}
	return curve, marks, kind
}
