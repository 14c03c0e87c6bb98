// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// A box is the bounding box of a text or a stroke.
type box struct {
	what string
	vg.Rectangle
}

func (b box) overlaps(other box) bool {
	return b.Min.X < other.Max.X && other.Min.X < b.Max.X && b.Min.Y < other.Max.Y && other.Min.Y < b.Max.Y
}

// boxes draws f and returns the boxes of its texts, of its strokes, and of the figure.
func boxes(t *testing.T, f figure) (texts, strokes []box, all box) {
	t.Helper()
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	d, err := f.layOut()
	if err != nil {
		t.Fatal(err)
	}
	var c recorder.Canvas
	d.draw(draw.NewCanvas(&c, d.size.X, d.size.Y))
	turned := false
	for _, a := range c.Actions {
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
	return texts, strokes, box{"the figure", vg.Rectangle{Max: d.size}}
}

// lines returns a figure whose n series have the same points.
func lines(n int, xs []float64, y func(x float64) float64) figure {
	f := figure{File: "a.svg", Title: "A title", X: axis{Label: "sessions"}, Y: axis{Label: "grants per second"}}
	for i := range n {
		s := series{Name: fmt.Sprintf("subject number %d", i+1), Emphasis: i == 0}
		for _, x := range xs {
			s.Points = append(s.Points, point{X: x, Y: y(x)})
		}
		f.Series = append(f.Series, s)
	}
	return f
}

// No text overlaps another or exceeds the figure, and no stroke of the data overlaps
// the legend.
func TestNothingOverlaps(t *testing.T) {
	same := func(x float64) float64 { return x }
	change := func(f figure, how func(*figure)) figure {
		how(&f)
		return f
	}
	powers := []float64{1, 2, 8, 64, 1024}
	long := strings.Repeat("quite a long text, ", 8)
	doc, err := readDocument(strings.NewReader(sample(t)))
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]figure{
		"ten series":           lines(10, powers, same),
		"one point":            lines(1, []float64{3}, same),
		"logarithmic":          change(lines(3, powers, same), func(f *figure) { f.X.Log, f.Y.Log = true, true }),
		"crowded":              lines(2, []float64{10000, 10001, 10002, 10003, 10004, 10005, 19999, 20000}, same),
		"crowded, logarithmic": change(lines(2, []float64{100, 101, 110, 120, 130, 1e5, 1e7, 1e9}, same), func(f *figure) { f.X.Log = true }),
		"many decades":         change(lines(2, []float64{1, 2, 3}, func(x float64) float64 { return math.Pow(10, 24*x-40) }), func(f *figure) { f.Y.Log = true }),
		"long words": change(lines(2, powers, same), func(f *figure) {
			f.Title, f.X.Label, f.Y.Label, f.Series[0].Name = long+long, long, long, long
		}),
	}
	for _, f := range doc.Figures {
		figures[f.File] = f
	}
	for name, f := range figures {
		t.Run(name, func(t *testing.T) {
			texts, strokes, all := boxes(t, f)
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
			legend := legendBox(t, f, texts)
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
func legendBox(t *testing.T, f figure, texts []box) box {
	t.Helper()
	legend := box{"the legend", vg.Rectangle{}}
	for _, text := range texts {
		if name := strings.TrimSuffix(text.what, " (not measured)"); name == f.Series[0].Name && legend.Max.X == 0 {
			legend.Rectangle = text.Rectangle
			legend.Min.X -= sampleWidth + sampleGap + 1
		} else if name == f.Series[len(f.Series)-1].Name {
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
	f := lines(3, []float64{1, 2}, func(x float64) float64 { return x })
	f.Series[1].Points = nil
	texts, _, _ := boxes(t, f)
	var got []string
	for _, text := range texts {
		if strings.HasPrefix(text.what, "subject") {
			got = append(got, text.what)
		}
	}
	if want := "subject number 1, subject number 2 (not measured), subject number 3"; strings.Join(got, ", ") != want {
		t.Errorf("the legend says %q, want %q", got, want)
	}
	svg, err := f.svg()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		r, g, b, _ := looks[i].color.RGBA()
		color := fmt.Sprintf("stroke:#%02X%02X%02X", r>>8, g>>8, b>>8)
		// Two lines and three marks, one of each in the legend.
		if n := strings.Count(string(svg), color); n != 5 {
			t.Errorf("%d strokes with the look of series %d, want 5", n, i+1)
		}
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
