// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// The exit statuses.
const (
	exitOK      = 0
	exitFailure = 1 // a violation, a leak, a stuck worker, a failed process
	exitUsage   = 2
	exitVoid    = 3 // too little happened to prove anything
)

// A run of voidDuration or longer with fewer than voidEntries is void: that
// nothing was violated is then no news.
const (
	voidDuration = 10 * time.Second
	voidEntries  = 1000
)

// In a run of starvedDuration or longer, with writes, each process's writers must
// have been granted at least once.
const starvedDuration = 10 * time.Second

// A verdict is what a run comes to.
type verdict string

const (
	ok        verdict = "OK"
	violated  verdict = "VIOLATION" // the locks did not hold
	failed    verdict = "FAILED"    // they held, but something else is wrong
	voidedRun verdict = "VOID"      // too little happened
)

// A summary is what came of a run. As JSON (flag -json) its durations are in
// nanoseconds. Only the fields below are there; none is ever left out.
type summary struct {
	Verdict verdict  `json:"verdict"` // OK, VIOLATION, FAILED or VOID
	Reasons []string `json:"reasons"` // why it is not OK
	Exit    int      `json:"exit"`    // the exit status

	// What was run.
	Seed        uint64        `json:"seed"`
	Servers     []string      `json:"servers"`
	Embedded    bool          `json:"embedded"` // Servers is the embedded server
	Begin       time.Time     `json:"begin"`
	Planned     time.Duration `json:"planned_ns"`
	Elapsed     time.Duration `json:"elapsed_ns"`  // that the workers worked
	Interrupted bool          `json:"interrupted"` // by Ctrl-C
	Processes   int           `json:"processes"`
	Goroutines  int           `json:"goroutines"` // of each process
	Locks       int           `json:"locks"`
	Hold        time.Duration `json:"hold_ns"`    // mean time inside
	Think       time.Duration `json:"think_ns"`   // mean time between steps
	Greedy      bool          `json:"greedy"`     // nobody paused or gave up
	Tenure      time.Duration `json:"tenure_ns"`  // as asked for; 0: the library's default
	ReadWrite   bool          `json:"read_write"` // the locks are read/write locks
	ReadRatio   float64       `json:"read_ratio"` // how many of their steps are reads

	// What happened, of all processes together; see the type.
	counts
	ProcessGrants []uint64 `json:"process_grants"` // the grants of each process
	// The grants of each process's write locks; empty for exclusive locks.
	ProcessWriteGrants []uint64         `json:"process_write_grants"`
	Held               []lockTime       `json:"held"`      // for how long each process had each lock
	Latencies          []latencySummary `json:"latencies"` // until a worker was in, by how it asked

	// What was wrong; of each list the first ones only.
	Leaks         int         `json:"leaked_nodes"`
	ViolationList []violation `json:"violation_list"`
	FailureList   []string    `json:"failure_list"`
	LeakList      []leak      `json:"leak_list"`

	latency *latency // of all processes
}

// newSummary returns the summary of a run that begins now, in which nothing
// has happened yet. In JSON, its lists are empty ones, not null.
func newSummary(now time.Time) summary {
	return summary{
		Begin:              now,
		Reasons:            []string{},
		ProcessWriteGrants: []uint64{},
		Held:               []lockTime{},
		ViolationList:      []violation{},
		FailureList:        []string{},
		LeakList:           []leak{},
		latency:            newLatency(),
	}
}

// judge sets the verdict, its reasons, and the exit status.
func (s *summary) judge() {
	note := func(v verdict, exit int, format string, args ...any) {
		if s.Verdict == "" { // the worst one is noted first
			s.Verdict, s.Exit = v, exit
		}
		s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...))
	}
	if s.Violations > 0 {
		note(violated, exitFailure, "%s", plural(int(s.Violations), "violation"))
	}
	if s.Leaks > 0 {
		note(failed, exitFailure, "%s left behind", plural(s.Leaks, "node"))
	}
	if s.Failures > 0 {
		note(failed, exitFailure, "%s", plural(int(s.Failures), "failure"))
	}
	if s.ReadWrite && s.ReadRatio < 1 && s.Elapsed >= starvedDuration && s.Tenure >= 0 {
		for i, n := range s.ProcessWriteGrants {
			if n == 0 {
				note(failed, exitFailure, "no writer of process %d was granted", i)
			}
		}
	}
	if s.Entries == 0 || s.Elapsed >= voidDuration && s.Entries < voidEntries {
		note(voidedRun, exitVoid, "%s %s into a lock in %v: too few to prove anything", thousands(s.Entries), entriesWord(s.Entries), s.Elapsed.Round(100*time.Millisecond))
	}
	if s.Verdict == "" {
		s.Verdict, s.Exit = ok, exitOK
	}
}

func entriesWord(n uint64) string {
	if n == 1 {
		return "entry"
	}
	return "entries"
}

