// SPDX-License-Identifier: Apache-2.0

package summary

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/cluster"
	"github.com/holdfast-go/holdfast/stress/internal/referee"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

func TestJudge(t *testing.T) {
	const long, brief = 10 * time.Second, 10*time.Second - 1
	writes := func(grants ...uint64) func(*Summary) {
		return func(s *Summary) { s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants = true, 0.99, grants }
	}
	tests := []struct {
		name    string
		set     func(*Summary)
		verdict verdict.Outcome
		exit    int
	}{
		{"nothing wrong", func(*Summary) {}, verdict.OK, wire.ExitOK},
		{"a violation", func(s *Summary) { s.Violations = 1 }, verdict.Violation, wire.ExitFailure},
		{"a leak", func(s *Summary) { s.Leaks = 1 }, verdict.Failed, wire.ExitFailure},
		{"a failure", func(s *Summary) { s.Failures = 1 }, verdict.Failed, wire.ExitFailure},
		{"a violation outweighs a leak", func(s *Summary) { s.Violations, s.Leaks = 1, 1 }, verdict.Violation, wire.ExitFailure},
		{"a violation outweighs too few entries", func(s *Summary) { s.Violations, s.Entries = 1, 2 }, verdict.Violation, wire.ExitFailure},
		{"a failure after servers contradicted each other", func(s *Summary) {
			s.Failures, s.History = 1, &verdict.Verdict{Outcome: verdict.Void, Diverged: "at 3 s"}
		}, verdict.Void, wire.ExitVoid},
		{"a lost hold is no failure", func(s *Summary) { s.LostHolds = 5 }, verdict.OK, wire.ExitOK},
		{"just enough entries", func(s *Summary) { s.Entries = 1000 }, verdict.OK, wire.ExitOK},
		{"too few entries", func(s *Summary) { s.Entries = 999 }, verdict.Void, wire.ExitVoid},
		{"few entries in a brief run", func(s *Summary) { s.Elapsed, s.Entries = brief, 1 }, verdict.OK, wire.ExitOK},
		{"no entries in a brief run", func(s *Summary) { s.Elapsed, s.Entries = brief, 0 }, verdict.Void, wire.ExitVoid},
		{"a process without write grants", writes(5, 0, 5), verdict.Failed, wire.ExitFailure},
		{"write grants for each process", writes(5, 1, 5), verdict.OK, wire.ExitOK},
		{"no writes wanted", func(s *Summary) { writes(0, 0)(s); s.ReadRatio = 1 }, verdict.OK, wire.ExitOK},
		{"a process without write grants in a brief run", func(s *Summary) { writes(0, 1)(s); s.Elapsed = brief }, verdict.OK, wire.ExitOK},
		{"a process without write grants under an endless tenure", func(s *Summary) { writes(0, 9)(s); s.Tenure = -1 }, verdict.OK, wire.ExitOK},
		{"a process that starved under an endless tenure", func(s *Summary) {
			s.Tenure, s.Held = -1, []LockTime{NewLockTime("l", []time.Duration{0, long}, long)}
		}, verdict.OK, wire.ExitOK},
		{"answers swallowed", func(s *Summary) { s.Swallow, s.Swallowed = long/2, 1 }, verdict.OK, wire.ExitOK},
		{"no answers swallowed", func(s *Summary) { s.Swallow = long / 2 }, verdict.Void, wire.ExitVoid},
		{"no time to swallow an answer", func(s *Summary) { s.Swallow = long }, verdict.OK, wire.ExitOK},
	}
	for _, tt := range tests {
		s := New(time.Now())
		s.Elapsed, s.Entries = long, 100000
		tt.set(&s)
		s.Judge()
		if s.History != nil && !slices.Equal(s.Reasons, []string{"ZooKeeper's servers contradicted each other at 3 s, so what was found shows nothing about the locks", "1 failure"}) {
			t.Errorf("%s: reasons %q", tt.name, s.Reasons)
		}
		if s.Verdict != tt.verdict || s.Exit != tt.exit || (len(s.Reasons) == 0) != (tt.verdict == verdict.OK) {
			t.Errorf("%s: %s, exit status %d, reasons %q; want %s, exit status %d", tt.name, s.Verdict, s.Exit, s.Reasons, tt.verdict, tt.exit)
		}
	}
}

