// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A look distinguishes a series from the others: by the shape of its marks and the dashes of
// its line, so that series are distinct in black and white, and by its color.
type look struct {
	mark   mark
	dashes []vg.Length
	color  color.Color
}

// looks has the looks of the first, second, … series. Neighbors have marks of different
// shapes; each shape occurs twice, filled and open. The colors are dark enough for lines on
// white, and distinct to color-blind readers, too.
var looks = []look{
	{mark{corners: 32}, nil, rgb(0x0072b2)},
	{mark{corners: 4, turn: 0.5}, []vg.Length{7, 2.5}, rgb(0x000000)},
	{mark{corners: 3, turn: 1}, []vg.Length{1.5, 1.5}, rgb(0xd55e00)},
	{mark{corners: 4}, []vg.Length{7, 2, 1.5, 2}, rgb(0x009e73)},
	{mark{corners: 3, turn: -1}, []vg.Length{3.5, 2}, rgb(0xcc79a7)},
	{mark{corners: 32, open: true}, []vg.Length{12, 3}, rgb(0xc48200)},
	{mark{corners: 4, turn: 0.5, open: true}, []vg.Length{7, 2, 1.5, 2, 1.5, 2}, rgb(0x3f9fd6)},
	{mark{corners: 3, turn: 1, open: true}, []vg.Length{1.2, 3.5}, rgb(0x7f7f7f)},
	{mark{corners: 4, open: true}, []vg.Length{12, 2.5, 3.5, 2.5}, rgb(0x8c510a)},
	{mark{corners: 3, turn: -1, open: true}, []vg.Length{4, 2, 4, 2, 1.5, 2}, rgb(0x5e3c99)},
}

func rgb(c uint32) color.Color {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 0xff}
}

// styles returns how the line, the error bars, which are too short for dashes, and the marks
// of a series are drawn.
func (l look) styles(emphasis bool) (line, bars draw.LineStyle, marks draw.GlyphStyle) {
	line = draw.LineStyle{Color: l.color, Width: 1.1, Dashes: l.dashes}
	bars = draw.LineStyle{Color: l.color, Width: 0.8}
	marks = draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.mark}
	if emphasis {
		line.Width, bars.Width, marks.Radius = 2.4, 1.4, 4
	}
	return line, bars, marks
}

// A mark is the shape of a series' points: a regular polygon, of which one with many corners
// is a circle.
type mark struct {
	corners int
	turn    float64 // direction of the first corner, in quarter turns
	open    bool    // white inside
}

// DrawGlyph draws the mark with its center at pt.
func (m mark) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, pt vg.Point) {
	// All shapes have about the same area.
	full := 2 * math.Pi / float64(m.corners)
	radius := float64(style.Radius) * 0.9 * math.Sqrt(full/math.Sin(full))
	var path vg.Path
	for i := range m.corners {
		sin, cos := math.Sincos(m.turn*math.Pi/2 + float64(i)*full)
		corner := pt.Add(vg.Point{X: vg.Length(radius * cos), Y: vg.Length(radius * sin)})
		if i == 0 {
			path.Move(corner)
		} else {
			path.Line(corner)
		}
	}
	path.Close()
	c.SetColor(style.Color)
	if m.open {
		c.SetColor(color.White)
	}
	c.Fill(path)
	// Filled marks have an outline too, so that both kinds have the same size.
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: 0.35 * style.Radius})
	c.Stroke(path)
}
