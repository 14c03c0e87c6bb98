// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
	"github.com/holdfast-go/holdfast/stress/internal/report"
)

// printVerdict writes what a history has shown.
func printVerdict(w io.Writer, v judge.Verdict) {
	fmt.Fprintf(w, "\n  %-62s %10s %10s\n", "checked in the history", "judged", "found")
	for _, c := range v.Checks {
		fmt.Fprintf(w, "  %-62s %10s %10s\n", c.Name, thousands(c.Judged), thousands(c.Found))
		if c.Note != "" {
			fmt.Fprintf(w, "    %s\n", c.Note)
		}
	}
	if len(v.Faults) > 0 {
		fmt.Fprintf(w, "\n  %-24s %9s %9s %9s %9s %9s\n", "fault", "injected", "held", "waiting", "releasing", "lost")
		for _, f := range v.Faults {
			fmt.Fprintf(w, "  %-24s %9d %9d %9d %9d %9d\n", f.Kind, f.N, f.Held, f.Waiting, f.Releasing, f.Lost)
		}
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-17s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w)
	spread := func(name string, s judge.Spread) {
		if s.N > 0 {
			line(name, "p50 %s  p99 %s  max %s  (%s)", milliseconds(s.Median), milliseconds(s.P99), milliseconds(s.Most), thousands(s.N))
		}
	}
	spread("waits", v.Waits)
	spread("hand-overs", v.HandOvers)
	spread("holds", v.Holds)
	if v.LostHolds > 0 {
		line("lost locks", "%s by processes, of which %s were told too late", thousands(v.LostHolds), thousands(v.ToldLate))
	}
	if v.Margins > 0 {
		line("told of a loss", "%s before the leader ended the session at least, %s in the median (%s)", milliseconds(v.MarginLeast), milliseconds(v.MarginMedian), plural(v.Margins, "session"))
	}
	line("stale writes", "%s refused by the register", thousands(v.StaleAttempts))
	if v.PausedOverlaps > 0 {
		line("excused", "%s with a process that was stopped, or whose node was deleted, and that could not know of it yet", plural(v.PausedOverlaps, "overlap"))
	}
	for i, s := range v.Standstills {
		if i == maxShown {
			line("stood still", "and %s more", times(uint64(len(v.Standstills)-i)))
			break
		}
		line("stood still", "%s: what is found in the time that follows may be its doing", s.Text)
	}
	for i, f := range v.Findings {
		if i == maxShown {
			fmt.Fprintf(w, "  and %s\n", plural(v.Found-i, "further finding"))
			break
		}
		where := ""
		if f.Lock != "" {
			where = " on " + f.Lock
		}
		during := ""
		if len(f.Faults) > 0 {
			during = fmt.Sprintf(" (faults %v)", f.Faults)
		}
		fmt.Fprintf(w, "  FOUND: %s%s: %s%s\n", f.Check, where, f.Text, during)
	}
}

// exitOf returns the exit status of an outcome.
func exitOf(o judge.Outcome) int {
	switch o {
	case judge.OK:
		return exitOK
	case judge.Void:
		return exitVoid
	default:
		return exitFailure
	}
}

// checkMain judges the history in dir again, and returns the exit status.
func checkMain(dir string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return exitFailure
	}
	h, err := history.ReadHeader(dir)
	if err != nil {
		return fail(err)
	}
	claimed, err := claim(dir)
	if err != nil {
		return fail(err)
	}
	defer claimed.Close()
	trimmed, err := history.ReadTrimmed(dir)
	if err != nil {
		return fail(err)
	}
	if trimmed.Segments > 0 {
		// If the run was killed it has no page yet.
		v, err := judge.Read(dir)
		if err == nil {
			err = report.Write(dir, h, v, eventsOf(dir))
		}
		if err != nil {
			return fail(err)
		}
		return fail(fmt.Errorf("the history in %s cannot be judged again: %s of events were removed while it grew. What was judged during the run is in its verdict.json, which says %s, and in its %s", dir, plural(trimmed.Segments, "file"), v.Outcome, report.Name))
	}
	began := time.Now()
	j, err := judge.History(dir)
	if err != nil {
		return fail(err)
	}
	v := j.Finish()
	fmt.Fprintf(stdout, "The history of %s, judged in %v\n", h.Command, time.Since(began).Round(time.Millisecond))
	printVerdict(stdout, v)
	for name, page := range j.Pictures() {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o666); err != nil {
			return fail(err)
		}
	}
	if err := errors.Join(v.Write(dir), report.Write(dir, h, v, eventsOf(dir))); err != nil {
		return fail(err)
	}
	fmt.Fprintf(stdout, "\n%s: %s\n", v.Outcome, sentence(v))
	fmt.Fprintf(stdout, "Report: %s\n", filepath.Join(dir, report.Name))
	return exitOf(v.Outcome)
}

// sentence says what a verdict is based on.
func sentence(v judge.Verdict) string {
	if v.Outcome == judge.Void {
		return voidReason(&v)
	}
	return fmt.Sprintf("%s, %s, %s, %s lost", plural(v.Found, "finding"), plural(int(v.Grants), "grant"), plural(v.FaultCount(), "fault"), plural(v.LostHolds, "hold"))
}
