// SPDX-License-Identifier: Apache-2.0

// Plot draws the figures of the benchmarks. It reads a JSON array of charts, see package
// chart, from standard input, and writes an SVG file for each to the directory that is its
// only argument:
//
//	plot DIR < charts.json
//
// It is a separate module, so that Holdfast does not depend on its drawing library. Its
// output depends only on the charts, to the byte. If a chart cannot be drawn, the error says
// which and why, and plot writes none.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/bench/internal/chart"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot DIR < charts.json")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// run draws all charts before it writes the first. It creates dir if it does not exist.
func run(in io.Reader, dir string) error {
	var charts []chart.Chart
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields() // to ignore one would draw another chart than intended
	if err := dec.Decode(&charts); err != nil {
		return fmt.Errorf("read the charts from standard input: %w", err)
	}
	if len(charts) == 0 {
		return errors.New("there are no charts on standard input")
	}
	files := make([][]byte, len(charts))
	for i, c := range charts {
		var err error
		if files[i], err = svg(c); err != nil {
			return fmt.Errorf("draw %s: %w", c.File, err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("create the directory for the figures: %w", err)
	}
	for i, c := range charts {
		if err := os.WriteFile(filepath.Join(dir, c.File), files[i], 0o666); err != nil {
			return fmt.Errorf("write a figure: %w", err)
		}
	}
	return nil
}
