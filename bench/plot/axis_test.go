// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
)

// described returns the ends of an axis and the labels of its ticks: "0–10: 0 5 10".
func described(a plot.Axis) string {
	var labels []string
	for _, t := range a.Tick.Marker.Ticks(a.Min, a.Max) {
		if t.Label != "" {
			labels = append(labels, t.Label)
		}
	}
	return fmt.Sprintf("%.6g–%.6g: %s", a.Min, a.Max, strings.Join(labels, " "))
}

func TestSetAxis(t *testing.T) {
	for _, tt := range []struct {
		log    bool
		values []float64
		at     string // with a tick at each value
		over   string
	}{
		{false, []float64{8, 1, 2, 2, 32}, "1–32: 1 2 8 32", "0–35: 0 5 10 15 20 25 30 35"},
		{true, []float64{1, 2, 8, 32}, "1–32: 1 2 8 32", "1–50: 1 2 5 10 20 50"},
		{false, []float64{480, 1530}, "480–1530: 480 1,530", "0–1600: 0 200 400 600 800 1,000 1,200 1,400 1,600"},
		{true, []float64{10, 3e7}, "10–3e+07: 10 30,000,000", "10–5e+07: 10 100 1,000 10,000 100,000 1,000,000 10,000,000"},
		{true, []float64{100, 1000}, "100–1000: 100 1,000", "100–1000: 100 200 500 1,000"},
		{true, []float64{0.13, 170}, "0.13–170: 0.13 170", "0.1–200: 0.1 1 10 100"},
		{true, []float64{0.001, 0.003}, "0.001–0.003: 0.001 0.003", "0.001–0.005: 0.001 0.002 0.005"},
		{true, []float64{30, 70}, "30–70: 30 70", "20–100: 20 50 100"},
		{false, []float64{0, 0.7}, "0–0.7: 0 0.7", "0–0.7: 0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
		// A single value.
		{false, []float64{7}, "0–7: 0 1 2 3 4 5 6 7", "0–7: 0 1 2 3 4 5 6 7"},
		{false, []float64{0}, "0–1: 0 0.2 0.4 0.6 0.8 1", "0–1: 0 0.2 0.4 0.6 0.8 1"},
		{true, []float64{1000}, "500–2000: 500 1,000 2,000", "500–2000: 500 1,000 2,000"},
		// Too many values for ticks at each.
		{false, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "0–12: 0 2 4 6 8 10 12", "0–12: 0 2 4 6 8 10 12"},
	} {
		for _, atValues := range []bool{true, false} {
			want := tt.over
			if atValues {
				want = tt.at
			}
			p := plot.New()
			if err := setAxis(&p.X, chart.Axis{Log: tt.log}, slices.Clone(tt.values), atValues); err != nil {
				t.Error(err)
			} else if got := described(p.X); got != want {
				t.Errorf("%v, ticks at values %v: %s, want %s", tt.values, atValues, got, want)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1 + 0.2: "0.3", 1.5: "1.5", 999: "999", 1024: "1,024", 2.5e7: "25,000,000", 1e-5: "1e-05"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
