// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/stress/internal/parent"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/stress/internal/worker"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests run the harness as a user does, as a program with processes of its
// own, and check its output and exit status.

// brief is long enough for every kind of event on a busy machine.
var brief = []string{"-duration", "2s", "-processes", "2", "-goroutines", "4", "-locks", "2"}

// newServer returns an embedded server under the test's control.
func newServer(t *testing.T) (s *zktest.Server, address string) {
	t.Helper()
	s = zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	address, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, address
}

// expect checks how a run ended and that its output matches the regular
// expressions.
func (r stressRun) expect(t *testing.T, exit int, v verdict.Outcome, says ...string) {
	t.Helper()
	for _, complaint := range r.differs(exit, v, says) {
		t.Error(complaint)
	}
	if t.Failed() {
		t.Logf("output:\n%s", r.output)
	}
}

// differs returns in what a run is not as expected.
func (r stressRun) differs(exit int, v verdict.Outcome, says []string) (complaints []string) {
	if r.exit != exit || r.summary.Verdict != v || r.summary.Verdict != "" && r.summary.Exit != exit {
		complaints = append(complaints, fmt.Sprintf("exit status %d, verdict %q with exit status %d; want %d and %q", r.exit, r.summary.Verdict, r.summary.Exit, exit, v))
	}
	for _, part := range says {
		if !regexp.MustCompile(part).MatchString(r.output) {
			complaints = append(complaints, fmt.Sprintf("the output lacks %q", part))
		}
	}
	return complaints
}

// runCaught runs the harness with a worker that misbehaves, until the run ends as expected,
// or for three times. In one run it can happen that no other process comes in while the
// worker is inside without a right to it.
func runCaught(t *testing.T, s wire.Sabotage, args []string, v verdict.Outcome, says ...string) stressRun {
	t.Helper()
	for left := 3; ; left-- {
		r := runStress(t, args, wire.SabotageVariable+"="+string(s))
		if left == 1 || len(r.differs(wire.ExitFailure, v, says)) == 0 {
			r.expect(t, wire.ExitFailure, v, says...)
			return r
		}
	}
}

// expectSome checks that no count is 0.
func expectSome(t *testing.T, s summary.Summary, counts map[string]uint64) {
	t.Helper()
	for what, n := range counts {
		if n == 0 {
			t.Errorf("no %s in %+v", what, s)
		}
	}
}

func TestRunOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	r := runStress(t, append([]string{"-seed", "42"}, brief...))
	r.expect(t, wire.ExitOK, verdict.OK, "seed     42", "embedded", "violations         0", "leaked nodes       0", "OK:")
	s := r.summary
	if s.Seed != 42 || !s.Embedded || s.Processes != 2 || len(s.ProcessGrants) != 2 || s.Elapsed < 2*time.Second {
		t.Errorf("the summary is of something else: %+v", s)
	}
	// On any machine each of these happens at some time.
	expectSome(t, s, map[string]uint64{
		"entries": s.Entries, "grants": s.Grants, "reentries": s.Reentries, "shares": s.Shares,
		"refusals": s.Refusals, "timeouts": s.Timeouts, "cancels": s.Cancels,
		"grants of process 0": s.ProcessGrants[0], "grants of process 1": s.ProcessGrants[1],
	})
	if s.ProcessGrants[0]+s.ProcessGrants[1] != s.Grants || s.Rounds < s.Grants {
		t.Errorf("the sums are wrong: %+v", s)
	}
	var latencies int64
	for _, l := range s.Latencies {
		if l.Count == 0 || l.P50 <= 0 || l.P99 < l.P50 || l.Max < l.P99 {
			t.Errorf("no latencies: %+v", l)
		}
		latencies += l.Count
	}
	if latencies < int64(s.Entries) {
		t.Errorf("%d latencies for %d entries", latencies, s.Entries)
	}
	if len(r.left) > 0 {
		t.Errorf("it left %q behind", r.left)
	}
}

