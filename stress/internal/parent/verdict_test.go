// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/chronicle"
	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/options"
	"github.com/holdfast-go/holdfast/stress/internal/progress"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A check that was not made once does not look as if it had found nothing, nor do losses of
// which it is not known whether they were told in time.
func TestVerdictSaysWhatIsNotJudged(t *testing.T) {
	var text strings.Builder
	summary.PrintVerdict(&text, verdict.Verdict{
		Checks:    []verdict.Check{{Name: "made", Judged: 7}, {Name: "not made"}, {Name: "sees at once", Found: 1}},
		LostHolds: 3, LossesJudged: 1,
	})
	for _, line := range []string{
		`(?m)^  made +7 +0$`,
		`(?m)^  not made +0 not judged$`,
		`(?m)^  sees at once +0 +1$`,
		`lost locks +3 by processes; of 1 it could be judged whether they were told in time, and 0 were told too late`,
	} {
		if !regexp.MustCompile(line).MatchString(text.String()) {
			t.Errorf("%s is missing in\n%s", line, text.String())
		}
	}
}

// The table of faults must not be added up: a hold counts at several faults.
func TestVerdictSaysThatHoldsCountSeveralTimes(t *testing.T) {
	var text strings.Builder
	v := verdict.Verdict{LostHolds: 1053, Faults: []verdict.Fault{{Kind: "kill-leader", N: 1234, Held: 6, Waiting: 5, Releasing: 4, Lost: 1100}, {Kind: "revoke", N: 1}}}
	summary.PrintVerdict(&text, v)
	for _, line := range []string{
		`(?m)^  kill-leader +1,234 +6 +5 +4 +1,100$`,
		`(?m)^  revoke +1 +0 +0 +0 +0\n    lost: a hold counts at each fault that may have cost it, .*: 1,053 holds lost in all$`,
	} {
		if !regexp.MustCompile(line).MatchString(text.String()) {
			t.Errorf("%s is missing in\n%s", line, text.String())
		}
	}
	text.Reset()
	v.Faults = v.Faults[1:]
	summary.PrintVerdict(&text, v)
	if strings.Contains(text.String(), "may have cost") {
		t.Errorf("it warns of adding up nothing:\n%s", text.String())
	}
}

// What makes a run fail, or void, without an event of the history that tells of it, is in the
// history when it ends: neither its page nor -check is better than the run.
func TestFlawsAreInTheHistory(t *testing.T) {
	writers := wire.Workload{Processes: 1, ReadWrite: true, ReadRatio: 0.5}
	for _, tt := range []struct {
		name     string
		workload wire.Workload
		progress wire.Counts
		outcome  verdict.Outcome
		text     string
		exit     int
	}{
		{"a starved writer", writers, wire.Counts{Entries: 5000}, verdict.Failed, "process 0 was never granted a write lock", wire.ExitFailure},
		{"false reports", wire.Workload{Processes: 1, Kind: wire.AbandonedWorkload}, wire.Counts{Entries: 5000, FalseReports: 1}, verdict.Failed, "a holder was told once that the last one was interrupted", wire.ExitFailure},
		{"broken rounds", wire.Workload{Processes: 1, Kind: wire.BarrierWorkload}, wire.Counts{Entries: 5000, BrokenRounds: 2}, verdict.Failed, "2 members were told that others had died", wire.ExitFailure},
		{"few entries", wire.Workload{Processes: 1}, wire.Counts{Entries: 5}, verdict.Void, "workers got a lock only 5 times in 20s", wire.ExitVoid},
		{"no answer swallowed", wire.Workload{Processes: 1, Swallow: time.Second}, wire.Counts{Entries: 5000}, verdict.Void, "the server swallowed no answer", wire.ExitVoid},
		{"none", wire.Workload{Processes: 1}, wire.Counts{Entries: 5000}, verdict.OK, "", wire.ExitOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c := chronicled(t, dir)
			now := time.Now()
			p := &parent{
				options: options.Options{Workload: tt.workload, Report: dir}, cluster: &cluster.Cluster{}, reporter: progress.New(io.Discard), stdout: io.Discard,
				summary: summary.New(now), chronicle: c, started: now, stopped: now.Add(20 * time.Second),
				processes: []*process{{progress: tt.progress}}, past: make([]wire.Counts, 1),
			}
			p.endHistory()
			if exit := p.conclude(); exit != tt.exit {
				t.Errorf("the exit status is %d, want %d: %q", exit, tt.exit, p.summary.Reasons)
			}
			for _, reason := range p.summary.Reasons {
				if n := strings.Count(strings.Join(p.summary.Reasons, "\n"), reason); n > 1 {
					t.Errorf("it says %d times: %s", n, reason)
				}
			}
			says := func(what, text string) {
				if !strings.Contains(text, string(tt.outcome)+" ") && !strings.Contains(text, string(tt.outcome)+":") || !strings.Contains(text, tt.text) {
					t.Errorf("%s does not say %s, %s:\n%.2000s", what, tt.outcome, tt.text, text)
				}
			}
			page, err := os.ReadFile(filepath.Join(dir, report.Name))
			if err != nil {
				t.Fatal(err)
			}
			says("the page", strings.ReplaceAll(string(page), "</span> ", " "))
			var checked strings.Builder
			if exit := chronicle.Check(dir, &checked, &checked); exit != tt.exit {
				t.Errorf("-check: the exit status is %d, want %d", exit, tt.exit)
			}
			says("-check", checked.String())
			if tt.outcome == verdict.Void && !strings.Contains(checked.String(), "VOID: "+tt.text) {
				t.Errorf("-check does not give the reason in its last words:\n%s", checked.String())
			}
		})
	}
}