// exampleSummary has something in every field.
func exampleSummary() Summary {
	s := New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s.Workload = wire.Workload{
		Seed: 42, Processes: 3, Goroutines: 16, Locks: 1, Hold: time.Millisecond, Think: 4 * time.Millisecond,
		Tenure: 50 * time.Millisecond, Linger: 2 * time.Second, SessionTimeout: 10 * time.Second, Patience: time.Minute, Swallow: time.Second,
	}
	s.Servers = []string{"zk1:2181", "zk2:2181"}
	s.Planned, s.Elapsed, s.Interrupted = time.Minute, 20*time.Second, true
	s.Counts = wire.Counts{
		Grants: 12000, Rounds: 12345, Entries: 54321, Reentries: 1111, Shares: 222, Refusals: 333, Timeouts: 44,
		Cancels: 55, LostHolds: 6, LostRaces: 77, LongestRace: 3, Violations: 1, Failures: 2,
	}
	s.Swallowed = 19
	s.ProcessGrants = []uint64{6000, 3000, 3000}
	s.Held = []LockTime{NewLockTime("lock-0", []time.Duration{9 * time.Second, 6 * time.Second, 3 * time.Second}, s.Elapsed)}
	for k, d := range map[wire.LatencyKind]time.Duration{wire.Entered: 1500, wire.Waited: 3 * time.Millisecond, wire.Called: time.Second} {
		for range 10 {
			s.Latency.Record(k, d)
		}
	}
	s.Latencies = s.Latency.Summary()
	s.Leaks = 1
	s.ViolationList = []referee.Violation{{Kind: "overlap", Lock: "lock-0", Time: s.Begin, PID: 1, Token: 2, OtherPID: 3, OtherToken: 4}}
	s.FailureList = []string{"process 0: something"}
	s.LeakList = []cluster.Leak{{Path: "/a/b", Owner: "0x7", Data: "{}"}}
	s.Judge()
	s.Latency = nil // which is not part of it
	return s
}

func TestSummaryAsText(t *testing.T) {
	exclusive := exampleSummary()
	readWrite := exampleSummary()
	readWrite.Greedy, readWrite.ReadWrite, readWrite.ReadRatio = true, true, 0.95
	readWrite.ReadEntries, readWrite.ReadGrants = 50000, 10000
	readWrite.WriteEntries, readWrite.WriteGrants = 4321, 2000
	readWrite.Downgrades, readWrite.RefusedUpgrades = 1234, 567
	readWrite.ProcessWriteGrants = []uint64{1000, 999, 1}
	const (
		head = `
Summary
  servers            zk1:2181,zk2:2181
  ran                20s of 1m0s: interrupted, seed 42
`
		grants = `  tenure             50ms
  linger             2s
  grants             12,000 to processes, in 12,345 attempts, 600/s; by process 50 + 25 + 25 %
  time held          lock-0: by process 50.0 + 33.3 + 16.7 %; 90.0 % of the run
  entries            54,321 by workers, 2,716/s; 4.5 per grant
`
		tail = `  further holds      1,111 by reentering, 222 by sharing with another goroutine
  not granted        333 refused by TryLock, 44 timed out, 55 cancelled
  lost holds         6
  lost CAS races     77, at most 3 in a row
  answers swallowed  19 by the server

  time to get a lock              p50        p99        max        count
  Acquire, already held         1.5µs      1.5µs      1.5µs           10
  Acquire, not yet held           3ms        3ms        3ms           10
  Lock, TryLock, Do                1s         1s         1s           10

  violations         1
  leaked nodes       1
  other failures     2

VIOLATION: 1 violation; 1 node leaked; 2 failures
`
	)
	for _, tt := range []struct {
		of   Summary
		want string
	}{
		{exclusive, head + `  contenders         3 processes × 16 goroutines, 1 lock
                     each holds for 1ms and pauses for 4ms, on average
` + grants + tail},
		{readWrite, head + `  contenders         3 processes × 16 goroutines, 1 read/write lock
                     each holds for 1ms on average and asks again at once (greedy)
` + grants + `  reads              95 % of the steps; 50,000 entries, 5.0 per read grant (10,000)
  writes             4,321 entries, 2.2 per write grant (2,000)
  write grants       by process 1,000, 999, 1
  write to read      1,234 downgrades; 567 upgrades refused
` + tail},
	} {
		var b bytes.Buffer
		tt.of.Print(&b)
		got := strings.ReplaceAll(b.String(), "1.536µs", "1.5µs")
		if got != tt.want {
			t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
		}
	}
}

func TestSummaryAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary.json")
	s := exampleSummary()
	if err := s.WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	var got Summary
	readBack(t, file, &got)
	if !reflect.DeepEqual(got, s) {
		t.Errorf("read back:\n%+v\nwant:\n%+v", got, s)
	}

	// No field is null, even if nothing happened.
	empty := New(time.Now())
	empty.Servers, empty.ProcessGrants, empty.Latencies = []string{"a"}, []uint64{0}, empty.Latency.Summary()
	if err := empty.WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	readBack(t, file, &fields)
	for name, value := range fields {
		if value == nil {
			t.Errorf("%s is null", name)
		}
	}
	if err := s.WriteJSON(filepath.Join(file, "below", "a", "file")); err == nil {
		t.Error("no error for a file that cannot be written")
	}
}

// Every count but two is a sum, and add forgets none.
func TestCountsAdd(t *testing.T) {
	var one, sum wire.Counts
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		v.Field(i).SetUint(uint64(i + 1))
	}
	sum.Add(one)
	sum.Add(one)
	for field, got := range reflect.ValueOf(sum).Fields() {
		want := 2 * v.FieldByIndex(field.Index).Uint()
		if field.Name == "LongestRace" || field.Name == "LongestLockAll" {
			want /= 2
		}
		if got.Uint() != want {
			t.Errorf("%s is %d, want %d", field.Name, got.Uint(), want)
		}
	}
}

func TestFormats(t *testing.T) {
	tests := []struct{ got, want string }{
		{short(999 * time.Nanosecond), "999ns"},
		{short(1234 * time.Nanosecond), "1.23µs"},
		{short(123456 * time.Microsecond), "123ms"},
		{short(0), "0s"},
		{shares(nil), "-"},
		{shares([]uint64{0, 0}), "-"},
		{shares([]uint64{1, 3}), "25 + 75 %"},
		{shares(make([]uint64, 18)), "-"},
		{percents(nil), "-"},
		{percents([]float64{49.96, 50.04}), "50.0 + 50.0 %"},
		{percents(make([]float64, 18)), strings.Repeat("0.0 + ", 15) + "0.0 and 2 more %"},
		{list([]uint64{1234, 0}), "1,234, 0"},
		{list(make([]uint64, 18)), "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, and 2 more"},
		{percent(1), "100 %"},
		{percent(0.955), "95.5 %"},
		{ratio(1, 0), "-"},
		{rate(5, 0), "0"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestSummaryOfFalseReports(t *testing.T) {
	for _, tt := range []struct {
		reports, lost uint64
		want          verdict.Outcome
	}{{0, 0, verdict.OK}, {1, 0, verdict.Failed}, {1, 1, verdict.OK}, {2, 1, verdict.Failed}} {
		s := exampleSummary()
		s.Verdict, s.Reasons, s.Swallow = "", nil, 0
		s.Counts = wire.Counts{Entries: 100000, FalseReports: tt.reports, LostHolds: tt.lost}
		s.Leaks = 0
		s.Judge()
		if s.Verdict != tt.want {
			t.Errorf("%d false reports, %d lost holds: %s, want %s", tt.reports, tt.lost, s.Verdict, tt.want)
		}
	}
}

// readBack reads a file into v.
func readBack(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}