func TestRunOnAGivenServer(t *testing.T) {
	t.Parallel()
	server, address := newServer(t)
	if err := server.CreateAll("/some/root", nil); err != nil {
		t.Fatal(err)
	}
	r := runStress(t, append([]string{"-servers", address + "/some/root"}, brief...))
	r.expect(t, wire.ExitOK, verdict.OK, "root     /some/root/holdfast-stress-", "servers  "+address)
	if left := server.Children("/some/root"); len(left) > 0 {
		t.Errorf("it left %q behind", left)
	}
	if server.Requests(zktest.OpCreate)+server.Requests(zktest.OpCreate2) == 0 {
		t.Error("it did not use the server")
	}
	if left := server.Sessions(); len(left) > 0 {
		t.Errorf("it left the sessions %+v behind", left)
	}
}

// Each kind of workload ends well on the embedded server, and its workers do all that they can.
func TestRunOfWorkloads(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args  []string
		says  []string
		some  func(s summary.Summary) map[string]uint64 // on any machine each of these happens at some time
		wrong func(s summary.Summary) bool              // it is of something else, or its sums are wrong
	}{
		{
			[]string{"-workload", "mutex"},
			[]string{"2 mutexes", "violations         0", "OK:"},
			func(s summary.Summary) map[string]uint64 {
				return map[string]uint64{
					"entries": s.Entries, "grants": s.Grants, "reentries": s.Reentries, "refused shares": s.RefusedShares,
					"refusals": s.Refusals, "timeouts": s.Timeouts, "cancels": s.Cancels,
					"grants of process 0": s.ProcessGrants[0], "grants of process 1": s.ProcessGrants[1],
				}
			},
			func(s summary.Summary) bool { return s.Kind != wire.MutexWorkload || s.Shares > 0 },
		},
		{
			[]string{"-workload", "all", "-think", "2ms", "-locks", "4", "-duration", "6s"}, // few nest on a slow machine
			[]string{"LockAll +[0-9,]+ granted, the longest wait [0-9]", "violations         0", "OK:"},
			func(s summary.Summary) map[string]uint64 {
				return map[string]uint64{
					"entries": s.Entries, "grants": s.Grants, "LockAlls": s.LockAlls, "longest LockAll": s.LongestLockAll,
					"nested locks": s.Nested, "refused parts": s.RefusedParts, "reentries": s.Reentries,
				}
			},
			func(s summary.Summary) bool { return false },
		},
		{
			[]string{"-workload", "upgrade"},
			[]string{"upgradable reads +[0-9,]+ entries", "violations         0", "OK:"},
			func(s summary.Summary) map[string]uint64 {
				return map[string]uint64{
					"reads": s.ReadEntries, "writes": s.WriteEntries, "upgradable reads": s.UpgradableEntries,
					"upgradable grants": s.UpgradableGrants, "upgrades": s.Upgrades, "downgrades": s.Downgrades,
				}
			},
			func(s summary.Summary) bool {
				return s.ReadEntries+s.WriteEntries+s.UpgradableEntries != s.Entries || s.ReadGrants+s.WriteGrants+s.UpgradableGrants != s.Grants
			},
		},
		{
			[]string{"-workload", "abandoned"},
			[]string{"interrupted +[0-9,]+ holders", "violations         0", "OK:"},
			func(s summary.Summary) map[string]uint64 {
				return map[string]uint64{"entries": s.Entries, "panics": s.Panics, "abandoned": s.Abandoned}
			},
			func(s summary.Summary) bool { return s.FalseReports > s.LostHolds },
		},
		{
			[]string{"-workload", "barrier", "-locks", "1", "-hold", "5ms", "-duration", "4s"}, // on a slow machine few meet in time
			[]string{"1 barrier", "broken rounds +0 members", "violations         0", "OK: no member left"},
			func(s summary.Summary) map[string]uint64 { return map[string]uint64{"entries": s.Entries} },
			func(s summary.Summary) bool { return false },
		},
		{
			[]string{"-read-ratio", "0.7"},
			[]string{"2 read/write locks", "70 % of the steps", "violations         0", "OK:"},
			func(s summary.Summary) map[string]uint64 {
				return map[string]uint64{
					"reads": s.ReadEntries, "writes": s.WriteEntries, "read grants": s.ReadGrants,
					"writes of process 0": s.ProcessWriteGrants[0], "writes of process 1": s.ProcessWriteGrants[1],
					"downgrades": s.Downgrades, "refused upgrades": s.RefusedUpgrades,
				}
			},
			func(s summary.Summary) bool {
				return !s.ReadWrite || s.ReadRatio != 0.7 || s.ReadEntries+s.WriteEntries != s.Entries ||
					s.ReadGrants+s.WriteGrants != s.Grants || s.ProcessWriteGrants[0]+s.ProcessWriteGrants[1] != s.WriteGrants
			},
		},
	}
	for i, tt := range tests {
		if !racing.Some(i) {
			continue
		}
		t.Run(tt.args[1], func(t *testing.T) {
			t.Parallel()
			r := runStress(t, slices.Concat(brief, tt.args))
			r.expect(t, wire.ExitOK, verdict.OK, append(tt.says, "leaked nodes       0")...)
			if len(r.summary.ProcessGrants) != 2 || tt.wrong(r.summary) {
				t.Fatalf("the summary is of something else, or its sums are wrong: %+v", r.summary)
			}
			expectSome(t, r.summary, tt.some(r.summary))
		})
	}
}

