// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	detectionList    = testdata + "/detection.txt"
	detectionResults = testdata + "/detection.jsonl"
	detectionPage    = "docs/testing.md"
)

// The ways to look for a defect.
const (
	bySim    = "sim"
	byStress = "stress"
)

const (
	attempts   = 5
	mostSeeds  = 1000 // of an attempt of the simulation, which begin at 1, 1001, and so on
	mostSecs   = 60   // of an attempt of the stress harness, whose seed is the attempt's number
	manySeeds  = 160  // that are simulated at a time
	stressRuns = 3    // of the harness at a time: each needs a sixth of two processors
)

// vain has after how many attempts that found nothing, and no other attempts, the rest is left
// out.
var vain = map[string]int{bySim: 2, byStress: 2}

// stressArgs are the arguments of the harness: readers and writers, and faults of all kinds. A
// worker that is stuck is told early enough.
var stressArgs = []string{"-ensemble", "3", "-nemesis", "all", "-read-ratio", "0.5", "-processes", "3", "-goroutines", "8", "-locks", "4", "-patience", "40s"}

// A program is what is measured: a mutant, or the unchanged code, of which the harness may make
// a broken lock.
type program struct {
	name   string
	what   string
	mutant *mutant
	args   []string // of the harness, behind stressArgs, some of which they override
	group  string   // the heading above it
}

// by returns the ways to look for the program's defect.
func (p program) by() []string {
	if p.mutant == nil {
		return []string{byStress}
	}
	return []string{bySim, byStress}
}

// A measurement is how long it took to notice the defect of a program.
type measurement struct {
	Program string `json:"program"`
	program *program
	By      string  `json:"by"`
	Attempt int     `json:"attempt"`
	Found   bool    `json:"found"`
	Took    float64 `json:"took,omitempty"`  // seeds, or seconds
	Check   string  `json:"check,omitempty"` // of the harness, that noticed it first
	Says    string  `json:"says,omitempty"`  // what it says
}

// same reports whether n measures the same.
func (m measurement) same(n measurement) bool {
	return m.Program == n.Program && m.By == n.By && m.Attempt == n.Attempt
}

// todo returns what there is to measure of the programs in one attempt by one way, after what
// was measured already.
func todo(programs []program, done []measurement, by string, attempt int) (left []measurement) {
	for i, p := range programs {
		m := measurement{Program: p.name, program: &programs[i], By: by, Attempt: attempt}
		if !slices.Contains(p.by(), by) || slices.ContainsFunc(done, m.same) || inVain(done, p.name, by) {
			continue
		}
		left = append(left, m)
	}
	return left
}

// inVain reports whether so many attempts found nothing that the rest is left out.
func inVain(done []measurement, program, by string) bool {
	n := 0
	for _, d := range done {
		if d.Program == program && d.By == by {
			if d.Found {
				return false
			}
			n++
		}
	}
	return n >= vain[by]
}

// detect measures what there is to measure of the programs of these names, by these ways, and
// writes the table.
func detect(ctx context.Context, out io.Writer, mutants []mutant, names string, ways []string) error {
	for _, by := range ways {
		if by != bySim && by != byStress && by != "table" {
			return fmt.Errorf("-by %s: it must be %s, %s or table", by, bySim, byStress)
		}
	}
	text, err := os.ReadFile(detectionList)
	if err != nil {
		return err
	}
	all, err := programs(string(text), mutants)
	if err != nil {
		return err
	}
	done, err := readResults(detectionResults)
	if err != nil {
		return err
	}
	var chosen []program
	for _, p := range all {
		is, err := matches(p.name, names)
		if err != nil {
			return err
		}
		if is {
			chosen = append(chosen, p)
		}
	}
	done, err = measure(ctx, out, chosen, done, ways)
	return errors.Join(err, writeTable(detectionPage, table(all, done, mutants)))
}

// measure makes the first attempt with all programs, then the second, and so on. It appends each
// measurement to the file of results, and returns those of before and its own.
func measure(ctx context.Context, out io.Writer, programs []program, done []measurement, ways []string) ([]measurement, error) {
	b, err := newBench(ctx)
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(b.dir)
	var mu sync.Mutex // protects done, failed, the file of results, and out
	failed := 0
	one := func(m measurement, try func() (measurement, error)) {
		began := time.Now()
		tried, err := try()
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = appendResult(detectionResults, tried)
		}
		if err != nil {
			failed++
			fmt.Fprintf(out, "%s, %s %d: %v\n", m.Program, m.By, m.Attempt, err)
			return
		}
		done = append(done, tried)
		fmt.Fprintf(out, "%s, %s %d: %s; %.0f s\n", m.Program, m.By, m.Attempt, tried.result(), time.Since(began).Seconds())
	}
	for attempt := range attempts {
		for _, by := range ways {
			left := todo(programs, done, by, attempt+1)
			if by == bySim {
				for _, m := range left {
					one(m, func() (measurement, error) { return b.simulate(ctx, m) })
				}
				continue
			}
			// Building one would disturb those that run.
			left = slices.DeleteFunc(left, func(m measurement) bool {
				_, err := b.build(ctx, *m.program, "stress")
				if err != nil {
					one(m, func() (measurement, error) { return m, err })
				}
				return err != nil
			})
			each(stressRuns, left, func(m measurement) {
				one(m, func() (measurement, error) { return b.stress(ctx, m) })
			})
		}
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case failed > 0:
		err = fmt.Errorf("%d measurements failed: run it again", failed)
	}
	return done, err
}

