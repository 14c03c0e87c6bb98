// SPDX-License-Identifier: Apache-2.0

// Package summary says what a run of the harness has shown, for people and as JSON.
package summary

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// MaxShown is how many violations, failures and leaks are shown; further ones are counted.
const MaxShown = 20

// A run of voidDuration or longer with fewer than voidEntries entries is void:
// finding no fault then means little.
const (
	voidDuration = 10 * time.Second
	voidEntries  = 1000
	// In a run with a history workers pause for longer, and faults stop them.
	voidRecorded = 100
)

// In a run of starvedDuration or longer that has writers, the write lock must be
// granted to each process at least once.
const starvedDuration = 10 * time.Second

// A Verdict is the outcome of a run.
type Verdict string

// The verdicts.
const (
	OK       Verdict = "OK"
	Violated Verdict = "VIOLATION" // the locks failed to exclude
	Failed   Verdict = "FAILED"    // they excluded, but something else is wrong
	Voided   Verdict = "VOID"      // too little happened
)

// A Summary is the result of a run. The flag -json writes it as JSON, with every
// field present and durations in nanoseconds.
type Summary struct {
	Verdict Verdict  `json:"verdict"` // OK, VIOLATION, FAILED or VOID
	Reasons []string `json:"reasons"` // why the verdict is not OK
	Exit    int      `json:"exit"`    // the exit status

	// The run.
	wire.Workload
	Servers     []string      `json:"servers"`
	Embedded    bool          `json:"embedded"` // Servers is the embedded server
	Begin       time.Time     `json:"begin"`
	Planned     time.Duration `json:"planned_ns"`
	Elapsed     time.Duration `json:"elapsed_ns"`  // time for which the workers ran
	Interrupted bool          `json:"interrupted"` // by Ctrl-C

	// Events, of all processes together.
	wire.Counts
	Swallowed          int                   `json:"swallowed_answers"`
	ProcessGrants      []uint64              `json:"process_grants"`       // by process
	ProcessWriteGrants []uint64              `json:"process_write_grants"` // by process; empty for exclusive locks
	Held               []LockTime            `json:"held"`                 // by lock
	Latencies          []wire.LatencySummary `json:"latencies"`            // from request to grant

	// Of a run with a history.
	History *verdict.Verdict `json:"history,omitempty"`
	Report  string           `json:"report,omitempty"`  // path of the page
	Command string           `json:"command,omitempty"` // that repeats the run

	// What is wrong. The lists are limited to the first few.
	Leaks         int                 `json:"leaked_nodes"`
	ViolationList []referee.Violation `json:"violation_list"`
	FailureList   []string            `json:"failure_list"`
	LeakList      []cluster.Leak      `json:"leak_list"`

	Latency  *wire.Latency `json:"-"` // of all processes
	Recorded bool          // the run has a history
}

// A Flaw is something that the run as a whole has shown to be wrong. No event of its history
// tells of it.
type Flaw struct {
	Verdict Verdict // Failed or Voided
	Text    string
}

// New returns the summary of a run that begins now. Its lists are empty
// rather than nil, so that none is null in JSON.
func New(now time.Time) Summary {
	return Summary{
		Begin:              now,
		Reasons:            []string{},
		ProcessWriteGrants: []uint64{},
		Held:               []LockTime{},
		ViolationList:      []referee.Violation{},
		FailureList:        []string{},
		LeakList:           []cluster.Leak{},
		Latency:            wire.NewLatency(),
	}
}

// Judge sets the verdict, its reasons, and the exit status.
func (s *Summary) Judge() {
	note := func(v Verdict, exit int, format string, args ...any) {
		if s.Verdict == "" { // the worst comes first
			s.Verdict, s.Exit = v, exit
		}
		if text := fmt.Sprintf(format, args...); !slices.Contains(s.Reasons, text) { // the history may say so, too
			s.Reasons = append(s.Reasons, text)
		}
	}
	if s.History != nil && s.History.Diverged != "" { // before all that follows
		note(Voided, wire.ExitVoid, "%s", s.History.Why())
	}
	if s.Violations > 0 {
		note(Violated, wire.ExitFailure, "%s", figures.Count(int(s.Violations), "violation"))
	}
	if s.History != nil && s.History.Outcome == verdict.Violation {
		note(Violated, wire.ExitFailure, "the history has %s", figures.Count(s.History.Found, "finding"))
	}
	if s.Leaks > 0 {
		note(Failed, wire.ExitFailure, "%s leaked", figures.Count(s.Leaks, "node"))
	}
	if s.Failures > 0 {
		note(Failed, wire.ExitFailure, "%s", figures.Count(int(s.Failures), "failure"))
	}
	if s.History != nil && s.History.Outcome == verdict.Failed {
		note(Failed, wire.ExitFailure, "the history has %s", figures.Count(s.History.Found, "finding"))
	}
	for _, f := range s.Flaws() {
		if f.Verdict == Failed {
			note(Failed, wire.ExitFailure, "%s", f.Text)
		}
	}
	for _, f := range s.Flaws() {
		if f.Verdict == Voided {
			note(Voided, wire.ExitVoid, "%s", f.Text)
		}
	}
	if s.History != nil && s.History.Outcome == verdict.Void {
		note(Voided, wire.ExitVoid, "%s", s.History.Why())
	}
	if s.Verdict == "" {
		s.Verdict, s.Exit = OK, wire.ExitOK
	}
}