// With a tenure without end a worker may starve beyond its patience.
func TestRunOfGreedyWorkers(t *testing.T) {
	t.Parallel()
	for _, tenure := range []string{"50ms", "-1s"} {
		r := runStress(t, []string{"-greedy", "-tenure", tenure, "-patience", "1s", "-duration", "3s", "-processes", "2", "-goroutines", "16", "-locks", "1"})
		r.expect(t, wire.ExitOK, verdict.OK, "greedy", "tenure  ", "time held +lock-0: by process ")
		s := r.summary
		if !s.Greedy || s.Tenure.String() != tenure || len(s.Held) != 1 || len(s.Held[0].Percent) != 2 {
			t.Fatalf("the summary is of something else: %+v", s)
		}
		first, second := s.Held[0].Percent[0], s.Held[0].Percent[1]
		if sum := first + second; sum < 99.9 || sum > 100.1 {
			t.Errorf("tenure %s: the shares are %v and %v %%", tenure, first, second)
		}
		if s.Tenure > 0 && (first == 0 || second == 0) {
			t.Errorf("tenure %s: a process never had the lock: %+v", tenure, s.Held)
		}
		// The lock passes on only when none of the 16 workers is inside.
		if s.Tenure < 0 && max(first, second) < 90 {
			t.Errorf("tenure %s: no process starved: %+v", tenure, s.Held)
		}
		if s.Timeouts+s.Cancels+s.Refusals+s.Reentries > 0 {
			t.Errorf("tenure %s: a worker gave up, or did more than acquire and release: %+v", tenure, s)
		}
	}
}

// Broken connections and lost replies cost time and nothing else.
func TestRunThroughFaults(t *testing.T) {
	t.Parallel()
	server, address := newServer(t)
	var faults sync.WaitGroup
	ended := make(chan struct{})
	faults.Go(func() {
		// One at a time, and not for ever, so that retries succeed.
		ops := []zktest.Op{zktest.OpCreate, zktest.OpDelete, zktest.OpGetData, zktest.OpGetChildren2}
		for i := range 45 {
			of := zktest.Match{Op: ops[i/3%len(ops)], Path: "/holdfast-stress-", Times: 1}
			var f *zktest.Fault
			switch i % 3 {
			case 0:
				f = server.Faults().DropReply(of)
			case 1:
				f = server.Faults().DropRequest(of)
			case 2:
				// One that is connected, unlike that of the last fault.
				for _, s := range server.Sessions() {
					if server.Faults().Cut(s.ID) {
						break
					}
				}
				continue
			}
			select {
			case <-f.Hit():
			case <-ended:
				return
			}
		}
	})
	kinds := []zktest.FaultKind{zktest.FaultDropReply, zktest.FaultDropRequest, zktest.FaultCut}
	unseen := func(k zktest.FaultKind) bool { return server.Faults().Hits()[k] == 0 }
	for slices.ContainsFunc(kinds, unseen) { // on a busy machine, one run may make few requests
		r := runStress(t, append([]string{"-servers", address}, brief...))
		r.expect(t, wire.ExitOK, verdict.OK)
	}
	close(ended)
	faults.Wait()
}

