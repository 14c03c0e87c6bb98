// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/state/model/internal/checker"
)

func main() {
	debug.SetGCPercent(25) // a search keeps most of what it allocates, so there is little to collect
	switch err := run(os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "protocols:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("protocols", flag.ContinueOnError)
	set := flags.String("set", "full", "quick, full or long, which is full")
	only := flags.String("run", "", "run only searches that match this regular `expression`")
	limit := flags.Int("limit", 20_000_000, "`states` at which a search is given up")
	verbose := flags.Bool("v", false, "print whole traces, with their states")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	searches, ok := sets[*set]
	if !ok {
		return fmt.Errorf("-set %s: it must be quick, full or long", *set)
	}
	var chosen []search
	for _, s := range searches() {
		if match.MatchString(s.name()) {
			chosen = append(chosen, s)
		}
	}
	return verify(chosen, *limit, *verbose, out)
}

// verify runs the searches, one after the other, and prints a row for each.
func verify(searches []search, limit int, verbose bool, out io.Writer) error {
	var wrong []string
	states, right, start := 0, 0, time.Now()
	const row = "%-66s %-8s %10s %7s %s\n"
	fmt.Fprintf(out, row, "PROTOCOL", "EXPECTED", "STATES", "SECONDS", "RESULT")
	for _, s := range searches {
		began := time.Now()
		r := s.run(limit)
		states += r.States
		if s.violates == "" {
			right++
		}
		verdict := what(r)
		if why := s.judge(r); why != "" {
			verdict += " (WRONG)"
			wrong = append(wrong, s.name()+": "+why)
		}
		fmt.Fprintf(out, row, s.name(), s.expected(), fmt.Sprint(r.States), fmt.Sprintf("%.1f", time.Since(began).Seconds()), verdict)
		printTrace(out, r.Trace, verbose)
	}
	fmt.Fprintf(out, "\n%d searches, %d states in %.0f s: %d have to hold, %d have to fail\n",
		len(searches), states, time.Since(start).Seconds(), right, len(searches)-right)
	switch {
	case len(searches) == 0:
		return errors.New("-run matches no search")
	case len(wrong) > 0:
		return fmt.Errorf("%d of %d searches did not end as expected:\n  %s", len(wrong), len(searches), strings.Join(wrong, "\n  "))
	}
	return nil
}

// what summarizes a result.
func what(r checker.Result) string {
	switch {
	case r.Violated != "":
		return r.Violated
	case !r.Complete:
		return "cut off"
	}
	return "holds"
}

// lastSteps is the length of a short trace.
const lastSteps = 6

// printTrace prints the way to a violation, or the last steps of it on one line.
func printTrace(out io.Writer, trace []checker.Event, verbose bool) {
	switch {
	case len(trace) == 0:
	case verbose:
		for i, e := range trace {
			fmt.Fprintf(out, "    %3d %-50s %s\n", i, strings.TrimSpace(e.Actor+" "+e.Action), e.State)
		}
	default:
		var steps []string
		for _, e := range trace[1:] { // the first is the start
			steps = append(steps, e.Actor+" "+e.Action)
		}
		before := ""
		if n := len(steps) - lastSteps; n > 0 {
			before, steps = fmt.Sprintf("%d more, ", n), steps[n:]
		}
		fmt.Fprintf(out, "    %s%s\n", before, strings.Join(steps, "; "))
	}
}
