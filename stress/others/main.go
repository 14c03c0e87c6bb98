// SPDX-License-Identifier: Apache-2.0

// Command others runs the stress harness with the locks of other libraries, each for the same time,
// with the same seed and the same faults, and writes what it found as a table: docs/others.md.
//
//	go run ./stress/others -duration 10m -seed 7 -out docs/others.md
//
// It is run in the root of the repository. What a run has shown is kept in stress/others/results,
// and its report in bin/others. A run whose result is there is not repeated, so it may be
// interrupted, and goes on when it is called again: remove both directories to repeat all, as make
// others FRESH=1 does. A client that is not installed is left out, and named.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/contender"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
)

// ours is the name of Holdfast among the clients.
const ours = "holdfast"

// readers is at the end of the name of a client whose locks have readers as well, before what says
// that it listens.
const readers = "-rw"

// faults are those that can happen to any client: to its process, its connection and the servers.
const faults = "kill-worker,pause-worker,kill-server,kill-leader,pause-server,pause-leader,restart-server,isolate-follower,isolate-leader," +
	"cut-connection,blackhole-connection,delay-link,swallow-answer"

// A set is what to run.
type set struct {
	duration time.Duration
	clients  []subject
	faults   []string
	atATime  int // runs
	results  string
	reports  string
	out      string
}

// A subject is a client that is run with a seed.
type subject struct {
	name string
	seed uint64
}

// reads reports whether some of the grants are readers'.
func (c subject) reads() bool {
	return strings.HasSuffix(strings.TrimSuffix(c.name, "-listening"), readers)
}

// String names its result, and the directory of its report.
func (c subject) String() string { return fmt.Sprintf("%s-%d", c.name, c.seed) }

func main() {
	if err := others(); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

func others() error {
	var s set
	flag.DurationVar(&s.duration, "duration", 10*time.Minute, "for how long each client runs")
	seed := flag.Uint64("seed", 7, "of all runs that name no other")
	names := flag.String("clients", strings.Join(append([]string{ours, ours + ":11", ours + ":23", ours + readers}, contender.Names()...), ","), "which clients, with commas between them, each with :SEED if its seed is another")
	kinds := flag.String("nemesis", faults, "which `faults`; a system that lacks one goes without")
	flag.IntVar(&s.atATime, "at-a-time", 1, "how many `runs` go on at a time; each needs a third of a processor, and more when servers start")
	flag.StringVar(&s.results, "results", filepath.Join("stress", "others", "results"), "the `directory` of the results")
	flag.StringVar(&s.reports, "reports", filepath.Join("bin", "others"), "the `directory` of the reports")
	flag.StringVar(&s.out, "out", "", "write the page to `file`; empty: to the standard output")
	flag.Parse()
	s.faults = strings.Split(*kinds, ",")
	for _, text := range strings.Split(*names, ",") {
		name, number, found := strings.Cut(text, ":")
		c := subject{name, *seed}
		if found {
			var err error
			if c.seed, err = strconv.ParseUint(number, 10, 64); err != nil {
				return fmt.Errorf("-clients: the seed of %s: %w", text, err)
			}
		}
		s.clients = append(s.clients, c)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return s.run(ctx)
}

func (s set) run(ctx context.Context) error {
	harness, err := filepath.Abs(filepath.Join("bin", "stress"))
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", harness, "./stress").CombinedOutput(); err != nil {
		return fmt.Errorf("building the harness: %w\n%s", err, out)
	}
	p := page{Duration: s.duration, Faults: s.faults}
	rows, errs := s.measureAll(ctx, harness)
	for i, err := range errs {
		switch {
		case errors.Is(err, contender.ErrNotInstalled):
			p.Missing = append(p.Missing, fmt.Sprintf("%s: %v", s.clients[i].name, err))
		case err != nil:
			return err
		default:
			p.Rows = append(p.Rows, rows[i])
		}
	}
	var out io.Writer = os.Stdout
	if s.out != "" {
		f, err := os.Create(s.out)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	return p.write(out)
}

// measureAll runs all clients, some at a time. After a failure no more begin.
func (s set) measureAll(ctx context.Context, harness string) ([]row, []error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rows, errs := make([]row, len(s.clients)), make([]error, len(s.clients))
	var all sync.WaitGroup
	turns := make(chan struct{}, max(1, s.atATime))
	for i, c := range s.clients {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if errs[i] = context.Cause(ctx); errs[i] != nil {
				return
			}
			rows[i], errs[i] = s.measure(ctx, harness, c)
			if err := errs[i]; err != nil && !errors.Is(err, contender.ErrNotInstalled) {
				cancel(err)
			}
		})
	}
	all.Wait()
	return rows, errs
}

func (s set) arguments(c subject) []string {
	kinds := s.faults
	if b := contender.BackendOf(c.name); b != nil {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains(b.Lacks, kind) })
	}
	args := []string{
		"-ensemble", "3", "-nemesis", strings.Join(kinds, ","), "-duration", s.duration.String(), "-seed", strconv.FormatUint(c.seed, 10),
		"-processes", "4", "-goroutines", "4", "-locks", "4",
	}
	if c.reads() {
		args = append(args, "-read-ratio", "0.5")
	}
	if c.name != ours && c.name != ours+readers {
		args = append(args, "-contender", c.name)
	}
	return args
}

// measure runs one client, unless its result is there.
func (s set) measure(ctx context.Context, harness string, c subject) (r row, err error) {
	args := s.arguments(c)
	command := "go run ./stress " + strings.Join(args, " ")
	dir := filepath.Join(s.reports, c.String())
	report, result := filepath.Join(dir, "report"), filepath.Join(dir, "summary.json")
	var sum summary.Summary
	switch {
	case history.ReadJSON(result, &sum) == nil && strings.HasPrefix(sum.Command, command+" "):
		return s.keep(c, report, command, sum) // it may be counted otherwise now
	case history.ReadJSON(s.kept(c), &r) == nil && r.Command == command:
		return r, nil
	}
	if c.name != ours && c.name != ours+readers {
		if _, err := contender.Command(ctx, c.name); err != nil {
			return row{}, err
		}
	}
	if err := cmp.Or(os.RemoveAll(dir), os.MkdirAll(dir, 0o750)); err != nil {
		return row{}, err
	}
	fmt.Fprintf(os.Stderr, "%s %s, seed %d: %v\n", time.Now().Format(time.TimeOnly), c.name, c.seed, s.duration)
	cmd := exec.CommandContext(ctx, harness, append(args, "-report", report, "-json", result)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	output, err := cmd.CombinedOutput() // its exit status says whether it has found something
	if ctx.Err() != nil {
		return row{}, errors.Join(context.Cause(ctx), os.RemoveAll(dir))
	}
	sum = summary.Summary{}
	if readErr := history.ReadJSON(result, &sum); readErr != nil {
		return row{}, fmt.Errorf("the run of %s: %w\n%s", c.name, cmp.Or(err, readErr), output)
	}
	return s.keep(c, report, command, sum)
}

// keep keeps what a run has shown. Its command is without where its report is.
func (s set) keep(c subject, report, command string, sum summary.Summary) (row, error) {
	sum.Command = command
	r, err := rowOf(c.name, report, sum)
	if err == nil {
		err = os.MkdirAll(s.results, 0o750)
	}
	if err != nil {
		return row{}, err
	}
	return r, history.WriteJSON(s.kept(c), r)
}

// kept returns the name of the file that keeps the result of a client.
func (s set) kept(c subject) string { return filepath.Join(s.results, c.String()+".json") }
