// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Series differ in the marks, in the dashes, and in the colors.
func TestLooksDiffer(t *testing.T) {
	for what, of := range map[string]func(look) string{
		"mark":  shape,
		"dash":  func(l look) string { return fmt.Sprint(l.dashes) },
		"color": func(l look) string { return fmt.Sprint(l.color) },
	} {
		first := make(map[string]int)
		for i, l := range looks {
			if j, ok := first[of(l)]; ok {
				t.Errorf("series %d and %d have the same %s", j+1, i+1, what)
			}
			first[of(l)] = i
		}
	}
	if len(looks) != 10 {
		t.Errorf("there are %d looks, want 10", len(looks))
	}
}

// shape returns the drawing of a mark, without its color.
func shape(l look) (drawn string) {
	var c recorder.Canvas
	l.color = rgb(0)
	dc := draw.NewCanvas(&c, 100, 100)
	_, _, marks := l.styles(false)
	dc.DrawGlyph(marks, vg.Point{X: 50, Y: 50})
	for _, a := range c.Actions {
		drawn += a.Call() + "\n"
	}
	return drawn
}

// Emphasized series have larger error bars, lines and marks.
func TestEmphasis(t *testing.T) {
	for i, l := range looks {
		line, bars, marks := l.styles(false)
		largerLine, largerBars, largerMarks := l.styles(true)
		if largerLine.Width < 1.5*line.Width || largerBars.Width <= bars.Width || largerMarks.Radius <= marks.Radius {
			t.Errorf("look %d: an emphasized series is not larger", i+1)
		}
	}
}
