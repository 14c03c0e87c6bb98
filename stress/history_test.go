// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/report"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A run with a report leaves a history that can be judged again, to the same verdict.
func TestRunWithAReport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "report")
	r := runStress(t, append([]string{"-report", dir, "-seed", "42"}, append(brief, "-duration", "4s")...))
	r.expect(t, wire.ExitOK, verdict.OK, "no two processes are inside at once", "Report: .*"+report.Name)
	if len(r.left) > 0 {
		t.Errorf("it left %q behind", r.left)
	}
	v := r.summary.History
	if v == nil || v.Outcome != verdict.OK || v.Grants == 0 || v.StaleAttempts == 0 {
		t.Fatalf("the history's verdict is %+v", v)
	}
	if v.Grants < r.summary.Entries {
		t.Errorf("%d grants in the history, and %d entries", v.Grants, r.summary.Entries)
	}
	kinds := map[history.Kind]int{}
	for e, err := range history.All(dir) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[e.Kind]++
	}
	for _, kind := range []history.Kind{
		history.Request, history.Granted, history.Refused, history.Valid, history.Write, history.Release, history.Released,
		history.Session, history.Alive, history.Started, history.Ended, history.Stopping, history.Accepted, history.Stale,
	} {
		if kinds[kind] == 0 {
			t.Errorf("the history has no event %q", kind)
		}
	}
	if kinds[history.Granted] != kinds[history.Release] || kinds[history.Release] != kinds[history.Released] {
		t.Errorf("%d grants, %d releases, of which %d have settled", kinds[history.Granted], kinds[history.Release], kinds[history.Released])
	}
	if kinds[history.Request] != kinds[history.Granted]+kinds[history.Refused] {
		t.Errorf("%d requests, %d grants and %d refusals", kinds[history.Request], kinds[history.Granted], kinds[history.Refused])
	}

	page := filepath.Join(dir, report.Name)
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	runStress(t, []string{"-check", dir}).expect(t, wire.ExitOK, "", "OK: 0 findings", "go run ./stress .*-seed 42")
	if _, err := os.Stat(page); err != nil {
		t.Errorf("-check has not written the report: %v", err)
	}
}

func TestCheckRefusesWhatIsNoHistory(t *testing.T) {
	t.Parallel()
	runStress(t, []string{"-check", t.TempDir()}).expect(t, wire.ExitFailure, "", "read the history")
}

// Faults of processes and connections are injected on any server.
func TestRunThroughTheNemesis(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "report")
	r := runStress(t, append([]string{"-report", dir, "-nemesis", "kill-worker,cut-connection,delete-holder", "-session-timeout", "1s", "-seed", "1"}, append(brief, "-duration", "8s")...))
	const planned = `\n  faults   \d+ planned, of 3 kinds\n`
	// On a busy machine a fault may come when no lock is held.
	if r.exit == wire.ExitVoid {
		r.expect(t, wire.ExitVoid, verdict.Void, planned)
	} else {
		r.expect(t, wire.ExitOK, verdict.OK, planned, "fault 1: ", "kill-worker", "cut-connection", "delete-holder")
	}
	if len(r.left) > 0 {
		t.Errorf("it left %q behind", r.left)
	}
}

func TestSelfTest(t *testing.T) {
	t.Parallel()
	args, says := []string{"-self-test", "-seed", "1"}, []string{"passed  a correct lock", "OK: each defect was caught"}
	var r stressRun
	if sampled() {
		r = runProgram(t, sampledProgram, args)
		says = append(says, "caught  double grant", "caught  a register that accepts every write")
	} else {
		r = runStress(t, args)
		says = append(says, "caught  lease ignored", "caught  revocation ignored")
	}
	r.expect(t, wire.ExitOK, "", says...)
	if len(r.left) > 0 {
		t.Errorf("it left %q behind", r.left)
	}
}

// What referees and workers see is in the history, so that its verdict, its page and
// -check are no better than the run's.
func TestHistoryOfWhatTheHarnessSaw(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		sabotage wire.Sabotage
		args     []string
		verdict  verdict.Outcome
		want     verdict.Outcome
		says     string
	}{
		{"referee", wire.Lingers, nil, verdict.Violation, verdict.Violation, "a referee has seen at "},
		{"referee beside faults", wire.OldToken, []string{"-nemesis", "revoke", "-session-timeout", "1s"}, verdict.Violation, verdict.Violation, "a referee has seen at .*(token fell|two rounds on lock)"}, // whichever of the two came first
		{"worker", wire.Complains, nil, verdict.Failed, verdict.Failed, "on purpose"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "report")
			runCaught(t, tt.sabotage, slices.Concat([]string{"-report", dir}, brief, tt.args), tt.verdict)
			v, err := verdict.Read(dir)
			if err != nil || v.Outcome != tt.want {
				t.Errorf("the history's verdict is %v, want %v: %v", v.Outcome, tt.want, err)
			}
			runStress(t, []string{"-check", dir}).expect(t, wire.ExitFailure, "", string(tt.want)+": ", tt.says)
		})
	}
}

// A kind of fault that was listed and never came up, because the run is too short for it,
// makes the run void.
func TestListedFaultThatNeverComesUp(t *testing.T) {
	t.Parallel()
	r := runStress(t, append([]string{"-nemesis", "pause-worker", "-seed", "3"}, append(brief, "-duration", "4s")...))
	r.expect(t, wire.ExitVoid, verdict.Void, "too short for +pause-worker", "VOID: .*pause-worker")
}

// Of a history from which events were removed, the rest is judged again, and what the run had
// found before stands.
func TestCheckOfATrimmedHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "report")
	runStress(t, append([]string{"-report", dir}, brief...)).expect(t, wire.ExitOK, verdict.OK)
	v, err := verdict.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadHeader(dir)
	if err != nil {
		t.Fatal(err)
	}
	// It is as if the run had found something in what was removed.
	lost := verdict.Finding{Check: v.Checks[0].Name, At: h.Begin + 1, Text: "a finding of long ago"}
	v.Outcome, v.Found, v.Findings = verdict.Violation, 1, []verdict.Finding{lost}
	if err := v.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, until := range []int64{h.Begin - 61_000_000_000, h.Begin} {
		if err := history.WriteJSON(filepath.Join(dir, "trimmed.json"), history.Trimmed{Segments: 2, Until: until}); err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(dir, report.Name)
		if err := os.Remove(page); err != nil {
			t.Fatal(err)
		}
		runStress(t, []string{"-check", dir}).expect(t, wire.ExitFailure, "", "2 files of events were removed", "was not judged again: the run had found 1 finding", "VIOLATION: 1 finding", "a finding of long ago")
		if _, err := os.Stat(page); err != nil {
			t.Errorf("-check has not written the report: %v", err)
		}
	}
}