// each calls do for all, from so many goroutines, in order.
func each(workers int, all []measurement, do func(measurement)) {
	next := make(chan measurement, len(all))
	for _, m := range all {
		next <- m
	}
	close(next)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for m := range next {
				do(m)
			}
		})
	}
	group.Wait()
}

// A bench builds programs in a clone of the repository, and keeps them.
type bench struct {
	dir string // has the clone, and the programs
}

func newBench(ctx context.Context) (*bench, error) {
	dir, err := os.MkdirTemp("", "detection")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	if err := command(ctx, "git", "clone", "--quiet", ".", b.clone()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return b, nil
}

func (b *bench) clone() string { return filepath.Join(b.dir, "clone") }

// build returns the path of what make builds as bin/NAME with the program's defect in it. It must
// not be called concurrently, unless that has been built.
func (b *bench) build(ctx context.Context, p program, name string) (path string, err error) {
	kind := "unchanged"
	if p.mutant != nil {
		kind = p.name
	}
	path = filepath.Join(b.dir, kind+"."+name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if p.mutant != nil {
		defer func() { err = errors.Join(err, command(ctx, "git", "-C", b.clone(), "checkout", "--quiet", ".")) }()
		files, err := p.mutant.mutate(os.DirFS(b.clone()))
		if err != nil {
			return "", err
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(b.clone(), file), []byte(text), 0o600); err != nil {
				return "", err
			}
		}
	}
	if err := command(ctx, "make", "--no-print-directory", "-C", b.clone(), "bin/"+name); err != nil {
		return "", err
	}
	return path, os.Rename(filepath.Join(b.clone(), "bin", name), path)
}

// command runs a command, whose output is in the error.
func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// failedSeed matches what the simulation says of a seed that failed.
var failedSeed = regexp.MustCompile(`seed (\d+) failed; to simulate`)

// simulate simulates seeds until one fails.
func (b *bench) simulate(ctx context.Context, m measurement) (measurement, error) {
	path, err := b.build(ctx, *m.program, "sim.test")
	if err != nil {
		return m, err
	}
	first := (m.Attempt-1)*mostSeeds + 1
	for n, at := 10, 0; at < mostSeeds; n, at = min(2*n, manySeeds), at+n {
		n = min(n, mostSeeds-at)
		cmd := exec.CommandContext(ctx, path, "-test.timeout=1h", "-test.run=^TestSeeds$", fmt.Sprint("-seeds=", n), fmt.Sprint("-first=", first+at))
		cmd.Dir = filepath.Join(b.clone(), "internal", "sim")
		out, err := cmd.CombinedOutput() // also fails if a kind of fault never struck
		if !strings.Contains(string(out), fmt.Sprintf("%d seeds from %d ", n, first+at)) {
			return m, fmt.Errorf("the simulation did not end: %w: %s", err, out)
		}
		if seed := firstFailed(string(out)); seed > 0 {
			m.Found, m.Took = true, float64(seed-first+1)
			break
		}
	}
	return m, nil
}

// firstFailed returns the first seed that failed, or 0.
func firstFailed(out string) int {
	first := math.MaxInt
	for _, found := range failedSeed.FindAllStringSubmatch(out, -1) {
		if seed, err := strconv.Atoi(found[1]); err == nil {
			first = min(first, seed)
		}
	}
	if first == math.MaxInt {
		return 0
	}
	return first
}

// noticed matches a line that the harness prints once it has found something.
var noticed = regexp.MustCompile(`^(VIOLATION|FAILED|LEAKED)|  FINDINGS \d`)

// stress runs the harness until it has found something.
func (b *bench) stress(ctx context.Context, m measurement) (measurement, error) {
	path, err := b.build(ctx, *m.program, "stress")
	if err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(b.dir, "run")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	report := filepath.Join(dir, "report")
	args := slices.Concat(stressArgs, m.program.args, []string{"-duration", fmt.Sprint(mostSecs, "s"), "-seed", fmt.Sprint(m.Attempt), "-report", report})
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if m.program.mutant == nil && m.Program != unchanged {
		cmd.Env = append(cmd.Env, "HOLDFAST_STRESS_SABOTAGE="+m.Program)
	}
	// It ends by SIGTERM as by SIGINT, which what runs in the background may ignore.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	lines, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return m, err
	}
	var said []string
	for scan := bufio.NewScanner(lines); scan.Scan(); {
		if !noticed.MatchString(scan.Text()) {
			continue
		}
		if said = append(said, scan.Text()); len(said) == 1 {
			_ = cmd.Process.Signal(syscall.SIGTERM) // unless it has just ended
		}
	}
	ended := cmd.Wait() // its exit status says less than the verdict
	m, err = m.judged(report)
	if err != nil {
		return m, fmt.Errorf("%w; it said: %s", errors.Join(err, ended), strings.Join(said, "; "))
	}
	return m, nil
}
