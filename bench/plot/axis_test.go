// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// String returns the ends of a scale and the labels of its ticks: "0–10: 0 5 10".
func (s scale) String() string {
	var labels []string
	for _, t := range s.ticks {
		if t.Label != "" {
			labels = append(labels, t.Label)
		}
	}
	return fmt.Sprintf("%v–%v: %s", s.low, s.high, strings.Join(labels, " "))
}

func TestScales(t *testing.T) {
	zero, one := 0.0, 1.0
	for _, tt := range []struct {
		axis   axis
		values []float64
		at     string // with a tick at each value
		over   string
	}{
		{axis{}, []float64{1, 2, 8, 32}, "1–32: 1 2 8 32", "0–35: 0 5 10 15 20 25 30 35"},
		{axis{Log: true}, []float64{1, 2, 8, 32}, "1–32: 1 2 8 32", "1–50: 1 2 5 10 20 50"},
		{axis{Min: &zero}, []float64{480, 1530}, "0–1530: 0 480 1,530", "0–1600: 0 200 400 600 800 1,000 1,200 1,400 1,600"},
		{axis{Log: true, Min: &one}, []float64{10, 3e7}, "1–3e+07: 1 10 30M", "1–5e+07: 1 10 100 1,000 10,000 100,000 1M 10M"},
		{axis{Log: true}, []float64{100, 1000}, "100–1000: 100 1,000", "100–1000: 100 200 500 1,000"},
		{axis{Log: true}, []float64{0.13, 170}, "0.13–170: 0.13 170", "0.1–200: 0.1 1 10 100"},
		{axis{}, []float64{0, 0.7}, "0–0.7: 0 0.7", "0–0.7000000000000001: 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		{axis{}, []float64{-3, 0.5}, "-3–0.5: −3 0.5", "-3–0.5: −3 −2.5 −2 −1.5 −1 −0.5 0 0.5"},
		// A single value.
		{axis{}, []float64{7}, "0–7: 0 1 2 3 4 5 6 7", "0–7: 0 1 2 3 4 5 6 7"},
		{axis{}, []float64{0}, "0–1: 0 0.2 0.4 0.6 0.8 1", "0–1: 0 0.2 0.4 0.6 0.8 1"},
		{axis{Log: true}, []float64{1000}, "500–2000: 500 1,000 2,000", "500–2000: 500 1,000 2,000"},
		// Too many values for ticks at each.
		{axis{}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "0–12: 0 2 4 6 8 10 12", "0–12: 0 2 4 6 8 10 12"},
	} {
		if got := tt.axis.at(tt.values).String(); got != tt.at {
			t.Errorf("ticks at %v: %s, want %s", tt.values, got, tt.at)
		}
		if got := tt.axis.over(tt.values).String(); got != tt.over {
			t.Errorf("a scale over %v: %s, want %s", tt.values, got, tt.over)
		}
	}
}

func TestThin(t *testing.T) {
	s := scale{ticks: []plot.Tick{{Value: 1, Label: "1"}, {Value: 2, Label: "2"}, {Value: 3}, {Value: 20, Label: "20"}, {Value: 31, Label: "31"}, {Value: 46, Label: "46"}}}
	s.thin(5, func(v float64) vg.Length { return vg.Length(v) }, func(string) vg.Length { return 10 })
	if got, want := s.String(), "0–0: 1 20 46"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(s.ticks) != 6 {
		t.Errorf("%d ticks remain, want all 6", len(s.ticks))
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {0.1 + 0.2, "0.3"}, {-1.5, "−1.5"}, {999, "999"}, {1024, "1,024"}, {-100000, "−100,000"},
		{1e6, "1M"}, {2.5e7, "25M"}, {1e9, "1,000M"}, {1e-5, "1e-05"},
	} {
		if got := number(tt.v); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.v, got, tt.want)
		}
	}
}