// print writes the summary for a person.
func (s *summary) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-17s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "\nSummary\n")
	where := strings.Join(s.Servers, ",")
	if s.Embedded {
		where = "embedded, for demonstration"
	}
	line("servers", "%s", where)
	early := ""
	if s.Interrupted {
		early = fmt.Sprintf(" of %v: interrupted", s.Planned)
	}
	line("ran", "%v%s, seed %d", s.Elapsed.Round(10*time.Millisecond), early, s.Seed)
	line("contended", "%s", options{processes: s.Processes, goroutines: s.Goroutines, locks: s.Locks, readWrite: s.ReadWrite}.scale())
	if s.Greedy {
		line("", "inside for %v on average, nothing between two steps: greedy", s.Hold)
	} else {
		line("", "inside for %v on average, %v between two steps", s.Hold, s.Think)
	}
	switch {
	case s.Tenure > 0:
		line("tenure", "%v", s.Tenure)
	case s.Tenure < 0:
		line("tenure", "negative: a process keeps a lock for as long as its goroutines keep coming")
	}
	line("grants", "%s of %s rounds, %s/s; by process %s", thousands(s.Grants), thousands(s.Rounds), rate(s.Grants, s.Elapsed), shares(s.ProcessGrants))
	for i, l := range s.Held {
		if i == mostListed {
			line("", "and of %s more", plural(len(s.Held)-mostListed, "lock"))
			break
		}
		line("time held", "of %s: by process %s; %.1f %% of the run", l.Lock, percents(l.Percent), l.PercentOfRun)
	}
	line("entries", "%s, %s/s; %s per grant", thousands(s.Entries), rate(s.Entries, s.Elapsed), ratio(s.Entries, s.Grants))
	if s.ReadWrite {
		line("reads", "%s of the steps; %s entries, %s per read grant (%s)", percent(s.ReadRatio), thousands(s.ReadEntries), ratio(s.ReadEntries, s.ReadGrants), thousands(s.ReadGrants))
		line("writes", "%s entries, %s per write grant (%s)", thousands(s.WriteEntries), ratio(s.WriteEntries, s.WriteGrants), thousands(s.WriteGrants))
		line("write grants", "by process %s", list(s.ProcessWriteGrants))
		line("write to read", "%s downgrades; read to write refused %s", thousands(s.Downgrades), thousands(s.RefusedUpgrades))
	}
	line("further holds", "%s reentered, %s shared with another goroutine", thousands(s.Reentries), thousands(s.Shares))
	line("did not get in", "TryLock refused %s, timed out %s, cancelled %s", thousands(s.Refusals), thousands(s.Timeouts), thousands(s.Cancels))
	line("lost holds", "%s", thousands(s.LostHolds))
	line("lost CAS races", "%s, at most %s in a row", thousands(s.LostRaces), thousands(s.LongestRace))
	fmt.Fprintf(w, "\n  %-24s %10s %10s %10s %12s\n", "until in, after", "p50", "p99", "max", "times")
	for _, l := range s.Latencies {
		fmt.Fprintf(w, "  %-24s %10s %10s %10s %12s\n", l.Kind, short(l.P50), short(l.P99), short(l.Max), thousands(l.Count))
	}
	fmt.Fprintln(w)
	line("violations", "%s", thousands(s.Violations))
	line("leaked nodes", "%s", thousands(s.Leaks))
	line("other failures", "%s", thousands(s.Failures))
	switch {
	case s.Verdict == ok && s.ReadWrite:
		fmt.Fprintf(w, "\n%s: no writer was inside beside another process, every wait ended, no node is left\n", s.Verdict)
	case s.Verdict == ok:
		fmt.Fprintf(w, "\n%s: every entry was alone among the processes, every wait ended, no node is left\n", s.Verdict)
	default:
		fmt.Fprintf(w, "\n%s: %s\n", s.Verdict, strings.Join(s.Reasons, "; "))
	}
}

func rate(n uint64, d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return thousands(int64(float64(n) / d.Seconds()))
}

func ratio(n, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(of))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + " %" }

// mostListed is how many processes are listed one by one.
const mostListed = 16

// list writes the numbers.
func list(numbers []uint64) string {
	return listed(len(numbers), ", ", ", and", func(i int) string { return thousands(numbers[i]) })
}

// shares writes how the total is made up.
func shares(parts []uint64) string {
	var total uint64
	for _, n := range parts {
		total += n
	}
	if total == 0 {
		return "-"
	}
	return listed(len(parts), " + ", " and", func(i int) string { return fmt.Sprintf("%.0f", 100*float64(parts[i])/float64(total)) }) + " %"
}

// percents writes how the whole is made up.
func percents(parts []float64) string {
	if len(parts) == 0 {
		return "-"
	}
	return listed(len(parts), " + ", " and", func(i int) string { return fmt.Sprintf("%.1f", parts[i]) }) + " %"
}

// listed writes n items with separators between them, or the first of them, and
// how many more there are.
func listed(n int, separator, and string, item func(i int) string) string {
	items := make([]string, min(n, mostListed))
	for i := range items {
		items[i] = item(i)
	}
	text := strings.Join(items, separator)
	if n > mostListed {
		text += fmt.Sprintf("%s %d more", and, n-mostListed)
	}
	return text
}

// short writes a duration with three significant figures.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// writeJSON writes the summary to a file.
func (s *summary) writeJSON(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}
