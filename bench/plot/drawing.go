// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of the parts of a figure, in points.
const (
	margin      = 10
	titleHeight = 24
	labelHeight = 18  // of an axis
	plotWidth   = 380 // including ticks, excluding labels of axes
	plotHeight  = 270
	legendGap   = 16
)

var (
	titleStyle = textStyle(12, true)
	labelStyle = textStyle(11, false)
	tickStyle  = textStyle(10, false)
)

func textStyle(size vg.Length, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: color.Black, Font: f, Handler: plot.DefaultTextHandler}
}

// A drawing is a figure with its layout.
type drawing struct {
	title, x, y string
	plot        *plot.Plot // without title, labels of axes and legend
	legend      legend
	size, inner vg.Point // of the figure and of plot
}

// svg returns the figure as SVG.
func (f figure) svg() ([]byte, error) {
	d, err := f.layOut()
	if err != nil {
		return nil, err
	}
	c := vgsvg.New(d.size.X, d.size.Y)
	d.draw(draw.New(c))
	var buf bytes.Buffer
	if _, err := c.WriteTo(&buf); err != nil {
		return nil, err
	}
	// If Liberation Sans is missing, the others have letters of the same widths.
	text := bytes.ReplaceAll(buf.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	head, rest, ok := bytes.Cut(text, []byte("\n<g "))
	if !ok {
		return nil, errors.New("the figure has no content before which its style could stand")
	}
	return slices.Concat(head, []byte(darkStyle), []byte("\n<g "), rest), nil
}

// darkStyle exchanges black and white where the reader prefers dark pages. The colors of the
// series can be told apart on both.
const darkStyle = `
<style>@media (prefers-color-scheme: dark) {
 text { fill: #e6edf3 }
 path[style*="fill:#FFFFFF"] { fill: #0d1117 !important }
 path[style*="fill:#000000"] { fill: #e6edf3 !important }
 path[style*="stroke:#000000"] { stroke: #e6edf3 !important }
}</style>`

func (f figure) layOut() (drawing, error) {
	d := drawing{title: f.Title, x: f.X.Label, y: f.Y.Label, plot: plot.New(), legend: legend{f.Series}}
	// Texts enlarge the figure, so that nothing is cut off.
	d.inner = vg.Point{X: max(plotWidth, labelStyle.Width(d.x)), Y: max(plotHeight, labelStyle.Width(d.y), d.legend.height())}
	d.size.X = 2*margin + max(labelHeight+d.inner.X+legendGap+d.legend.width(), titleStyle.Width(d.title))
	d.size.Y = 2*margin + labelHeight + d.inner.Y
	if d.title != "" {
		d.size.Y += titleHeight
	}

	p := d.plot
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font = tickStyle.Font
		a.Tick.Length = 5
		a.Padding = 4
	}
	if f.X.Log {
		p.X.Scale = plot.LogScale{}
	}
	if f.Y.Log {
		p.Y.Scale = plot.LogScale{}
	}
	light := draw.LineStyle{Color: color.Gray{Y: 0xdd}, Width: 0.5}
	p.Add(&plotter.Grid{Vertical: light, Horizontal: light})
	for _, emphasis := range []bool{false, true} { // emphasized series are on top
		for i, s := range f.Series {
			if s.Emphasis != emphasis || !s.measured() {
				continue
			}
			if err := f.add(p, s, looks[i]); err != nil {
				return drawing{}, fmt.Errorf("series %q: %w", s.Name, err)
			}
		}
	}

	xs, ys := f.values()
	x, y := f.X.at(xs), f.Y.over(ys)
	if f.Kind == kindCDF {
		x = f.X.over(xs)
	}
	setTicks := func() {
		p.X.Min, p.X.Max, p.X.Tick.Marker = x.low, x.high, plot.ConstantTicks(x.ticks)
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = y.low, y.high, plot.ConstantTicks(y.ticks)
	}
	setTicks()
	// Only now their distances are known.
	area := p.DataCanvas(draw.NewCanvas(nil, d.inner.X, d.inner.Y))
	x.thin(6, func(v float64) vg.Length { return area.X(p.X.Norm(v)) }, tickStyle.Width)
	y.thin(2, func(v float64) vg.Length { return area.Y(p.Y.Norm(v)) }, tickStyle.Height)
	setTicks()
	return d, nil
}

// add adds a series to the plot.
func (f figure) add(p *plot.Plot, s series, l look) error {
	curve := s.line()
	marks, steps := curve, plotter.NoStep
	if f.Kind == kindCDF {
		curve, marks, steps = s.distribution()
	}
	if bars := s.errorBars(); len(bars.XYs) > 0 {
		drawn, err := plotter.NewYErrorBars(bars)
		if err != nil {
			return err
		}
		drawn.LineStyle = l.errorBar(s.Emphasis)
		p.Add(drawn)
	}
	line, err := plotter.NewLine(curve)
	if err != nil {
		return err
	}
	line.LineStyle, line.StepStyle = l.line(s.Emphasis), steps
	points, err := plotter.NewScatter(marks)
	if err != nil {
		return err
	}
	points.GlyphStyle = l.glyph(s.Emphasis)
	p.Add(line, points)
	return nil
}

// draw draws on c, which has the size of the drawing.
func (d drawing) draw(c draw.Canvas) {
	// White, unless the reader prefers dark pages: see darkStyle.
	c.SetColor(color.White)
	c.Fill(c.Path())

	c = draw.Crop(c, margin, -margin, margin, -margin)
	if d.title != "" {
		c.FillText(titleStyle, vg.Point{X: c.Min.X, Y: c.Max.Y - titleStyle.FontExtents().Ascent}, d.title)
		c.Max.Y -= titleHeight
	}
	inner := draw.Crop(c, labelHeight, 0, labelHeight, 0)
	inner.Max.X = inner.Min.X + d.inner.X
	d.plot.Draw(inner)
	d.legend.draw(draw.Crop(c, labelHeight+d.inner.X+legendGap, 0, 0, 0))

	// Center the labels of the axes on the data, if there is room. (gonum would
	// place them elsewhere on logarithmic axes.)
	area := d.plot.DataCanvas(inner)
	label, half := labelStyle, labelStyle.Width(d.x)/2
	label.XAlign = draw.XCenter
	x := min(max(area.Center().X, inner.Min.X+half), inner.Max.X-half)
	c.FillText(label, vg.Point{X: x, Y: c.Min.Y + label.FontExtents().Descent}, d.x)
	half = labelStyle.Width(d.y) / 2
	label.Rotation = math.Pi / 2
	y := min(max(area.Center().Y, inner.Min.Y+half), inner.Max.Y-half)
	c.FillText(label, vg.Point{X: c.Min.X + label.FontExtents().Ascent, Y: y}, d.y)
}
