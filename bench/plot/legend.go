// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A legend lists the series of a figure in their order.
type legend struct {
	series []series
}

const (
	sampleWidth = 38 // width of the line in front of a name
	sampleGap   = 6
	rowHeight   = 17
)

// text returns the text of a series, and its style.
func (legend) text(s series) (string, text.Style) {
	style := textStyle(10, s.Emphasis)
	if !s.measured() {
		style.Color = color.Gray{Y: 0x60}
		return s.Name + " (not measured)", style
	}
	return s.Name, style
}

func (l legend) width() (width vg.Length) {
	for _, s := range l.series {
		name, style := l.text(s)
		width = max(width, style.Width(name))
	}
	return sampleWidth + sampleGap + width
}

func (l legend) height() vg.Length { return rowHeight * vg.Length(len(l.series)) }

// draw draws the legend in the upper left corner of c.
func (l legend) draw(c draw.Canvas) {
	y := c.Max.Y - rowHeight/2
	for i, s := range l.series {
		if s.measured() {
			c.StrokeLine2(looks[i].line(s.Emphasis), c.Min.X, y, c.Min.X+sampleWidth, y)
			c.DrawGlyph(looks[i].glyph(s.Emphasis), vg.Point{X: c.Min.X + sampleWidth/2, Y: y})
		}
		name, style := l.text(s)
		// Center capitals, which are about as high as the ascent less the descent.
		extents := style.FontExtents()
		base := y - (extents.Ascent-extents.Descent)/2
		c.FillText(style, vg.Point{X: c.Min.X + sampleWidth + sampleGap, Y: base}, name)
		y -= rowHeight
	}
}