// chronicled returns the chronicle of a run in which a lock was granted, and all has ended.
func chronicled(t *testing.T, dir string) *chronicle.Chronicle {
	t.Helper()
	c, err := chronicle.New(dir, history.Header{Processes: 1, Begin: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []history.Kind{history.Request, history.Granted, history.Release, history.Released, history.Stopping} {
		c.Write(history.Event{Kind: kind, Process: history.Harness, Op: 1, Lock: "a", Token: 1})
	}
	return c
}

// If the page cannot be written the run fails, and its history says so.
func TestPageThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	c := chronicled(t, dir)
	if err := c.Judge(); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, report.Name)
	if err := os.MkdirAll(filepath.Join(page, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	v, err := c.Close(true)
	if err == nil || v.Outcome != verdict.Failed {
		t.Errorf("%v, %v", v.Outcome, err)
	}
	if v, err := verdict.Read(dir); err != nil || v.Outcome != verdict.Failed {
		t.Errorf("verdict.json: %v, %v", v.Outcome, err)
	}
	if err := os.RemoveAll(page); err != nil {
		t.Fatal(err)
	}
	if exit := chronicle.Check(dir, io.Discard, io.Discard); exit != wire.ExitFailure {
		t.Errorf("-check: exit status %d", exit)
	}
}

// Pictures of an earlier judgement do not stay beside a later one.
func TestCheckRemovesOldPictures(t *testing.T) {
	dir := t.TempDir()
	c := chronicled(t, dir)
	if err := c.Judge(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Close(false); err != nil {
		t.Fatal(err)
	}
	old, mine := filepath.Join(dir, "linearizability-1-a.html"), filepath.Join(dir, "notes.html")
	for _, name := range []string{old, mine} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if exit := chronicle.Check(dir, io.Discard, io.Discard); exit != wire.ExitOK {
		t.Errorf("exit status %d", exit)
	}
	if _, err := os.Stat(old); err == nil {
		t.Errorf("%s is still there", old)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

// A run that was killed, and of whose history a part had been removed, has an interim verdict
// only: that is not taken for the result.
func TestCheckOfAKilledRunThatWasTrimmed(t *testing.T) {
	for _, tt := range []struct {
		before, after verdict.Outcome
		exit          int
	}{{verdict.OK, verdict.Void, wire.ExitVoid}, {verdict.Violation, verdict.Violation, wire.ExitFailure}} {
		dir := t.TempDir()
		c := chronicled(t, dir)
		if err := c.Judge(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Close(false); err != nil {
			t.Fatal(err)
		}
		if err := (verdict.Verdict{Outcome: tt.before, Interim: true}).Write(dir); err != nil {
			t.Fatal(err)
		}
		if err := history.WriteJSON(filepath.Join(dir, "trimmed.json"), history.Trimmed{Segments: 1}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // -check says the same each time
			var says strings.Builder
			if exit := chronicle.Check(dir, &says, &says); exit != tt.exit || !strings.Contains(says.String(), "\n"+string(tt.after)+": ") {
				t.Errorf("%v: exit status %d, %s", tt.before, exit, says.String())
			}
			if v, err := verdict.Read(dir); err != nil || v.Outcome != tt.after || v.Found != 1 {
				t.Errorf("%v: %+v, %v", tt.before, v, err)
			}
		}
	}
}
