// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: plot DIR < figures.json")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// run draws all figures of the document before it writes the first. It creates dir
// if it does not exist.
func run(in io.Reader, dir string) error {
	doc, err := readDocument(in)
	if err != nil {
		return err
	}
	files := make([][]byte, len(doc.Figures))
	for i, f := range doc.Figures {
		if files[i], err = f.svg(); err != nil {
			return fmt.Errorf("draw %s: %w", f.File, err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("create the directory for the figures: %w", err)
	}
	for i, f := range doc.Figures {
		if err := os.WriteFile(filepath.Join(dir, f.File), files[i], 0o666); err != nil {
			return fmt.Errorf("write a figure: %w", err)
		}
	}
	return nil
}
