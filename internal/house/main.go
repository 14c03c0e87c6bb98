// SPDX-License-Identifier: Apache-2.0

// House prints figures of how the code is laid out, one a line, so that those of two
// commits can be compared with diff. They say where a package grows into one that a
// reader cannot hold in the head. `make house` runs it; CONTRIBUTING.md says what to do
// about what it prints.
//
// Of each package it counts the files outside tests, and the lines of code in them and in
// tests: those that are neither blank nor comment alone. Nested modules are included.
// Packages that -packages names, with 300 lines of code or more have these figures as well:
//
//   - References between files: ordered pairs of files of which the first uses a name,
//     field or method that the second declares. How many it uses does not matter.
//   - Of them back: those to a file above, with the files in the order that has the fewest:
//     no other order spares a reader these. Of two files that use each other one refers
//     back. The search for the order (NP-hard) does not always find the best one, so a change
//     by one or two may be due to it.
//   - The types with the most methods and with the most fields. What a type embeds is one
//     field; methods of interfaces do not count.
//   - The longest walk, the longest from a function that is not on that one, and so on. A
//     walk is that of a reader who begins at a function and follows each call to one of
//     the package, reads that, and comes back, but reads none twice. It meets so many
//     functions, in so many files, with so many returns to a file left for another one.
//
// It analyses the code for one operating system and without tests. The figures inform; no
// value of them is a failure.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	var o options
	dir := flag.String("dir", ".", "the module to measure")
	patterns := flag.String("packages", "./...", "of it and of the modules that its go.work joins, the packages to look into")
	flag.IntVar(&o.least, "least", 300, "look into packages with at least so many lines of code")
	flag.IntVar(&o.top, "top", 3, "print so many types and walks of each package")
	flag.BoolVar(&o.back, "back", false, "list the references that run back, with the number of names used")
	flag.Parse()
	o.patterns = strings.Fields(*patterns)
	o.from = flag.Args() // such as manager.Lock.Acquire
	if err := run(os.Stdout, *dir, o); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

type options struct {
	least, top int
	back       bool
	patterns   []string
	from       []string
}

// A table has one figure a line, which changes only if the figure does.
type table struct{ io.Writer }

func (t table) add(pkg, figure string, n int) {
	fmt.Fprintf(t, "%-28s %-60s %6d\n", pkg, figure, n)
}

// run prints the figures of the module in dir.
func run(out io.Writer, dir string, o options) error {
	sizes, err := measure(dir)
	if err != nil {
		return fmt.Errorf("count the lines in %s: %w", dir, err)
	}
	rooms, err := load(dir, o.patterns, sizes, o.least)
	if err != nil {
		return err
	}
	t := table{out}
	sizes.print(t)
	for _, r := range rooms {
		r.printReferences(t, o.back)
		r.printTypes(t, o.top)
		r.printWalks(t, o.top)
	}
	for _, name := range o.from {
		if !slices.ContainsFunc(rooms, func(r *room) bool { return r.printWalkFrom(t, name) }) {
			return fmt.Errorf("walk from %s: no package that was looked into has this function", name)
		}
	}
	return nil
}
