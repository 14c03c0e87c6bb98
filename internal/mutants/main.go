// SPDX-License-Identifier: Apache-2.0

// Command mutants shows that the tests notice when the handling of a fault is
// missing. It breaks the code in one place after the other, as the list in
// mutants.go says, and runs the tests that are to fail then. A mutant that they
// let live is a fault that nobody would notice, and fails the run.
//
// The working tree is not touched: go test is told to read a changed copy of the
// one file in the place of the original.
//
//	go run ./internal/mutants [-only F12,F13]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

// workers is how many mutants are tested at a time.
const workers = 2

func main() {
	only := flag.String("only", "", "test the mutants of these faults only, for example F12,F13")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, mutants, *only, goTest)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A tester runs tests of a package of the module, with the files of the overlay
// in place of their originals, and says what came of it.
type tester func(ctx context.Context, pkg string, tests []string, seeds int, overlay string) (result, error)

// run tests the mutants and prints what becomes of each. It returns an error if
// one survives, or if the list is not fit for the code.
func run(ctx context.Context, out io.Writer, list []mutant, only string, test tester) error {
	list = slices.Clone(list)
	if only != "" {
		wanted := strings.Split(only, ",")
		list = slices.DeleteFunc(list, func(m mutant) bool {
			return !slices.ContainsFunc(m.faults(), func(f string) bool { return slices.Contains(wanted, f) })
		})
	}
	if len(list) == 0 {
		return fmt.Errorf("no mutant of %q", only)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	if err := sound(ctx, out, list, test); err != nil {
		return err
	}

	// The workers take the mutants in order, and outcomes[i] is written by the one
	// that took the i-th before it closes done[i].
	outcomes := make([]outcome, len(list))
	done := make([]chan struct{}, len(list))
	next := make(chan int, len(list))
	for i := range list {
		done[i] = make(chan struct{})
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range next {
				outcomes[i] = list[i].try(ctx, dir, i, test)
				close(done[i])
			}
		})
	}
	defer group.Wait()

	var alive, unfit int
	for i, m := range list {
		<-done[i]
		o := outcomes[i]
		says := "killed by " + o.by
		switch {
		case o.err != nil:
			unfit++
			says = "ERROR: " + o.err.Error()
		case o.by == "":
			alive++
			says = "SURVIVED " + m.tests
		}
		fmt.Fprintf(out, "%3d  %-8s %5.1f s  %s\n                    %s\n", i+1, m.fault, o.took.Seconds(), m.what, says)
	}
	fmt.Fprintf(out, "%d mutants: %d killed, %d survived, %d errors; %.0f s\n",
		len(list), len(list)-alive-unfit, alive, unfit, time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unfit > 0:
		return fmt.Errorf("%d mutants do not fit the code: see the list in internal/mutants", unfit)
	case alive > 0:
		return fmt.Errorf("%d mutants survived: no test notices them", alive)
	}
	return nil
}

// sound runs the tests of all mutants on the code as it is: one that fails
// anyway kills nothing.
func sound(ctx context.Context, out io.Writer, list []mutant, test tester) error {
	var pkgs []string
	tests, seeds := map[string][]string{}, map[string]int{}
	for _, m := range list {
		if !slices.Contains(pkgs, m.pkg) {
			pkgs = append(pkgs, m.pkg)
		}
		for _, name := range strings.Fields(m.tests) {
			if !slices.Contains(tests[m.pkg], name) {
				tests[m.pkg] = append(tests[m.pkg], name)
			}
		}
		seeds[m.pkg] = max(seeds[m.pkg], m.seeds)
	}
	for _, pkg := range pkgs {
		began := time.Now()
		r, err := test(ctx, pkg, tests[pkg], seeds[pkg], "")
		if err != nil {
			return err
		}
		switch by, err := r.killer(); {
		case err != nil:
			return fmt.Errorf("%s does not pass as it is: %w", pkg, err)
		case by != "":
			return fmt.Errorf("%s does not pass as it is: %s", pkg, by)
		}
		for _, name := range tests[pkg] {
			if !slices.Contains(r.passed, name) {
				return fmt.Errorf("%s has no test %s, or it did not run", pkg, name)
			}
		}
		fmt.Fprintf(out, "%s as it is: %d tests pass, %.1f s\n", pkg, len(tests[pkg]), time.Since(began).Seconds())
	}
	return nil
}

// faults returns the rows that the mutant is for.
func (m mutant) faults() []string { return strings.Fields(m.fault) }

// mutate returns the source with the mutation made.
func (m mutant) mutate(source string) (string, error) {
	if n := strings.Count(source, m.old); n != 1 || m.old == m.new {
		return "", fmt.Errorf("%s has changed: %d times there is, and not once, %q", m.file, n, m.old)
	}
	return strings.Replace(source, m.old, m.new, 1), nil
}

// An outcome is what became of a mutant.
type outcome struct {
	by   string // what killed it; "" if it survived
	err  error  // it could not be tested
	took time.Duration
}

// try tests the mutant, the i-th, whose files are put into dir.
func (m mutant) try(ctx context.Context, dir string, i int, test tester) (o outcome) {
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	overlay, err := m.overlay(dir, i)
	if err != nil {
		return outcome{err: err}
	}
	r, err := test(ctx, m.pkg, strings.Fields(m.tests), m.seeds, overlay)
	if err != nil {
		return outcome{err: err}
	}
	by, err := r.killer()
	return outcome{by: by, err: err}
}
