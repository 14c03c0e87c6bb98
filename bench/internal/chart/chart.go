// SPDX-License-Identifier: Apache-2.0

// Package chart describes the figures of the benchmarks to the program that draws them,
// bench/plot: it reads a JSON array of Charts from its standard input.
package chart

// A Chart is drawn to a file, as lines through the points of its series.
type Chart struct {
	File   string // a name that ends in .svg
	Title  string
	X, Y   Axis
	Series []Series
}

// An Axis extends from the smallest value to the largest, rounded outwards. If the x axis
// has at most ten values, its ticks are at these, and it is not rounded.
type Axis struct {
	Label string // with the unit
	Log   bool
}

// A Series is the data of one subject. Its place in the list determines its look, so a
// subject with the same place in all charts looks the same in all. A series without points
// keeps its place, and the legend says that it was not measured.
type Series struct {
	Name     string
	Emphasis bool
	Points   []Point // in ascending order of X; if there are many, only a few get marks
}

// A Point has an error bar from Low to High, unless these are equal.
type Point struct{ X, Y, Low, High float64 }
