// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
)

// A box is the bounding box of a text or a stroke.
type box struct {
	what string
	vg.Rectangle
}

func (b box) overlaps(other box) bool {
	return b.Min.X < other.Max.X && other.Min.X < b.Max.X && b.Min.Y < other.Max.Y && other.Min.Y < b.Max.Y
}

// boxes draws a chart and returns the boxes of its texts, of its strokes, and of the figure.
func boxes(t *testing.T, c chart.Chart) (texts, strokes []box, all box) {
	t.Helper()
	p, err := layOut(c)
	if err != nil {
		t.Fatal(err)
	}
	var drawn recorder.Canvas
	size := extent(c)
	drawAll(draw.NewCanvas(&drawn, size.X, size.Y), c, p)
	turned := false
	for _, a := range drawn.Actions {
		switch a := a.(type) {
		case *recorder.Rotate:
			turned = true // the label of the y axis
		case *recorder.Pop:
			turned = false
		case *recorder.FillString:
			style := textStyle(a.Font.Size, a.Font.Weight != 0)
			w, e := style.Width(a.String), style.FontExtents()
			r := vg.Rectangle{
				Min: vg.Point{X: a.Point.X, Y: a.Point.Y - e.Descent},
				Max: vg.Point{X: a.Point.X + w, Y: a.Point.Y + e.Ascent},
			}
			if turned { // by 90°
				r = vg.Rectangle{Min: vg.Point{X: -r.Max.Y, Y: r.Min.X}, Max: vg.Point{X: -r.Min.Y, Y: r.Max.X}}
			}
			texts = append(texts, box{a.String, r})
		case *recorder.Stroke:
			r := vg.Rectangle{Min: vg.Point{X: vg.Length(math.Inf(1)), Y: vg.Length(math.Inf(1))}, Max: vg.Point{X: vg.Length(math.Inf(-1)), Y: vg.Length(math.Inf(-1))}}
			for _, p := range a.Path {
				if p.Type == vg.MoveComp || p.Type == vg.LineComp {
					r.Min = vg.Point{X: min(r.Min.X, p.Pos.X), Y: min(r.Min.Y, p.Pos.Y)}
					r.Max = vg.Point{X: max(r.Max.X, p.Pos.X), Y: max(r.Max.Y, p.Pos.Y)}
				}
			}
			strokes = append(strokes, box{"a stroke", r})
		}
	}
	return texts, strokes, box{"the figure", vg.Rectangle{Max: size}}
}

// lines returns a chart whose n series have the same points.
func lines(n int, xs ...float64) chart.Chart {
	c := chart.Chart{File: "a.svg", Title: "A title", X: chart.Axis{Label: "sessions"}, Y: chart.Axis{Label: "grants per second"}}
	for i := range n {
		s := chart.Series{Name: fmt.Sprintf("subject number %d", i+1), Emphasis: i == 0}
		for _, x := range xs {
			s.Points = append(s.Points, chart.Point{X: x, Y: x, Low: x, High: x})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// No text overlaps another or exceeds the figure, and no stroke of the data overlaps
// the legend.
func TestNothingOverlaps(t *testing.T) {
	var samples []chart.Chart
	if err := json.Unmarshal([]byte(sample(t)), &samples); err != nil {
		t.Fatal(err)
	}
	logarithmic, long := lines(3, 1, 2, 8, 64, 1024), lines(2, 1, 2, 3)
	logarithmic.X.Log, logarithmic.Y.Log = true, true
	words := strings.Repeat("quite a long text, ", 8)
	long.Title, long.Series[0].Name = words, words
	charts := map[string]chart.Chart{
		"ten series": lines(10, 1, 2, 3), "one point": lines(1, 3), "logarithmic": logarithmic, "long words": long,
	}
	for _, c := range samples {
		charts[c.File] = c
	}
	for name, c := range charts {
		t.Run(name, func(t *testing.T) {
			texts, strokes, all := boxes(t, c)
			for i, a := range texts {
				if a.Min.X < all.Min.X || a.Min.Y < all.Min.Y || a.Max.X > all.Max.X || a.Max.Y > all.Max.Y {
					t.Errorf("%q at %v exceeds the figure, %v", a.what, a.Rectangle, all.Rectangle)
				}
				for _, b := range texts[i+1:] {
					if a.overlaps(b) {
						t.Errorf("%q at %v overlaps %q at %v", a.what, a.Rectangle, b.what, b.Rectangle)
					}
				}
			}
			legend := legendBox(t, c, texts)
			for _, s := range strokes {
				// Strokes of the legend itself are entirely inside it.
				if s.overlaps(legend) && s.Min.X < legend.Min.X {
					t.Errorf("a stroke at %v overlaps the legend at %v", s.Rectangle, legend.Rectangle)
				}
			}
		})
	}
}

// legendBox returns the box of the legend, computed from its texts.
func legendBox(t *testing.T, c chart.Chart, texts []box) box {
	t.Helper()
	legend := box{"the legend", vg.Rectangle{}}
	for _, text := range texts {
		if name := strings.TrimSuffix(text.what, " (not measured)"); name == c.Series[0].Name && legend.Max.X == 0 {
			legend.Rectangle = text.Rectangle
			legend.Min.X -= sampleWidth + sampleGap + 1
		} else if name == c.Series[len(c.Series)-1].Name {
			legend.Min.Y = text.Min.Y
		}
	}
	if legend.Max.X == 0 {
		t.Fatal("the first series is not in the legend")
	}
	return legend
}

// A subject without data is in the legend, and does not affect the others' looks.
func TestNotMeasured(t *testing.T) {
	c := lines(3, 1, 2)
	c.Series[1].Points = nil
	texts, _, _ := boxes(t, c)
	var got []string
	for _, text := range texts {
		if strings.HasPrefix(text.what, "subject") {
			got = append(got, text.what)
		}
	}
	if want := "subject number 1, subject number 2 (not measured), subject number 3"; strings.Join(got, ", ") != want {
		t.Errorf("the legend says %q, want %q", got, want)
	}
	drawn, err := svg(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		r, g, b, _ := looks[i].color.RGBA()
		color := fmt.Sprintf("stroke:#%02X%02X%02X", r>>8, g>>8, b>>8)
		// Two lines and three marks, one of each in the legend.
		if n := strings.Count(string(drawn), color); n != 5 {
			t.Errorf("%d strokes with the look of series %d, want 5", n, i+1)
		}
	}
}

// A distribution has marks at some percentiles.
func TestMarked(t *testing.T) {
	var all points
	for percent := range 101 {
		all = append(all, chart.Point{X: float64(percent)})
	}
	var got []float64
	for _, p := range all.marked() {
		got = append(got, p.X)
	}
	if want := []float64{25, 50, 75, 90, 99}; !slices.Equal(got, want) {
		t.Errorf("marks at %v, want %v", got, want)
	}
	if n := len(all[:20].marked()); n != 20 {
		t.Errorf("%d of 20 points have marks", n)
	}
}

// The fonts whose widths determine the layout are available.
func TestFonts(t *testing.T) {
	for _, bold := range []bool{false, true} {
		s := textStyle(10, bold)
		face := font.DefaultCache.Lookup(s.Font, s.Font.Size)
		if name := face.Name(); !strings.HasPrefix(name, "LiberationSans-") || strings.Contains(name, "Bold") != bold {
			t.Errorf("bold = %v is drawn in %s", bold, name)
		}
	}
}
