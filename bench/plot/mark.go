// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A mark is the shape of a series' points: a circle, a regular polygon, or a cross.
type mark struct {
	corners int     // of the polygon; 0: a circle
	turn    float64 // direction of the first corner, in quarter turns
	open    bool    // white inside
	cross   bool    // strokes from the center to the corners
}

// DrawGlyph draws the mark with its center at pt.
func (m mark) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, pt vg.Point) {
	outline := draw.LineStyle{Color: style.Color, Width: 0.35 * style.Radius}
	if m.cross {
		for _, corner := range m.around(pt, style.Radius) {
			c.StrokeLine2(outline, pt.X, pt.Y, corner.X, corner.Y)
		}
		return
	}
	path := m.path(pt, style.Radius)
	inside := style.Color
	if m.open {
		inside = color.White
	}
	c.SetColor(inside)
	c.Fill(path)
	// Filled marks have an outline too, so that both kinds have the same size.
	c.SetLineStyle(outline)
	c.Stroke(path)
}

func (m mark) path(middle vg.Point, radius vg.Length) (path vg.Path) {
	if m.corners == 0 {
		radius *= 0.9
		path.Move(middle.Add(vg.Point{X: radius}))
		path.Arc(middle, radius, 0, 2*math.Pi)
	} else {
		for i, corner := range m.around(middle, radius) {
			if i == 0 {
				path.Move(corner)
			} else {
				path.Line(corner)
			}
		}
	}
	path.Close()
	return path
}

// around returns the corners, at such a distance that the area is about that of the
// circle.
func (m mark) around(middle vg.Point, radius vg.Length) []vg.Point {
	distance := radius * 1.15
	if m.corners == 3 {
		distance = radius * 1.3
	}
	points := make([]vg.Point, m.corners)
	for i := range points {
		sin, cos := math.Sincos(2 * math.Pi * (m.turn/4 + float64(i)/float64(m.corners)))
		points[i] = middle.Add(vg.Point{X: distance * vg.Length(cos), Y: distance * vg.Length(sin)})
	}
	return points
}
