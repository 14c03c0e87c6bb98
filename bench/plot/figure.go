// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// The kinds of figures.
const (
	kindLines = "lines"
	kindCDF   = "cdf"
)

// A figure is drawn to a file.
type figure struct {
	File   string   `json:"file"`
	Title  string   `json:"title"`
	Kind   string   `json:"kind"`
	X      axis     `json:"x"`
	Y      axis     `json:"y"`
	Series []series `json:"series"`
}

// check returns an error if the figure is invalid. It sets the default kind.
func (f *figure) check() error {
	switch {
	case f.File == "" || filepath.Base(f.File) != f.File || filepath.Ext(f.File) != ".svg":
		return errors.New("its file must be a name that ends in .svg, without a directory")
	case f.X.Label == "" || f.Y.Label == "":
		return errors.New("an axis has no label; give it one, with its unit")
	case len(f.Series) == 0:
		return errors.New("it has no series")
	case len(f.Series) > len(looks):
		return fmt.Errorf("it has %d series, and only %d are distinguishable; make it two figures", len(f.Series), len(looks))
	}
	switch f.Kind {
	case "":
		f.Kind = kindLines
	case kindLines:
	case kindCDF:
		if f.Y.Log || f.Y.Min != nil {
			return errors.New("the y axis of a cdf is linear from 0 to 1; leave out log and min")
		}
	default:
		return fmt.Errorf("its kind is %q; use %q or %q", f.Kind, kindLines, kindCDF)
	}
	names := make(map[string]bool)
	for i, s := range f.Series {
		if s.Name == "" {
			return fmt.Errorf("series %d has no name", i+1)
		}
		if names[s.Name] {
			return fmt.Errorf("two series are called %q", s.Name)
		}
		names[s.Name] = true
		if err := s.check(f.Kind); err != nil {
			return fmt.Errorf("series %q: %w", s.Name, err)
		}
	}
	xs, ys := f.values()
	if len(xs) == 0 {
		return errors.New("none of its series has data")
	}
	if err := f.X.check(xs); err != nil {
		return fmt.Errorf("x: %w", err)
	}
	if err := f.Y.check(ys); err != nil {
		return fmt.Errorf("y: %w", err)
	}
	return nil
}

// values returns the distinct values that the axes must include, in ascending order.
func (f *figure) values() (xs, ys []float64) {
	for _, s := range f.Series {
		xs = append(xs, s.Samples...)
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
			if p.Low != nil {
				ys = append(ys, *p.Low, *p.High)
			}
		}
	}
	if f.Kind == kindCDF {
		ys = append(ys, 0, 1)
	}
	slices.Sort(xs)
	slices.Sort(ys)
	return slices.Compact(xs), slices.Compact(ys)
}
