// SPDX-License-Identifier: Apache-2.0

// Bench measures Holdfast, the limits of what it is built on, and other locks, with
// the same work and in the same run:
//
//	go run ./bench                  # everything: some minutes
//	go run ./bench -only hand-over  # a part of it: see -help
//	go run ./bench -goals           # print the goals, and what the last run measured
//
// It starts servers on free ports of 127.0.0.1 (ZooKeeper, and etcd and Redis if
// they are installed), builds and starts the subjects (see package work), and
// prints how Holdfast meets its targets. bench/RESULTS.md receives the same, with
// all figures and plots, and bench/results.json every round. Subjects that are not
// installed are reported as missing.
//
// Subjects take turns, so that what is compared was measured at nearly the same
// time: see suite.run. Trust the ratios rather than the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/work"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/sentinel"
)

// builtIn has the subjects that this program can run as.
var builtIn = map[string]work.Subject{
	ours:           holdfast{version: "Holdfast, Lock and Release, and Acquire and Release of a held lock", pairs: acquireRelease},
	oursUnlock:     holdfast{version: "Holdfast, Lock and Unlock", wait: true},
	oursAlone:      holdfast{version: "Holdfast, Lock and Release, and Acquire and Release of a held lock"},
	oursLock:       holdfast{version: "Holdfast, Lock and Release of a held lock", pairs: lockRelease},
	oursDo:         holdfast{version: "Holdfast, Do of a held lock", pairs: doing(func(context.Context, manager.Hold) error { return nil })},
	oursDone:       holdfast{version: "Holdfast, Do of a held lock, with Done", pairs: doing(func(ctx context.Context, _ manager.Hold) error { ctx.Done(); return nil })},
	oursErr:        holdfast{version: "Holdfast, Hold.Err of a held lock", pairs: checkErr},
	oursMutex:      holdfast{version: "Holdfast's Mutex, Lock and Release", mutex: true},
	oursLinger:     holdfast{version: "Holdfast, Lock and Unlock with Config.Linger", wait: true, linger: time.Hour},
	oursIdle:       holdfast{version: "Holdfast's Mutex, Lock and Release with Config.Linger", mutex: true, linger: time.Hour},
	oursSentinel:   holdfast{version: "Holdfast, Lock and Release, with Config.Sentinel", sentinel: true},
	limitCAS:       locals[limitCAS],
	limitBusy:      locals[limitBusy],
	limitContext:   locals[limitContext],
	limitDone:      locals[limitDone],
	limitBare:      bare,
	limitRelay:     relay,
	limitTrip:      trip,
	limitRWMutex:   locals[limitRWMutex],
	limitMutex:     locals[limitMutex],
	limitSemaphore: locals[limitSemaphore],
	limitClock:     locals[limitClock],
}

func main() {
	sentinel.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs the program.
func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var (
		subject = flags.String("subject", "", "run as this subject, which reads jobs and writes results; for internal use")
		some    = flags.String("only", "", "measure only scenarios with one of these `words`, separated by commas, in their names: retained, uncontended, hand-over, network, queue (that of a lock, and with it drain-queue, which takes elements from a queue), readers, shared, many, bulk, footprint, requests; and watch-holder and takeover, which a whole run leaves out")
		rounds  = flags.Int("rounds", 3, "how often each scenario is measured, at most")
		measure = flags.Duration("measure", 600*time.Millisecond, "how long each measurement takes")
		goals   = flags.Bool("goals", false, "print the goals with what the last run measured, from results.json in bench or in the directory of -out, and measure nothing")
		out     = flags.String("out", "", "`directory` for RESULTS.md, results.json and the plots; by default bench, or with -only none")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *subject != "" {
		s, ok := builtIn[*subject]
		if !ok {
			return fmt.Errorf("no subject is called %q", *subject)
		}
		return work.Serve(ctx, s, stdin, stdout)
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *rounds < 1:
		return fmt.Errorf("-rounds is %d: it must be at least 1", *rounds)
	case *measure < 10*time.Millisecond:
		return fmt.Errorf("-measure is %v: it must be at least 10ms", *measure)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	rest := time.Minute // of a process with 100,000 locks
	if *goals {
		if *out == "" {
			*out = filepath.Join(root, "bench")
		}
		return printGoals(stdout, *out)
	}
	var parts []string
	if *some != "" {
		parts = strings.Split(*some, ",")
		rest /= 4
	} else if *out == "" {
		*out = filepath.Join(root, "bench")
	}
	all := slices.Concat(scenarios(), draining(), network(), bulk(rest), counted())
	if parts != nil { // these take minutes: on request only
		all = only(slices.Concat(all, watching(), takeovers()), parts)
	}
	if len(all) == 0 {
		return fmt.Errorf("no scenario has %q in its name: see -help", *some)
	}

	began := time.Now()
	s := &suite{
		report: &report{
			Began: began, Versions: make(map[string]string), Missing: make(map[string]string), Refused: make(map[string]string), Rounds: *rounds,
			Machine:  fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version()),
			measured: newMeasured(), scenarios: all,
		},
		root: root, programs: make(map[string]*program), servers: make(map[string]string), places: make(map[place]string),
		warmup: int(measure.Milliseconds() / 3), measure: int(measure.Milliseconds()),
		log: stderr,
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	s.Targets, s.report.figures = s.targets(), s.measured.figures()
	s.Took = time.Since(began).Round(time.Second).String()
	fmt.Fprintf(stdout, "\n%s", s.table(*some == ""))
	for name, why := range s.Missing {
		fmt.Fprintf(stdout, "not measured: %s: %s\n", name, why)
	}
	if *out != "" {
		if err := draw(ctx, root, *out, s.report.figures); err != nil {
			return err
		}
		if err := s.write(*out, filepath.Join(root, "bench", "remarks.md")); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "\nwrote RESULTS.md, results.json and %d plots to %s\n", len(s.report.figures), *out)
	}
	fmt.Fprintf(stdout, "took %s\n", s.Took)
	if len(s.Failed) > 0 {
		return errors.New(strings.Join(s.Failed, "\n"))
	}
	return nil
}

// moduleRoot returns the root of this program's module.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast").Output()
	if err != nil {
		return "", fmt.Errorf("find Holdfast's repository (run this inside it): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
