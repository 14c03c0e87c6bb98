// SPDX-License-Identifier: Apache-2.0

// Command mutants shows that the tests notice when the handling of a fault is
// broken. It breaks the code in one place after another and runs the tests that
// must fail then. A mutant that survives its tests fails the run.
//
// The working tree is not touched: go test reads a changed copy in place of the
// file that a mutant changes.
//
//	go run ./internal/mutants                    all mutants
//	go run ./internal/mutants -fault F12,F13     those of two rows of docs/faults.md
//	go run ./internal/mutants -only 'F028-*'     those whose names match
//	go run ./internal/mutants -check             which do not fit the code any more?
//	go run ./internal/mutants -build             which fit it, and do not compile?
//	go run ./internal/mutants -detect            how long do some stay unnoticed?
//
// # Mutants
//
// Each mutant is a patch in testdata. Its name begins with the number of its
// fault; what stands above the patch says what is wrong and which tests notice:
//
//	Mutant:  leaves the second of two nodes in place
//	Fault:   F3
//	Package: ./zkio
//	Tests:   TestF003_SurplusIsDeleted
//
//	--- a/zkio/node.go
//	+++ b/zkio/node.go
//	@@ -341 +341 @@ func (n *Node) claim(path string) error
//	-	return n.session.Delete(path, -1)
//	+	return nil
//
// A mutant of the simulation has a line Seeds: as well, with how many seeds it
// takes to notice.
//
// To add one, break the code, see the test fail, and let git write the patch:
//
//	git diff -U1 zkio/node.go > internal/mutants/testdata/F003-surplus-node-kept.patch
//	git checkout zkio/node.go
//
// Then write the four lines above it, and run it with -only. Leave no more lines of
// context than it takes to tell the place: only lines that begin with a minus sign
// or a space are looked for, anywhere in the file, whatever their indentation, and
// they must be there once. The numbers behind @@ do not matter.
//
// A change of the code may take away lines that a mutant changes. Then the tests
// of this package fail, and -check says where the lines may have gone. What a patch
// adds can use a name that the change takes away: -build finds that in minutes.
//
// # How long defects stay unnoticed
//
// With -detect it measures how long the stress harness runs, and how many seeds the simulation
// takes, until they notice the mutants in testdata/detection.txt, and the harness its own broken
// locks: five times each. It appends each measurement to testdata/detection.jsonl, does not
// repeat one that is there, and writes the table in docs/testing.md. So it can be interrupted. To
// measure everything anew, remove the file. What is measured is the last commit. All of it takes
// two hours on two processors that have nothing else to do.
//
//	go run ./internal/mutants -detect -by sim           only the simulation; -by stress, only the harness
//	go run ./internal/mutants -detect -only 'F041-*'    only some of them
//	go run ./internal/mutants -detect -by table         measure nothing, write the table
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	testdata = "internal/mutants/testdata"
	workers  = 2 // how many mutants are tested at a time
)

func main() {
	fault := flag.String("fault", "", "test only the mutants of these faults, for example F12,F13")
	only := flag.String("only", "", "test only the mutants of these names, which may be patterns, for example 'F003-*,F004-*'")
	justCheck := flag.Bool("check", false, "run no tests; print which mutants do not fit the code, and where their lines may have gone")
	justDetect := flag.Bool("detect", false, "run no tests; measure how long the mutants and broken locks of "+detectionList+" stay unnoticed, and write the table in "+detectionPage)
	by := flag.String("by", bySim+","+byStress, "with -detect: by what, or \"table\" to measure nothing")
	justBuild := flag.Bool("build", false, "run no tests; print which mutants do not compile")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	list, err := load(testdata)
	if err == nil && !*justDetect {
		list, err = choose(list, *fault, *only)
	}
	switch {
	case err != nil:
	case *justDetect:
		err = detect(ctx, os.Stdout, list, *only, strings.Split(*by, ","))
	case *justCheck:
		err = check(os.Stdout, os.DirFS("."), list)
	case *justBuild:
		err = build(ctx, os.Stdout, list)
	default:
		err = run(ctx, os.Stdout, list, goTest)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// choose returns the mutants of these faults with these names, of which "" stands
// for all.
func choose(list []mutant, faults, names string) (chosen []mutant, err error) {
	for _, m := range list {
		ofFault := slices.ContainsFunc(strings.Split(faults, ","), func(f string) bool { return slices.Contains(m.faults, f) })
		named, e := matches(m.name, names)
		err = errors.Join(err, e)
		if (faults == "" || ofFault) && named {
			chosen = append(chosen, m)
		}
	}
	if err == nil && len(chosen) == 0 {
		err = fmt.Errorf("no mutant has the fault %q and the name %q: see %s", faults, names, testdata)
	}
	return chosen, err
}

// matches reports whether the name is one of these, which may be patterns, and of which "" stands
// for all.
func matches(name, names string) (is bool, err error) {
	for pattern := range strings.SplitSeq(names, ",") {
		matches, e := path.Match(strings.TrimSuffix(pattern, ".patch"), name)
		is, err = is || matches, errors.Join(err, e)
	}
	return is || names == "", err
}

// A trial is one run of tests of a package of the module.
type trial struct {
	pkg     string
	tests   []string
	seeds   int    // if they are simulations
	overlay string // says which files to read in place of which; "": none
	quick   bool   // compiled without optimizations, which takes less than two thirds of the time; not of simulations, whose schedules depend on them
}

// A tester runs a trial.
type tester func(context.Context, trial) (result, error)

// run tests the mutants and prints what becomes of each. It returns an error if
// one survives or could not be tested.
func run(ctx context.Context, out io.Writer, list []mutant, test tester) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	slow, err := sound(ctx, out, list, test)
	if err != nil {
		return err
	}

	// The workers take the mutants in order. The one that takes mutant i writes
	// outcomes[i] and then closes done[i].
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
				outcomes[i] = list[i].try(ctx, dir, test, slow)
				close(done[i])
			}
		})
	}
	defer group.Wait()

	var survived, failed int
	for i, m := range list {
		<-done[i]
		o := outcomes[i]
		says := "killed by " + o.by
		switch {
		case o.err != nil:
			failed++
			says = "ERROR: " + o.err.Error()
		case o.by == "":
			survived++
			says = "SURVIVED " + strings.Join(m.tests, " ")
		}
		fmt.Fprintf(out, "%3d  %5.1f s  %s: %s\n             %s\n", i+1, o.took.Seconds(), m.name, m.what, says)
	}
	fmt.Fprintf(out, "%d mutants: %d killed, %d survived, %d errors; %.0f s\n",
		len(list), len(list)-survived-failed, survived, failed, time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed > 0:
		return fmt.Errorf("%d mutants could not be tested: go run ./internal/mutants -check says which do not fit the code", failed)
	case survived > 0:
		return fmt.Errorf("%d mutants survived: no test notices them", survived)
	}
	return nil
}

