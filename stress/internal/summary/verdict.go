// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// notJudged stands in place of the findings of a check that was not made once.
const notJudged = "not judged"

// PrintVerdict writes what a history has shown.
func PrintVerdict(w io.Writer, v verdict.Verdict) {
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
	spread := func(name string, s verdict.Spread) {
		if s.N > 0 {
			line(name, "p50 %s  p99 %s  max %s  (%s)", Milliseconds(s.Median), Milliseconds(s.P99), Milliseconds(s.Most), figures.Number(s.N))
		}
	}
	spread("waits", v.Waits)
	spread("hand-overs", v.HandOvers)
	spread("holds", v.Holds)
	if v.LostHolds > 0 {
		line("lost locks", "%s by processes; of %s it could be judged whether they were told in time, and %s were told too late", figures.Number(v.LostHolds), figures.Number(v.LossesJudged), figures.Number(v.ToldLate))
	}
	if v.Margins > 0 {
		line("told of a loss", "%s before the leader ended the session at least, %s in the median (%s)", Milliseconds(v.MarginLeast), Milliseconds(v.MarginMedian), figures.Count(v.Margins, "session"))
	}
	line("stale writes", "%s refused by the register", figures.Number(v.StaleAttempts))
	if v.PausedOverlaps > 0 {
		line("excused", "%s with a process that was stopped, or whose node was deleted, and that could not know of it yet", figures.Count(v.PausedOverlaps, "overlap"))
	}
	for i, s := range v.Standstills {
		if i == MaxShown {
			line("stood still", "and %s more", figures.Times(len(v.Standstills)-i))
			break
		}
		line("stood still", "%s: what is found in the time that follows may be its doing", s.Text)
	}
	for i, f := range v.Findings {
		if i == MaxShown {
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

// Milliseconds formats a number of them.
func Milliseconds(ms float64) string { return short(time.Duration(ms * float64(time.Millisecond))) }