// Flaws returns the flaws of the run.
func (s *Summary) Flaws() (all []Flaw) {
	note := func(v Verdict, format string, args ...any) {
		all = append(all, Flaw{v, fmt.Sprintf(format, args...)})
	}
	if s.FalseReports > s.LostHolds && !s.Faulty {
		note(Failed, "a holder was told %s that the last one was interrupted, which released the lock in good order", figures.Times(s.FalseReports))
	}
	if s.BrokenRounds > 0 && s.LostHolds == 0 && !s.Faulty {
		note(Failed, "%s were told that others had died, and none had", figures.Count(int(s.BrokenRounds), "member"))
	}
	if s.ReadWrite && s.ReadRatio < 1 && s.Elapsed >= starvedDuration && s.Tenure >= 0 && !s.Faulty {
		for i, n := range s.ProcessWriteGrants {
			if n == 0 {
				note(Failed, "process %d was never granted a write lock", i)
			}
		}
	}
	least := uint64(voidEntries)
	if s.Recorded {
		least = voidRecorded
	}
	if s.Entries == 0 || s.Elapsed >= voidDuration && s.Entries < least {
		note(Voided, "workers got a lock only %s in %v, where each of them stays inside for %v on average (-hold) and contends for %s (-locks)",
			figures.Times(s.Entries), s.Elapsed.Round(100*time.Millisecond), s.Hold, figures.Count(s.Locks, "lock"))
	}
	if s.Swallow > 0 && s.Elapsed >= 2*s.Swallow && s.Swallowed == 0 {
		note(Voided, "the server swallowed no answer")
	}
	return all
}

