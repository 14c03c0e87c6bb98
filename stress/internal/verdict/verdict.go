// SPDX-License-Identifier: Apache-2.0

// Package verdict has what a run of the stress harness has shown: the verdict that the judge
// gives, and that the summary, the page and the self-test read.
package verdict

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// An Outcome is what a run has shown.
type Outcome string

// The outcomes. A run that has shown several has the first of Violation, Failed and Void.
const (
	OK        Outcome = "OK"
	Violation Outcome = "VIOLATION" // a lock failed to exclude
	Failed    Outcome = "FAILED"    // the locks excluded, but something else is wrong
	Void      Outcome = "VOID"      // too little happened to show anything
)

// A Verdict is the judgement of a history.
type Verdict struct {
	Outcome  Outcome   `json:"outcome"`
	Interim  bool      `json:"interim,omitempty"` // the run goes on, or was killed
	Findings []Finding `json:"findings"`          // what is wrong, the worst first; the first hundred
	Found    int       `json:"found"`             // all of them
	Checks   []Check   `json:"checks"`            // each that was made
	Faults   []Fault   `json:"faults"`            // in the order of their kinds
	Injected []Hit     `json:"injected"`          // each fault, in the order of time; of very many, those that cost a lock first

	Standstills []Standstill `json:"standstills,omitempty"` // of the machine

	// Diverged says how ZooKeeper's servers contradicted each other before anything was found,
	// so that the run is void.
	Diverged string `json:"diverged,omitempty"`

	Grants         uint64  `json:"grants"`
	Requests       uint64  `json:"requests"`
	LostHolds      int     `json:"lost_holds"`
	LossesJudged   int     `json:"losses_judged"`        // of those: whether they were told in time
	ToldLate       int     `json:"told_late"`            // told late, or never
	NeverTold      int     `json:"never_told,omitempty"` // of these
	StaleAttempts  int     `json:"stale_attempts"`       // writes by those that no longer held the lock, all refused
	PausedOverlaps int     `json:"paused_overlaps"`      // with a process that was stopped, and could not know
	MarginLeast    float64 `json:"margin_least_ms"`      // told of a loss so long before the leader ended the session
	MarginMedian   float64 `json:"margin_median_ms"`     // of those whose end the leader's log has
	Margins        int     `json:"margins"`
	Waits          Spread  `json:"waits"`     // from Request to Granted
	HandOvers      Spread  `json:"handovers"` // from Release by one process to Granted in another
	Holds          Spread  `json:"holds"`
}