// An unanswered request on a connection that stays up costs time and nothing else.
func TestRunWithSwallowedAnswers(t *testing.T) {
	t.Parallel()
	r := runStress(t, append([]string{"-swallow", "100ms", "-patience", "10s"}, brief...))
	r.expect(t, wire.ExitOK, verdict.OK, "answers swallowed +[0-9]+ by the server")
	if r.summary.Swallowed == 0 || r.summary.Swallow != 100*time.Millisecond {
		t.Errorf("%d answers were swallowed, one each %v", r.summary.Swallowed, r.summary.Swallow)
	}
}

func TestRunOnARealServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"-read-ratio", "0.7"}} {
		r := runStress(t, append(append([]string{"-servers", realzk.Shared(t).Addr(), "-session-timeout", "4s"}, brief...), args...))
		r.expect(t, wire.ExitOK, verdict.OK)
	}
}

// The harness must find faults for its OK to mean anything.
func TestRunNoticesSabotage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		sabotage wire.Sabotage
		args     []string
		verdict  verdict.Outcome
		says     []string
	}{
		{wire.Lingers, nil, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two rounds) on lock"}},
		{wire.OldToken, nil, verdict.Violation, []string{"VIOLATION seen by process", "token fell on lock"}},
		{wire.Lingers, []string{"-read-ratio", "0.5"}, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two rounds) on lock"}},
		{wire.OldToken, []string{"-read-ratio", "0.5"}, verdict.Violation, []string{"VIOLATION seen by process", "token fell on lock"}},
		{wire.Lingers, []string{"-workload", "mutex"}, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two turns) on lock"}},
		{wire.OldToken, []string{"-workload", "mutex"}, verdict.Violation, []string{"VIOLATION seen by process", "token fell on lock"}},
		{wire.OldToken, []string{"-workload", "all", "-think", "2ms"}, verdict.Violation, []string{"VIOLATION seen by process", "token fell on lock"}},
		{wire.Partial, []string{"-workload", "all", "-think", "2ms"}, verdict.Failed, []string{"LockAll on lock .*a partial hold: 1 of "}},
		{wire.Lingers, []string{"-workload", "upgrade"}, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two rounds) on lock"}},
		{wire.OnlyReads, []string{"-workload", "upgrade", "-read-ratio", "0.9"}, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two rounds) on lock"}},
		{wire.Lingers, []string{"-workload", "barrier", "-locks", "1", "-hold", "5ms", "-duration", "4s"}, verdict.Violation, []string{"VIOLATION seen by process", "premature on lock .* left round"}},
		{wire.Conceals, []string{"-workload", "abandoned"}, verdict.Failed, []string{"in good order"}},
		{wire.Survives, []string{"-workload", "abandoned"}, verdict.Failed, []string{"the grant does not say so"}},
		{wire.LosesRead, []string{"-read-ratio", "0.5"}, verdict.Violation, []string{"VIOLATION seen by process", "(overlap|two rounds) on lock"}},
		{wire.GetsStuck, []string{"-patience", "2s", "-duration", "1h"}, verdict.Failed, []string{"stuck: worker 0 has been in \"a wait that never ends\"", "the stacks of all its goroutines are in ", "LEAKED"}},
		{wire.Leaks, nil, verdict.Failed, []string{"LEAKED: /holdfast-stress-", "stress process 0", "1 node leaked"}},
		{wire.Crashes, []string{"-duration", "1h"}, verdict.Failed, []string{"process 0: exit status 3"}},
		{wire.Complains, nil, verdict.Failed, []string{"on purpose"}},
	}
	for i, tt := range tests {
		if sampled() && i%4 != 0 {
			continue
		}
		t.Run(strings.Join(append([]string{string(tt.sabotage)}, tt.args...), " "), func(t *testing.T) {
			t.Parallel()
			r := runCaught(t, tt.sabotage, append(brief, tt.args...), tt.verdict, append(tt.says, string(tt.verdict)+":")...)
			if tt.sabotage == wire.GetsStuck {
				var dumps []byte
				for _, file := range r.left {
					dump, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					dumps = append(dumps, dump...)
				}
				if !bytes.Contains(dumps, []byte("sabotageInside")) {
					t.Errorf("none of %q shows sabotageInside", r.left)
				}
			} else if len(r.left) > 0 {
				t.Errorf("it left %q behind", r.left)
			}
		})
	}
}

