// SPDX-License-Identifier: Apache-2.0

// Package summary says what a run of the harness has shown, for people and as JSON. What
// people read is in summary.txt.
package summary

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template"
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

// A Summary is the result of a run. The flag -json writes it as JSON, with every
// field present and durations in nanoseconds.
type Summary struct {
	Verdict verdict.Outcome `json:"verdict"` // OK, VIOLATION, FAILED or VOID
	Reasons []string        `json:"reasons"` // why the verdict is not OK
	Exit    int             `json:"exit"`    // the exit status

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

// LockTime is how long each process used one lock.
type LockTime struct {
	Lock      string          `json:"lock"`
	Processes []time.Duration `json:"process_ns"`
	Percent   []float64       `json:"percent"` // each process's share of their sum; 0 if that is 0
	// The sum as a share of the run. It can exceed 100: processes read together.
	PercentOfRun float64 `json:"percent_of_run"`
}

// NewLockTime returns the shares in a run that took elapsed.
func NewLockTime(lock string, processes []time.Duration, elapsed time.Duration) LockTime {
	l := LockTime{Lock: lock, Processes: processes, Percent: make([]float64, len(processes))}
	var sum time.Duration
	for _, d := range processes {
		sum += d
	}
	if sum > 0 {
		for i, d := range processes {
			l.Percent[i] = 100 * float64(d) / float64(sum)
		}
	}
	if elapsed > 0 {
		l.PercentOfRun = 100 * float64(sum) / float64(elapsed)
	}
	return l
}

// A Flaw is something that the run as a whole has shown to be wrong. No event of its history
// tells of it.
type Flaw struct {
	Outcome verdict.Outcome // Failed or Void
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
	note := func(o verdict.Outcome, format string, args ...any) {
		if s.Verdict == "" { // the worst comes first
			s.Verdict, s.Exit = o, ExitOf(o)
		}
		if text := fmt.Sprintf(format, args...); !slices.Contains(s.Reasons, text) { // the history may say so, too
			s.Reasons = append(s.Reasons, text)
		}
	}
	h := cmp.Or(s.History, &verdict.Verdict{})
	found := func(o verdict.Outcome) {
		if h.Outcome == o {
			note(o, "the history has %s", figures.Count(h.Found, "finding"))
		}
	}
	flaws := func(o verdict.Outcome) {
		for _, f := range s.Flaws() {
			if f.Outcome == o {
				note(o, "%s", f.Text)
			}
		}
	}
	if h.Diverged != "" { // before all that follows
		note(verdict.Void, "%s", h.Why())
	}
	if s.Violations > 0 {
		note(verdict.Violation, "%s", figures.Count(int(s.Violations), "violation"))
	}
	found(verdict.Violation)
	if s.Leaks > 0 {
		note(verdict.Failed, "%s leaked", figures.Count(s.Leaks, "node"))
	}
	if s.Failures > 0 {
		note(verdict.Failed, "%s", figures.Count(int(s.Failures), "failure"))
	}
	found(verdict.Failed)
	flaws(verdict.Failed)
	flaws(verdict.Void)
	if h.Outcome == verdict.Void {
		note(verdict.Void, "%s", h.Why())
	}
	if s.Verdict == "" {
		s.Verdict, s.Exit = verdict.OK, wire.ExitOK
	}
}

// ExitOf returns the exit status of an outcome.
func ExitOf(o verdict.Outcome) int {
	switch o {
	case verdict.OK:
		return wire.ExitOK
	case verdict.Void:
		return wire.ExitVoid
	}
	return wire.ExitFailure
}

// Flaws returns the flaws of the run.
func (s *Summary) Flaws() (all []Flaw) {
	note := func(o verdict.Outcome, format string, args ...any) {
		all = append(all, Flaw{o, fmt.Sprintf(format, args...)})
	}
	if s.FalseReports > s.LostHolds && !s.Faulty {
		note(verdict.Failed, "a holder was told %s that the last one was interrupted, which released the lock in good order", figures.Times(s.FalseReports))
	}
	if s.BrokenRounds > 0 && s.LostHolds == 0 && !s.Faulty {
		note(verdict.Failed, "%s were told that others had died, and none had", figures.Count(int(s.BrokenRounds), "member"))
	}
	if s.ReadWrite && s.ReadRatio < 1 && s.Elapsed >= starvedDuration && s.Tenure >= 0 && !s.Faulty && s.Contender == "" {
		for i, n := range s.ProcessWriteGrants {
			if n == 0 {
				note(verdict.Failed, "process %d was never granted a write lock", i)
			}
		}
	}
	least := uint64(voidEntries)
	if s.Recorded {
		least = voidRecorded
	}
	switch {
	case s.Entries == 0:
		note(verdict.Void, "no worker ever got a lock in %v", s.Elapsed.Round(100*time.Millisecond))
	case s.Elapsed >= voidDuration && s.Entries < least:
		note(verdict.Void, "workers got a lock only %s in %v, too rarely for the run to show anything (the least is %s), where each of them stays inside for %v on average (-hold) and contends for %s (-locks)",
			figures.Times(s.Entries), s.Elapsed.Round(100*time.Millisecond), figures.Number(least), s.Hold, figures.Count(s.Locks, "lock"))
	}
	if s.Swallow > 0 && s.Elapsed >= 2*s.Swallow && s.Swallowed == 0 {
		note(verdict.Void, "the server swallowed no answer")
	}
	return all
}

// Print writes the summary as text.
func (s *Summary) Print(w io.Writer) { render(w, "summary", s) }

// PrintVerdict writes what a history has shown.
func PrintVerdict(w io.Writer, v verdict.Verdict) { render(w, "verdict", v) }

//go:embed summary.txt
var text string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"n":          figures.NumberOf,
	"count":      figures.Count,
	"times":      figures.Times[int],
	"join":       strings.Join,
	"rate":       rate,
	"ratio":      ratio,
	"percent":    percent,
	"list":       list,
	"shares":     shares,
	"percents":   percents,
	"short":      short,
	"ms":         Milliseconds,
	"round":      func(d time.Duration, ms int) time.Duration { return d.Round(time.Duration(ms) * time.Millisecond) },
	"duration":   func(ns uint64) time.Duration { return time.Duration(ns) }, //nolint:gosec // no wait is so long
	"mostListed": func() int { return mostListed },
	"maxShown":   func() int { return MaxShown },
	"first":      first,
	"beyond":     func(n int, list any) int { return max(0, reflect.ValueOf(list).Len()-n) },
	"unshown":    unshown,
}).Parse(text))

// render writes what a template makes of data. Its errors are those of w, of which no person
// could be told.
func render(w io.Writer, name string, data any) { _ = templates.ExecuteTemplate(w, name, data) }

func first(n int, list any) any {
	v := reflect.ValueOf(list)
	return v.Slice(0, min(n, v.Len())).Interface()
}

// unshown returns how many findings are not shown, if not all that v lists are.
func unshown(v verdict.Verdict) int {
	if len(v.Findings) <= MaxShown {
		return 0
	}
	return v.Found - MaxShown
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

// Milliseconds formats a number of them.
func Milliseconds(ms float64) string { return short(time.Duration(ms * float64(time.Millisecond))) }

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
