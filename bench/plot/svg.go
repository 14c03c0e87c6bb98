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
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
)

// The sizes of the parts of a figure, in points.
const (
	margin      = 10
	titleHeight = 24
	labelHeight = 18  // of an axis
	plotWidth   = 398 // with the ticks and the label of the axis
	plotHeight  = 288
	legendGap   = 16
	sampleWidth = 38 // of the line in front of a name in the legend
	sampleGap   = 6
	rowHeight   = 17 // of the legend
)

func textStyle(size vg.Length, bold bool) text.Style {
	s := text.Style{Color: color.Black, Font: plot.DefaultFont, Handler: plot.DefaultTextHandler}
	s.Font.Variant, s.Font.Size = "Sans", size
	if bold {
		s.Font.Weight = xfont.WeightBold
	}
	return s
}

// svg returns a chart as SVG.
func svg(c chart.Chart) ([]byte, error) {
	p, err := layOut(c)
	if err != nil {
		return nil, err
	}
	size := extent(c)
	canvas := vgsvg.New(size.X, size.Y)
	drawAll(draw.New(canvas), c, p)
	var buf bytes.Buffer
	if _, err := canvas.WriteTo(&buf); err != nil {
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

// extent returns the size of a figure. Long texts enlarge it.
func extent(c chart.Chart) vg.Point {
	var names vg.Length
	for _, s := range c.Series {
		name, style := legendText(s)
		names = max(names, style.Width(name))
	}
	return vg.Point{
		X: 2*margin + max(plotWidth+legendGap+sampleWidth+sampleGap+names, textStyle(12, true).Width(c.Title)),
		Y: 2*margin + titleHeight + plotHeight,
	}
}

// points are points as gonum takes them.
type points []chart.Point

func (p points) Len() int                       { return len(p) }
func (p points) XY(i int) (x, y float64)        { return p[i].X, p[i].Y }
func (p points) YError(i int) (low, up float64) { return p[i].Y - p[i].Low, p[i].High - p[i].Y }

// marked returns the points that get a mark: if they are many, as those of a distribution at
// each percent, the quartiles and what is rare.
func (p points) marked() points {
	if len(p) <= 20 {
		return p
	}
	var some points
	for _, percent := range []int{25, 50, 75, 90, 99} {
		some = append(some, p[percent*(len(p)-1)/100])
	}
	return some
}

// layOut returns the chart without its title, the labels of its axes, and its legend.
func layOut(c chart.Chart) (*plot.Plot, error) {
	if len(c.Series) > len(looks) {
		return nil, fmt.Errorf("it has %d series, and only %d are distinguishable; make it two", len(c.Series), len(looks))
	}
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font = textStyle(10, false).Font
		a.Tick.Length, a.Padding = 5, 4
	}
	light := draw.LineStyle{Color: color.Gray{Y: 0xdd}, Width: 0.5}
	p.Add(&plotter.Grid{Vertical: light, Horizontal: light})
	var xs, ys []float64
	for _, emphasis := range []bool{false, true} { // emphasized series are on top
		for i, s := range c.Series {
			if s.Emphasis != emphasis || len(s.Points) == 0 {
				continue
			}
			for _, p := range s.Points {
				xs, ys = append(xs, p.X), append(ys, p.Low, p.Y, p.High)
			}
			if err := add(p, s, looks[i]); err != nil {
				return nil, fmt.Errorf("series %q: %w", s.Name, err)
			}
		}
	}
	if len(xs) == 0 {
		return nil, errors.New("none of its series has points")
	}
	return p, errors.Join(setAxis(&p.X, c.X, xs, true), setAxis(&p.Y, c.Y, ys, false))
}

// add adds a series to the plot.
func add(p *plot.Plot, s chart.Series, l look) error {
	lineStyle, barStyle, markStyle := l.styles(s.Emphasis)
	uncertain := slices.DeleteFunc(slices.Clone(s.Points), func(p chart.Point) bool { return p.Low == p.High })
	if len(uncertain) > 0 {
		bars, err := plotter.NewYErrorBars(points(uncertain))
		if err != nil {
			return err
		}
		bars.LineStyle = barStyle
		p.Add(bars)
	}
	line, err := plotter.NewLine(points(s.Points))
	if err != nil {
		return err
	}
	marks, err := plotter.NewScatter(points(s.Points).marked())
	if err != nil {
		return err
	}
	line.LineStyle, marks.GlyphStyle = lineStyle, markStyle
	p.Add(line, marks)
	return nil
}

// legendText returns the text of a series in the legend, and its style.
func legendText(s chart.Series) (string, text.Style) {
	style := textStyle(10, s.Emphasis)
	if len(s.Points) == 0 {
		style.Color = color.Gray{Y: 0x60}
		return s.Name + " (not measured)", style
	}
	return s.Name, style
}

// drawAll draws a chart: its title, what layOut returned, the labels of the axes, and the
// legend at the right.
func drawAll(c draw.Canvas, of chart.Chart, p *plot.Plot) {
	// White, unless the reader prefers dark pages: see darkStyle.
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	title := textStyle(12, true)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y - title.FontExtents().Ascent}, of.Title)
	c.Max.Y -= titleHeight
	inner := draw.Crop(c, labelHeight, 0, labelHeight, 0)
	inner.Max.X = c.Min.X + plotWidth
	p.Draw(inner)

	// gonum makes the data's area smaller for labels at logarithmic axes.
	area, label := p.DataCanvas(inner), textStyle(11, false)
	middle := area.Center()
	label.XAlign = draw.XCenter
	c.FillText(label, vg.Point{X: middle.X, Y: c.Min.Y + label.FontExtents().Descent}, of.X.Label)
	label.Rotation = math.Pi / 2
	c.FillText(label, vg.Point{X: c.Min.X + label.FontExtents().Ascent, Y: middle.Y}, of.Y.Label)

	x, y := inner.Max.X+legendGap, c.Max.Y-rowHeight/2
	for i, s := range of.Series {
		if len(s.Points) > 0 {
			line, _, marks := looks[i].styles(s.Emphasis)
			c.StrokeLine2(line, x, y, x+sampleWidth, y)
			c.DrawGlyph(marks, vg.Point{X: x + sampleWidth/2, Y: y})
		}
		name, style := legendText(s)
		// Center capitals, which are about as high as the ascent less the descent.
		extents := style.FontExtents()
		c.FillText(style, vg.Point{X: x + sampleWidth + sampleGap, Y: y - (extents.Ascent-extents.Descent)/2}, name)
		y -= rowHeight
	}
}