func TestRunOfTooLittleIsVoid(t *testing.T) {
	t.Parallel()
	r := runStress(t, []string{"-duration", "10s", "-processes", "2", "-goroutines", "1", "-think", "1s"})
	r.expect(t, wire.ExitVoid, verdict.Void, "VOID: workers got a lock only ")
	if r.summary.Violations != 0 || r.summary.Entries == 0 {
		t.Errorf("%d violations in %d entries, want none in some", r.summary.Violations, r.summary.Entries)
	}
}

func TestRunRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		env  []string
		exit int
		says []string
	}{
		{"a flag", []string{"-locks", "none"}, nil, wire.ExitUsage, []string{"-locks", "-help"}},
		{"help", []string{"-help"}, nil, wire.ExitOK, []string{"Exit status", "-servers"}},
		{"a sabotage", nil, []string{wire.SabotageVariable + "=nonsense"}, wire.ExitUsage, []string{"nonsense", string(wire.Lingers)}},
		// No server listens on port 1.
		{"no server", []string{"-servers", "127.0.0.1:1"}, nil, wire.ExitFailure, []string{"cannot connect", "127.0.0.1:1", "refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runStress(t, tt.args, tt.env...).expect(t, tt.exit, "", tt.says...)
		})
	}
}

// A lineReader reads a program's standard error while it runs.
type lineReader struct {
	lines *bufio.Scanner
	all   strings.Builder
}

// startReading starts the program, in a process group of its own if there are any.
func (p *program) startReading(t *testing.T) *lineReader {
	t.Helper()
	parent.Apart(p.cmd)
	p.cmd.Stderr = nil
	r, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &lineReader{lines: bufio.NewScanner(r)}
}

// until reads until a line contains part.
func (r *lineReader) until(t *testing.T, part string) {
	t.Helper()
	for r.lines.Scan() {
		r.all.WriteString(r.lines.Text() + "\n")
		if strings.Contains(r.lines.Text(), part) {
			return
		}
	}
	t.Fatalf("it ended without writing %q; it wrote:\n%s", part, &r.all)
}

// rest returns all lines, to the last.
func (r *lineReader) rest() string {
	for r.lines.Scan() {
		r.all.WriteString(r.lines.Text() + "\n")
	}
	return r.all.String()
}

// When the parent is killed, its processes stop properly.
func TestProcessesEndWithTheirParent(t *testing.T) {
	t.Parallel()
	server, address := newServer(t)
	p := newProgram(t, "stress", []string{"-servers", address, "-duration", "1h", "-processes", "3", "-goroutines", "4"})
	errors := p.startReading(t)
	errors.until(t, "3 processes running")
	if n := len(server.Sessions()); n != 4 {
		t.Fatalf("%d sessions, want one of each process and the parent", n)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	errors.rest()
	p.wait(t)
	eventually(t, "the processes closed their sessions", func() bool { return len(server.Sessions()) <= 1 && server.Connections() == 0 })
	if n := len(server.Expired()); n > 1 {
		t.Errorf("%d sessions expired, want at most the killed parent's", n)
	}
}

// eventually waits until is returns true because of another process.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

func TestChildRefusesMalformedSettings(t *testing.T) {
	for _, stdin := range []string{"", "nonsense\n", "{"} {
		var stderr strings.Builder
		if exit := worker.Main(strings.NewReader(stdin), io.Discard, &stderr); exit != wire.ExitUsage || !strings.Contains(stderr.String(), "settings") {
			t.Errorf("told %q: exit status %d, said %q", stdin, exit, stderr.String())
		}
	}
}
