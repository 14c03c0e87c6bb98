// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/judge"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// notJudged stands in place of the findings of a check that was not made once.
const notJudged = "not judged"

// printVerdict writes what a history has shown.
func printVerdict(w io.Writer, v judge.Verdict) {
	fmt.Fprintf(w, "\n  %-62s %10s %10s\n", "checked in the history", "judged", "found")
	for _, c := range v.Checks {
		found := figures.Number(c.Found)
		if !c.Made() {
			found = notJudged
		}
		fmt.Fprintf(w, "  %-62s %10s %10s\n", c.Name, figures.Number(c.Judged), found)
		if c.Note != "" {
			fmt.Fprintf(w, "    %s\n", c.Note)
		}
	}
	if len(v.Faults) > 0 {
		lost := 0
		fmt.Fprintf(w, "\n  %-24s %9s %9s %9s %9s %9s\n", "fault", "injected", "held", "waiting", "releasing", "lost")
		for _, f := range v.Faults {
			fmt.Fprintf(w, "  %-24s %9s %9s %9s %9s %9s\n", f.Kind, figures.Number(f.N), figures.Number(f.Held), figures.Number(f.Waiting), figures.Number(f.Releasing), figures.Number(f.Lost))
			lost += f.Lost
		}
		if lost > 0 {
			fmt.Fprintf(w, "    lost: a hold counts at each fault that may have cost it, and so does what a process held when a fault ended it: %s lost in all\n", figures.Count(v.LostHolds, "hold"))
		}
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-17s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w)
	spread := func(name string, s judge.Spread) {
		if s.N > 0 {
			line(name, "p50 %s  p99 %s  max %s  (%s)", milliseconds(s.Median), milliseconds(s.P99), milliseconds(s.Most), figures.Number(s.N))
		}
	}
	spread("waits", v.Waits)
	spread("hand-overs", v.HandOvers)
	spread("holds", v.Holds)
	if v.LostHolds > 0 {
		line("lost locks", "%s by processes; of %s it could be judged whether they were told in time, and %s were told too late", figures.Number(v.LostHolds), figures.Number(v.LossesJudged), figures.Number(v.ToldLate))
	}
	if v.Margins > 0 {
		line("told of a loss", "%s before the leader ended the session at least, %s in the median (%s)", milliseconds(v.MarginLeast), milliseconds(v.MarginMedian), figures.Count(v.Margins, "session"))
	}
	line("stale writes", "%s refused by the register", figures.Number(v.StaleAttempts))
	if v.PausedOverlaps > 0 {
		line("excused", "%s with a process that was stopped, or whose node was deleted, and that could not know of it yet", figures.Count(v.PausedOverlaps, "overlap"))
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
			fmt.Fprintf(w, "  and %s\n", figures.Count(v.Found-i, "further finding"))
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
		return wire.ExitOK
	case judge.Void:
		return wire.ExitVoid
	default:
		return wire.ExitFailure
	}
}

// checkMain judges the history in dir again, and returns the exit status.
func checkMain(dir string, stdout, stderr io.Writer) int {
	fail := func(err error) int {
		fmt.Fprintf(stderr, "stress: %v\n", err)
		return wire.ExitFailure
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
		return checkRest(dir, h, trimmed, stdout, fail)
	}
	began := time.Now()
	j, err := judge.History(dir)
	if err != nil {
		return fail(err)
	}
	v := j.Finish()
	fmt.Fprintf(stdout, "The history of %s, judged in %v\n", h.Command, time.Since(began).Round(time.Millisecond))
	return conclude(dir, h, j, v, stdout, fail)
}

// checkRest judges what is left of a history from which events were removed while it was
// written. What the run had found in them stands.
func checkRest(dir string, h history.Header, trimmed history.Trimmed, stdout io.Writer, fail func(error) int) int {
	before, err := judge.Read(dir)
	if err != nil {
		return fail(err)
	}
	if before.Interim {
		before.Cut()
	}
	began := time.Now()
	j, from, err := judge.Rest(dir)
	if err != nil {
		return fail(err)
	}
	rest := j.Finish()
	fmt.Fprintf(stdout, "The history of %s, of which %s of events were removed during the run. What came until %v after the beginning was not judged again: the run had found %s in it and in what it judged later, which stands. What came from then on was judged again in %v: %s, %s.\n",
		h.Command, figures.Count(trimmed.Segments, "file"), judge.After(h, from), figures.Count(before.Found, "finding"), time.Since(began).Round(time.Millisecond), figures.Count(int(rest.Grants), "grant"), figures.Count(rest.Found, "finding"))
	return conclude(dir, h, j, before.With(rest, judge.RestNote(h, trimmed, from)), stdout, fail)
}

// conclude prints and writes the verdict on a history that was judged by j, and its page.
func conclude(dir string, h history.Header, j *judge.Judge, v judge.Verdict, stdout io.Writer, fail func(error) int) int {
	printVerdict(stdout, v)
	if err := removeFiles(dir, judge.PicturePattern); err != nil {
		return fail(err)
	}
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
		return v.Why()
	}
	return fmt.Sprintf("%s, %s, %s, %s lost", figures.Count(v.Found, "finding"), figures.Count(int(v.Grants), "grant"), figures.Count(v.FaultCount(), "fault"), figures.Count(v.LostHolds, "hold"))
}
