// SPDX-License-Identifier: Apache-2.0

package main

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A look distinguishes a series from the others.
type look struct {
	mark   mark
	dashes []vg.Length
	color  color.Color
}

// looks has the looks of the first, second, … series. Neighbors have marks of
// different shapes; each shape occurs at most twice, filled and open. The colors are
// dark enough for lines on white.
var looks = []look{
	{mark{}, nil, rgb(0x0072b2)},
	{mark{corners: 4, turn: 0.5}, []vg.Length{7, 2.5}, rgb(0x000000)},
	{mark{corners: 3, turn: 1}, []vg.Length{1.5, 1.5}, rgb(0xd55e00)},
	{mark{corners: 4}, []vg.Length{7, 2, 1.5, 2}, rgb(0x009e73)},
	{mark{corners: 3, turn: -1}, []vg.Length{3.5, 2}, rgb(0xcc79a7)},
	{mark{open: true}, []vg.Length{12, 3}, rgb(0xc48200)},
	{mark{corners: 4, turn: 0.5, open: true}, []vg.Length{7, 2, 1.5, 2, 1.5, 2}, rgb(0x3f9fd6)},
	{mark{corners: 3, turn: 1, open: true}, []vg.Length{1.2, 3.5}, rgb(0x7f7f7f)},
	{mark{corners: 4, turn: 0.5, cross: true}, []vg.Length{12, 2.5, 3.5, 2.5}, rgb(0x8c510a)},
	{mark{corners: 4, open: true}, []vg.Length{4, 2, 4, 2, 1.5, 2}, rgb(0x5e3c99)},
}

func rgb(c uint32) color.Color {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 0xff}
}

func (l look) line(emphasis bool) draw.LineStyle {
	style := draw.LineStyle{Color: l.color, Width: 1.1, Dashes: l.dashes}
	if emphasis {
		style.Width = 2.4
	}
	return style
}

func (l look) glyph(emphasis bool) draw.GlyphStyle {
	style := draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.mark}
	if emphasis {
		style.Radius = 4
	}
	return style
}

// errorBar returns the style of error bars, which are too short for dashes.
func (l look) errorBar(emphasis bool) draw.LineStyle {
	style := draw.LineStyle{Color: l.color, Width: 0.8}
	if emphasis {
		style.Width = 1.4
	}
	return style
}
