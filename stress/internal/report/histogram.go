// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A histogram is a picture of a verdict.Spread, with its size in units of its viewBox.
type histogram struct {
	Title, About string
	verdict.Spread
	Bars  []bar
	Ticks []tick
	Marks []tick // the median and the 99th percentile
}

// A bar is a bucket that has something in it.
type bar struct {
	X, Y, Width, Height float64
	From, Until         string
	N                   uint64
}

// A tick is a place on the axis, with a text that does not leave the picture.
type tick struct {
	X      float64
	Text   string
	TextX  float64
	Anchor string
}

// The plot's place in the viewBox, which is 360 × 150.
const (
	plotLeft, plotRight, plotTop, plotBottom = 8.0, 352.0, 20.0, 126.0

	leastBar = 2 // so that rare durations can be seen
)

// Histograms returns the pictures of the page.
func (v view) Histograms() []histogram {
	j := v.c.verdict
	return []histogram{
		newHistogram("Waits", "from a request to its grant", j.Waits),
		newHistogram("Hand-overs", "from the release by one process to the grant in another", j.HandOvers),
		newHistogram("Holds", "from a grant to its release", j.Holds),
	}
}

func newHistogram(title, about string, s verdict.Spread) histogram {
	h := histogram{Title: title, About: about, Spread: s}
	first, last, most := -1, -1, uint64(0)
	for i, n := range s.Buckets {
		if n == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last, most = i, max(most, n)
	}
	if first < 0 {
		return h
	}
	for last-first < 7 { // a few buckets alone would be very wide
		last++
		first = max(first-1, 0)
	}
	width := (plotRight - plotLeft) / float64(last-first+1)
	x := func(micros float64) float64 {
		at := plotLeft + (math.Log2(max(micros, 1))-float64(first))*width
		return round(min(max(at, plotLeft), plotRight))
	}
	for i, n := range s.Buckets {
		if n == 0 {
			continue
		}
		height := max(float64(n)/float64(most)*(plotBottom-plotTop), leastBar)
		h.Bars = append(h.Bars, bar{
			X: round(plotLeft + float64(i-first)*width + 0.5), Y: round(plotBottom - height), Width: round(width - 1), Height: round(height),
			From: powerText(i), Until: powerText(i + 1), N: n,
		})
		if i == 0 {
			h.Bars[len(h.Bars)-1].From = "0"
		}
	}
	for micros, names := 1.0, []string{"1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"}; len(names) > 0; micros, names = micros*10, names[1:] {
		if at := math.Log2(micros); at >= float64(first) && at <= float64(last+1) {
			h.Ticks = append(h.Ticks, newTick(x(micros), names[0]))
		}
	}
	// The median is left of the 99th percentile, and so is its name.
	p50, p99 := x(s.Median*1000), x(s.P99*1000)
	right := min(p99+3, 334)
	left := max(min(p50-3, right-3), 26)
	h.Marks = []tick{
		{X: p50, Text: "p50", TextX: left, Anchor: "end"},
		{X: p99, Text: "p99", TextX: max(right, left+3), Anchor: "start"},
	}
	return h
}

func newTick(x float64, text string) tick {
	t := tick{X: x, Text: text, TextX: x, Anchor: "middle"}
	switch {
	case x < 20:
		t.Anchor = "start"
	case x > 340:
		t.Anchor = "end"
	}
	return t
}

func powerText(i int) string {
	return figures.Duration(time.Duration(math.Exp2(float64(i))) * time.Microsecond)
}

func round(x float64) float64 { return math.Round(x*10) / 10 }
