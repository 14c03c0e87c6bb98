// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const long, brief = 10 * time.Second, 10*time.Second - 1
	tests := []struct {
		name    string
		set     func(*summary)
		verdict verdict
		exit    int
	}{
		{"all well", func(*summary) {}, ok, exitOK},
		{"a violation", func(s *summary) { s.Violations = 1 }, violated, exitFailure},
		{"a leak", func(s *summary) { s.Leaks = 1 }, failed, exitFailure},
		{"a failure", func(s *summary) { s.Failures = 1 }, failed, exitFailure},
		{"lost holds are no failure", func(s *summary) { s.LostHolds = 5 }, ok, exitOK},
		{"long, and just enough", func(s *summary) { s.Elapsed, s.Entries = long, 1000 }, ok, exitOK},
		{"long, and not enough", func(s *summary) { s.Elapsed, s.Entries = long, 999 }, voidedRun, exitVoid},
		{"brief, and few", func(s *summary) { s.Elapsed, s.Entries = brief, 1 }, ok, exitOK},
		{"a process whose writers got nothing", func(s *summary) { s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants = true, 0.99, []uint64{5, 0, 5} }, failed, exitFailure},
		{"and every process's writers got something", func(s *summary) { s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants = true, 0.99, []uint64{5, 1, 5} }, ok, exitOK},
		{"no writer, as nobody wrote", func(s *summary) { s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants = true, 1, []uint64{0, 0} }, ok, exitOK},
		{"no writer in a brief run", func(s *summary) {
			s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants, s.Elapsed = true, 0.9, []uint64{0, 1}, brief
		}, ok, exitOK},
		{"no writer, as others keep the lock for ever", func(s *summary) {
			s.ReadWrite, s.ReadRatio, s.ProcessWriteGrants, s.Tenure = true, 0.9, []uint64{0, 9}, -1
		}, ok, exitOK},
		{"a process that starved is for the reader to see", func(s *summary) {
			s.Tenure, s.Held = -1, []lockTime{newLockTime("l", []time.Duration{0, long}, long)}
		}, ok, exitOK},
		{"nothing at all", func(s *summary) { s.Elapsed, s.Entries = brief, 0 }, voidedRun, exitVoid},
		{"a violation is worse than a leak", func(s *summary) { s.Violations, s.Leaks = 1, 1 }, violated, exitFailure},
		{"a violation is not made good by being few", func(s *summary) { s.Violations, s.Entries = 1, 2 }, violated, exitFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSummary(time.Now())
			s.Elapsed, s.Entries = long, 100000
			tt.set(&s)
			s.judge()
			if s.Verdict != tt.verdict || s.Exit != tt.exit {
				t.Errorf("%s, exit %d; want %s, exit %d", s.Verdict, s.Exit, tt.verdict, tt.exit)
			}
			if (len(s.Reasons) == 0) != (tt.verdict == ok) {
				t.Errorf("%s for the reasons %q", s.Verdict, s.Reasons)
			}
		})
	}
}

// exampleSummary has something in every field.
func exampleSummary(t *testing.T) summary {
	t.Helper()
	s := newSummary(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s.Seed, s.Servers = 42, []string{"zk1:2181", "zk2:2181"}
	s.Planned, s.Elapsed, s.Interrupted = time.Minute, 20*time.Second, true
	s.Processes, s.Goroutines, s.Locks = 3, 16, 1
	s.Hold, s.Think = time.Millisecond, 4*time.Millisecond
	s.counts = counts{
		Grants: 12000, Rounds: 12345, Entries: 54321, Reentries: 1111, Shares: 222, Refusals: 333, Timeouts: 44,
		Cancels: 55, LostHolds: 6, LostRaces: 77, LongestRace: 3, Violations: 1, Failures: 2,
	}
	s.ProcessGrants = []uint64{6000, 3000, 3000}
	s.Greedy, s.Tenure = true, 50*time.Millisecond
	s.Held = []lockTime{newLockTime("lock-0", []time.Duration{9 * time.Second, 6 * time.Second, 3 * time.Second}, s.Elapsed)}
	for k, d := range map[latencyKind]time.Duration{entered: 1500, waited: 3 * time.Millisecond, called: time.Second} {
		for range 10 {
			s.latency.record(k, d)
		}
	}
	s.Latencies = s.latency.summary()
	s.Leaks = 1
	s.ViolationList = []violation{{Kind: overlap, Lock: "lock-0", Time: s.Begin, PID: 1, Token: 2, OtherPID: 3, OtherToken: 4}}
	s.FailureList = []string{"process 0: something"}
	s.LeakList = []leak{{"/a/b", "0x7", "{}"}}
	s.judge()
	s.latency = nil // which is not part of it
	return s
}

func TestSummaryForAPerson(t *testing.T) {
	s := exampleSummary(t)
	var b bytes.Buffer
	s.print(&b)
	for _, part := range []string{
		"zk1:2181,zk2:2181",
		"20s of 1m0s: interrupted, seed 42",
		"3 processes × 16 goroutines, 1 lock\n",
		"12,000 of 12,345 rounds, 600/s; by process 50 + 25 + 25 %",
		"nothing between two steps: greedy",
		"tenure             50ms\n",
		"of lock-0: by process 50.0 + 33.3 + 16.7 %; 90.0 % of the run\n",
		"54,321, 2,716/s; 4.5 per grant",
		"1,111 reentered, 222 shared",
		"TryLock refused 333, timed out 44, cancelled 55",
		"77, at most 3 in a row",
		"1.5µs", "3ms", "1s",
		"VIOLATION: 1 violation; 1 node left behind; 2 failures\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &b)
		}
	}
}