// A Spread describes durations, in milliseconds.
type Spread struct {
	N      uint64  `json:"n"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	Most   float64 `json:"most_ms"`
	// Counts by powers of two: Buckets[i] have taken at least 2^i µs and less than twice that;
	// the first also has the shorter ones.
	Buckets []uint64 `json:"buckets"`
}

// A Finding is something that is wrong.
type Finding struct {
	Check string `json:"check"` // name of the Check
	Lock  string `json:"lock,omitempty"`
	At    int64  `json:"at"` // monotonic
	// Text says what happened, with processes, tokens and times: enough for a person who
	// looks for the cause.
	Text string `json:"text"`
	// Faults has the numbers of the faults that were active, or had ended a moment before.
	Faults []int `json:"faults,omitempty"`
}

// A Check is one way of judging.
type Check struct {
	Name   string `json:"name"`   // e.g. "no two processes inside at once"
	Judged uint64 `json:"judged"` // how many times it could have failed
	Found  uint64 `json:"found"`  // how many times it did
	Note   string `json:"note,omitempty"`
}

// Made reports whether the check was made at all. Else it is no sign of anything that it has
// found nothing.
func (c Check) Made() bool { return c.Judged > 0 || c.Found > 0 }

// A Fault is a kind of fault, and how often it hit.
type Fault struct {
	Kind      string `json:"kind"`
	N         int    `json:"n"`         // injected
	Held      int    `json:"held"`      // while a lock was held that it could affect
	Waiting   int    `json:"waiting"`   // while one was waited for
	Releasing int    `json:"releasing"` // while one was being released
	Lost      int    `json:"lost"`      // holds that were lost during it, or within two session timeouts
}

// A Hit is one fault.
type Hit struct {
	Fault  int      `json:"fault"`
	Kind   string   `json:"kind"`
	Target string   `json:"target"`
	Began  int64    `json:"began"`
	Ended  int64    `json:"ended"`
	Lost   []string `json:"lost,omitempty"` // which locks were lost, and by which process
}

// A Standstill is a time in which the machine did not run. All that is judged by the clock
// may be wrong during it and for a while afterwards, whatever the locks do. A finding is one
// nevertheless, but says so.
type Standstill struct {
	At   int64  `json:"at"` // when the machine went on
	For  int64  `json:"for_ns"`
	Text string `json:"text"` // when it was, and how long
}

// FaultCount returns how many faults were injected, also those that Injected does not list.
func (v Verdict) FaultCount() (n int) {
	for _, f := range v.Faults {
		n += f.N
	}
	return max(n, len(v.Injected))
}

// MayHaveCost returns how many holds the faults may have cost. A hold counts at each fault
// that may have cost it.
func (v Verdict) MayHaveCost() (n int) {
	for _, f := range v.Faults {
		n += f.Lost
	}
	return n
}

// Why says in one sentence without a full stop why a void run shows nothing: what kept it
// from that, which kinds of faults have not hit, or how few grants there were. The findings
// have each reason by itself.
func (v Verdict) Why() string {
	if v.Diverged != "" {
		return "ZooKeeper's servers contradicted each other " + v.Diverged + ", so what was found shows nothing about the locks"
	}
	for _, f := range v.Findings {
		if f.Check == Whole || f.Check == Decided || f.Check == Enough {
			return f.Text
		}
	}
	var missed []string
	for _, f := range v.Faults {
		if f.Held == 0 || f.Waiting == 0 {
			missed = append(missed, f.Kind)
		}
	}
	if len(missed) > 0 {
		return "these kinds of faults had no effect while a lock was held, or none while one was waited for: " + strings.Join(missed, ", ") + "; let the run last longer, or name fewer kinds"
	}
	if v.Grants == 0 {
		return "no worker ever got a lock"
	}
	why := fmt.Sprintf("workers got a lock only %s, too rarely for the history to show anything", figures.Times(v.Grants))
	if v.Holds.N > 0 {
		why += ": they stayed inside for up to " + figures.Duration(time.Duration(v.Holds.Most*float64(time.Millisecond)))
	}
	return why
}

// Cut makes of an interim verdict that of a run that was killed: if it has found nothing until
// then, it has shown nothing.
func (v *Verdict) Cut() {
	if v.Interim = false; v.Outcome == OK {
		v.Outcome = Void
	}
	f := Finding{Check: Whole, Text: "the run was killed: what had happened before is judged, and nothing after that"}
	for _, h := range v.Injected {
		f.At = max(f.At, h.Began)
	}
	v.Findings = append(v.Findings, f)
	v.Found++
}

// PicturePattern matches the names of the pictures that lie beside a verdict: of histories of
// locks that are not linearizable.
const PicturePattern = "linearizability-*.html"

// PictureName returns the name of a picture, which is the nth, of the lock of that name.
func PictureName(n int, lock string) string {
	return fmt.Sprintf("linearizability-%d-%s.html", n, lock)
}

const verdictName = "verdict.json"

// Write writes the verdict into the directory of the history, all at once.
func (v Verdict) Write(dir string) error {
	return history.WriteJSON(filepath.Join(dir, verdictName), v)
}

// Read reads the verdict that was written into the directory of a history.
func Read(dir string) (v Verdict, err error) {
	if err := history.ReadJSON(filepath.Join(dir, verdictName), &v); err != nil {
		return v, fmt.Errorf("read the verdict: %w", err)
	}
	return v, nil
}