// A named is a test of a package.
type named struct{ pkg, test string }

// sound runs the tests of all mutants on the unchanged code: a test that fails anyway kills
// nothing. It returns those that pass with optimizations only, such as those that count
// allocations.
func sound(ctx context.Context, out io.Writer, list []mutant, test tester) (slow map[named]bool, err error) {
	var all []trial
	for _, m := range list {
		i := slices.IndexFunc(all, func(t trial) bool { return t.pkg == m.pkg })
		if i < 0 {
			i = len(all)
			all = append(all, trial{pkg: m.pkg})
		}
		t := &all[i]
		for _, name := range m.tests {
			if !slices.Contains(t.tests, name) {
				t.tests = append(t.tests, name)
			}
		}
		t.seeds = max(t.seeds, m.seeds)
		t.quick = t.seeds == 0
	}
	slow = map[named]bool{}
	for _, t := range all {
		began := time.Now()
		ran := t
		r, err := test(ctx, ran)
		if err != nil {
			return nil, err
		}
		passed := r.passed
		missed := slices.DeleteFunc(slices.Clone(t.tests), func(name string) bool { return slices.Contains(passed, name) })
		if t.quick && (!r.ok || len(missed) > 0) {
			ran.quick = false
			if len(missed) > 0 { // else something failed that belongs to no test
				ran.tests = missed
			}
			if r, err = test(ctx, ran); err != nil {
				return nil, err
			}
		}
		switch by, err := r.killer(); {
		case err != nil:
			return nil, fmt.Errorf("the unchanged %s does not pass: %w", t.pkg, err)
		case by != "":
			return nil, fmt.Errorf("the unchanged %s does not pass: %s", t.pkg, by)
		}
		for _, name := range ran.tests {
			if !slices.Contains(r.passed, name) {
				return nil, fmt.Errorf("%s has no test %s, or it did not run", t.pkg, name)
			}
			slow[named{t.pkg, name}] = !ran.quick
		}
		fmt.Fprintf(out, "%s unchanged: %d tests pass, %.1f s\n", t.pkg, len(t.tests), time.Since(began).Seconds())
	}
	return slow, nil
}

// An outcome is what became of a mutant.
type outcome struct {
	by   string // what killed it; "" if it survived
	err  error  // it could not be tested
	took time.Duration
}

// try tests m. It puts the changed files into dir. slow has the tests that need optimizations.
func (m mutant) try(ctx context.Context, dir string, test tester, slow map[named]bool) (o outcome) {
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	overlay, err := m.overlay(dir)
	if err != nil {
		return outcome{err: err}
	}
	quick := m.seeds == 0 && !slices.ContainsFunc(m.tests, func(name string) bool { return slow[named{m.pkg, name}] })
	r, err := test(ctx, trial{m.pkg, m.tests, m.seeds, overlay, quick})
	if err != nil {
		return outcome{err: err}
	}
	by, err := r.killer()
	return outcome{by: by, err: err}
}

// overlay writes the files that m changes into dir, and what go build's -overlay
// flag reads, whose path it returns.
func (m mutant) overlay(dir string) (string, error) {
	files, err := m.mutate(os.DirFS("."))
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, text := range files {
		original, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(dir, fmt.Sprintf("%s.%d.go", m.name, len(overlay.Replace)))
		overlay.Replace[original] = changed
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, m.name+".json")
	return name, os.WriteFile(name, text, 0o600)
}