func TestSummaryAsJSON(t *testing.T) {
	s := exampleSummary(t)
	file := filepath.Join(t.TempDir(), "summary.json")
	if err := s.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	if got := readSummary(t, file); !reflect.DeepEqual(got, s) {
		t.Errorf("read back:\n%+v\nwant:\n%+v", got, s)
	}

	// Nothing is null, whatever did not happen.
	empty := newSummary(time.Now())
	empty.Servers, empty.ProcessGrants, empty.Latencies = []string{"a"}, []uint64{0}, empty.latency.summary()
	if err := empty.writeJSON(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		if value == nil {
			t.Errorf("%s is null", name)
		}
	}
	if err := s.writeJSON(filepath.Join(file, "below", "a", "file")); err == nil {
		t.Error("a summary that cannot be written is no error")
	}
}

func TestSummaryOfReadWriteLocks(t *testing.T) {
	s := exampleSummary(t)
	var b bytes.Buffer
	s.print(&b)
	if strings.Contains(b.String(), "write") {
		t.Errorf("the summary of exclusive locks tells of writers:\n%s", &b)
	}
	s.ReadWrite, s.ReadRatio = true, 0.95
	s.ReadEntries, s.ReadGrants = 50000, 10000
	s.WriteEntries, s.WriteGrants = 4321, 2000
	s.Downgrades, s.RefusedUpgrades = 1234, 567
	s.ProcessWriteGrants = []uint64{1000, 999, 1}
	b.Reset()
	s.print(&b)
	for _, part := range []string{
		"1 read/write lock\n",
		"95 % of the steps; 50,000 entries, 5.0 per read grant (10,000)",
		"4,321 entries, 2.2 per write grant (2,000)",
		"54,321, 2,716/s; 4.5 per grant", // all
		"by process 1,000, 999, 1\n",
		"1,234 downgrades; read to write refused 567",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &b)
		}
	}
}

func TestCountsAdd(t *testing.T) {
	// Every field but one is a sum; add must not forget any.
	var one, sum counts
	v := reflect.ValueOf(&one).Elem()
	for i := range v.NumField() {
		v.Field(i).SetUint(uint64(i + 1))
	}
	sum.add(one)
	sum.add(one)
	got := reflect.ValueOf(sum)
	for i := range got.NumField() {
		want := uint64(2 * (i + 1))
		if got.Type().Field(i).Name == "LongestRace" {
			want /= 2
		}
		if got.Field(i).Uint() != want {
			t.Errorf("%s is %d, want %d", got.Type().Field(i).Name, got.Field(i).Uint(), want)
		}
	}
}

func TestWords(t *testing.T) {
	tests := []struct{ got, want string }{
		{thousands(0), "0"},
		{thousands(999), "999"},
		{thousands(1000), "1,000"},
		{thousands(uint64(1234567)), "1,234,567"},
		{thousands(int64(-123456)), "-123,456"},
		{thousands(-1234567), "-1,234,567"},
		{short(999 * time.Nanosecond), "999ns"},
		{short(1234 * time.Nanosecond), "1.23µs"},
		{short(123456 * time.Microsecond), "123ms"},
		{short(0), "0s"},
		{plural(1, "process"), "1 process"},
		{plural(2, "process"), "2 processes"},
		{plural(0, "lock"), "0 locks"},
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
