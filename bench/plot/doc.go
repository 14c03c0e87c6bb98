// SPDX-License-Identifier: Apache-2.0

// Plot draws the figures of the benchmarks. It reads a document of JSON from its
// standard input and writes a file of SVG per figure into the directory that is
// its only argument:
//
//	plot DIR < figures.json
//
// It is a module of its own, so that what it draws with is no dependency of who
// uses the locks. What is written depends on the document alone, to the byte;
// and if one figure is at fault, the error says which and why, and none is
// written.
//
// # The document
//
//	{"figures": [{
//	  "file":   "throughput.svg",       in DIR; no path
//	  "title":  "Hand-over",            may be left out
//	  "kind":   "lines",                the default, or "cdf"
//	  "x":      {"label": "contending sessions", "log": true},
//	  "y":      {"label": "grants per second", "min": 0},
//	  "series": [
//	    {"name": "Holdfast", "emphasis": true,
//	     "points": [{"x": 1, "y": 1480, "low": 1400, "high": 1520}, …]}
//	  ]
//	}]}
//
// Labels say the unit. An axis is linear unless "log" is true, and reaches from
// "min", or the smallest value, to the largest, rounded outwards. An x axis of
// lines with at most ten different values has its ticks at these, and is not
// rounded.
//
// A figure of kind "lines" has points in ascending order of x, each with an error
// bar where it has low and high. One of kind "cdf" has "samples" in place of
// points, in any order, and shows which fraction of them is at most x, with marks
// at a quarter, a half, three quarters, 90 % and 99 %; its y axis has a label
// and nothing else.
//
// # Series
//
// A figure has at most ten series. They differ in the shapes of their marks and
// in the dashes of their lines, so that they can be told apart in black and white;
// the colors, which are told apart by people who see few colors, too, come on
// top. Which series gets which depends on its place in the list: a subject that
// has the same place in all figures looks the same in all. A series without data
// keeps its place, and is in the legend as not measured.
package main