// Print writes the summary as text.
func (s *Summary) Print(w io.Writer) {
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
	line("contenders", "%s", s.Scale())
	if s.Greedy {
		line("", "each holds for %v on average and asks again at once (greedy)", s.Hold)
	} else {
		line("", "each holds for %v and pauses for %v, on average", s.Hold, s.Think)
	}
	switch {
	case s.Tenure > 0:
		line("tenure", "%v", s.Tenure)
	case s.Tenure < 0:
		line("tenure", "negative: a process keeps a lock while its goroutines keep asking for it")
	}
	if s.Linger > 0 {
		line("linger", "%v", s.Linger)
	}
	line("grants", "%s to processes, in %s attempts, %s/s; by process %s", figures.Number(s.Grants), figures.Number(s.Rounds), rate(s.Grants, s.Elapsed), shares(s.ProcessGrants))
	for i, l := range s.Held {
		if i == mostListed {
			line("", "and %s more", figures.Count(len(s.Held)-mostListed, "lock"))
			break
		}
		line("time held", "%s: by process %s; %.1f %% of the run", l.Lock, percents(l.Percent), l.PercentOfRun)
	}
	line("entries", "%s by workers, %s/s; %s per grant", figures.Number(s.Entries), rate(s.Entries, s.Elapsed), ratio(s.Entries, s.Grants))
	if s.ReadWrite {
		line("reads", "%s of the steps; %s entries, %s per read grant (%s)", percent(s.ReadRatio), figures.Number(s.ReadEntries), ratio(s.ReadEntries, s.ReadGrants), figures.Number(s.ReadGrants))
		line("writes", "%s entries, %s per write grant (%s)", figures.Number(s.WriteEntries), ratio(s.WriteEntries, s.WriteGrants), figures.Number(s.WriteGrants))
		line("write grants", "by process %s", list(s.ProcessWriteGrants))
		line("write to read", "%s downgrades; %s upgrades refused", figures.Number(s.Downgrades), figures.Number(s.RefusedUpgrades))
	}
	if s.Kind == wire.UpgradeWorkload {
		line("upgradable reads", "%s entries, %s per grant (%s); %s upgrades", figures.Number(s.UpgradableEntries), ratio(s.UpgradableEntries, s.UpgradableGrants), figures.Number(s.UpgradableGrants), figures.Number(s.Upgrades))
	}
	if s.Kind == wire.AbandonedWorkload {
		line("interrupted", "%s holders; %s entries were told, %s of grants falsely", figures.Number(s.Panics), figures.Number(s.Abandoned), figures.Number(s.FalseReports))
	}
	if s.Kind == wire.BarrierWorkload {
		line("broken rounds", "%s members were told that others had died", figures.Number(s.BrokenRounds))
	}
	if s.Kind == wire.AllWorkload {
		line("LockAll", "%s granted, the longest wait %v; %s refused to holders of a part", figures.Number(s.LockAlls), time.Duration(s.LongestLockAll).Round(time.Millisecond), figures.Number(s.RefusedParts))
		line("nested", "%s locks taken inside another", figures.Number(s.Nested))
	}
	line("further holds", "%s by reentering, %s by sharing with another goroutine", figures.Number(s.Reentries), figures.Number(s.Shares))
	line("not granted", "%s refused by TryLock, %s timed out, %s cancelled", figures.Number(s.Refusals), figures.Number(s.Timeouts), figures.Number(s.Cancels))
	line("lost holds", "%s", figures.Number(s.LostHolds))
	line("lost CAS races", "%s, at most %s in a row", figures.Number(s.LostRaces), figures.Number(s.LongestRace))
	if s.Swallow > 0 {
		line("answers swallowed", "%s by the server", figures.Number(s.Swallowed))
	}
	fmt.Fprintf(w, "\n  %-24s %10s %10s %10s %12s\n", "time to get a lock", "p50", "p99", "max", "count")
	for _, l := range s.Latencies {
		fmt.Fprintf(w, "  %-24s %10s %10s %10s %12s\n", l.Kind, short(l.P50), short(l.P99), short(l.Max), figures.Number(l.Count))
	}
	if s.History != nil {
		PrintVerdict(w, *s.History)
	}
	fmt.Fprintln(w)
	line("violations", "%s", figures.Number(s.Violations))
	line("leaked nodes", "%s", figures.Number(s.Leaks))
	line("other failures", "%s", figures.Number(s.Failures))
	switch {
	case s.Verdict == OK && s.Kind == wire.MutexWorkload:
		fmt.Fprintf(w, "\n%s: no two goroutines held a mutex at once, every wait ended, no node leaked\n", s.Verdict)
	case s.Verdict == OK && s.Kind == wire.BarrierWorkload:
		fmt.Fprintf(w, "\n%s: no member left a round before the others, every wait ended, no node leaked\n", s.Verdict)
	case s.Verdict == OK && s.ReadWrite:
		fmt.Fprintf(w, "\n%s: no writer overlapped with another process, every wait ended, no node leaked\n", s.Verdict)
	case s.Verdict == OK:
		fmt.Fprintf(w, "\n%s: no two processes held a lock at once, every wait ended, no node leaked\n", s.Verdict)
	default:
		fmt.Fprintf(w, "\n%s: %s\n", s.Verdict, strings.Join(s.Reasons, "; "))
		if s.Command != "" {
			fmt.Fprintf(w, "To repeat the run: %s\n", s.Command)
		}
	}
	if s.Report != "" {
		fmt.Fprintf(w, "Report: %s\n", s.Report)
	}
}

func rate(n uint64, d time.Duration) string {
	if d <= 0 {
		return "0"
	}
	return figures.Number(int64(float64(n) / d.Seconds()))
}

func ratio(n, of uint64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(n)/float64(of))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + " %" }

// mostListed limits how many processes or locks are listed.
const mostListed = 16

// list formats numbers.
func list(numbers []uint64) string {
	return listed(len(numbers), ", ", ", and", func(i int) string { return figures.Number(numbers[i]) })
}

// shares formats the parts as percentages of their sum.
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

// percents formats percentages that add up to 100.
func percents(parts []float64) string {
	if len(parts) == 0 {
		return "-"
	}
	return listed(len(parts), " + ", " and", func(i int) string { return fmt.Sprintf("%.1f", parts[i]) }) + " %"
}

// listed joins n items, or the first of them and the number of the others.
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

// short formats a duration with three significant figures.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// WriteJSON writes the summary to the named file.
func (s *Summary) WriteJSON(path string) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}
