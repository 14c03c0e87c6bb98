// SPDX-License-Identifier: Apache-2.0

// Plot draws the figures of the benchmarks. It reads a JSON document from standard
// input and writes an SVG file for each figure to the directory that is its only
// argument:
//
//	plot DIR < figures.json
//
// It is a separate module, so that Holdfast does not depend on its drawing library.
// Its output depends only on the document, to the byte. If a figure is invalid, the
// error says which and why, and plot writes none.
//
// # The document
//
//	{"figures": [{
//	  "file":   "throughput.svg",       a name in DIR
//	  "title":  "Hand-over",            optional
//	  "kind":   "lines",                the default, or "cdf"
//	  "x":      {"label": "contending sessions", "log": true},
//	  "y":      {"label": "grants per second", "min": 0},
//	  "series": [
//	    {"name": "Holdfast", "emphasis": true,
//	     "points": [{"x": 1, "y": 1480, "low": 1400, "high": 1520}, …]}
//	  ]
//	}]}
//
// Labels include units. An axis is linear unless "log" is true. It extends from
// "min", or the smallest value, to the largest, rounded outwards. If the x axis of a
// figure of lines has at most ten values, its ticks are at these, and it is not
// rounded.
//
// A figure of kind "lines" has points in ascending order of x, with an error bar if
// low and high are given. One of kind "cdf" has "samples" instead, in any order, and
// shows which fraction of them is at most x, with marks at 25, 50, 75, 90 and 99 %;
// its y axis has only a label.
//
// # Series
//
// A figure has at most ten series. They differ in the shapes of their marks and the
// dashes of their lines, so that they are distinct in black and white, and in their
// colors, which are distinct to color-blind readers, too. The place in the list
// determines a series' look, so a subject with the same place in all figures looks
// the same in all. A series without data keeps its place, and the legend says that it
// was not measured.
package main
