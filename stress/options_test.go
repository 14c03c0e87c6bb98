// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	tests := []struct {
		args  string
		check func(options) bool
	}{
		{"", func(o options) bool {
			return o.servers == nil && o.duration == 30*time.Second && o.processes == 3 && o.goroutines == 16 && o.locks == 4 && o.seed != 0
		}},
		{"-seed 42", func(o options) bool { return o.seed == 42 }},
		{"-servers zk1,zk2:2182/a/b", func(o options) bool {
			return slices.Equal(o.servers, []string{"zk1:2181", "zk2:2182"}) && o.chroot == "/a/b"
		}},
		// About one worker of a process is inside each lock that it holds.
		{"-goroutines 16 -locks 4 -hold 2ms", func(o options) bool { return o.think == 8*time.Millisecond }},
		{"-goroutines 1 -locks 4 -hold 2ms", func(o options) bool { return o.think == 2*time.Millisecond }},
		{"", func(o options) bool { return !o.readWrite }},
		{"-read-ratio 0", func(o options) bool { return o.readWrite && o.readRatio == 0 }},
		// Readers are nearly always inside.
		{"-read-ratio 0.95 -hold 16ms", func(o options) bool { return o.readWrite && o.readRatio == 0.95 && o.think == time.Millisecond }},
		{"-read-ratio 1 -think 1s", func(o options) bool { return o.think == time.Second }},
		{"", func(o options) bool { return !o.greedy && o.tenure == 0 }},
		{"-greedy -hold 2ms", func(o options) bool { return o.greedy && o.think == 0 && o.hold == 2*time.Millisecond }},
		{"-greedy -read-ratio 0.5", func(o options) bool { return o.greedy && o.think == 0 }},
		{"-tenure 50ms", func(o options) bool { return o.tenure == 50*time.Millisecond }},
		{"-tenure -1s", func(o options) bool { return o.tenure == -time.Second }},
		{"-think 1s", func(o options) bool { return o.think == time.Second }},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			o, err := parseOptions(strings.Fields(tt.args), &stdout, &stderr)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.check(o) {
				t.Errorf("got %+v", o)
			}
			if stdout.Len()+stderr.Len() > 0 {
				t.Errorf("it said %q %q", &stdout, &stderr)
			}
		})
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	tests := []struct {
		args string
		says []string
	}{
		{"-processes 0", []string{"-processes is 0", "between 1 and"}},
		{"-goroutines -1 -locks 0", []string{"-goroutines is -1", "-locks is 0"}},
		{"-duration 1ms", []string{"-duration is 1ms"}},
		{"-hold 2h -patience 0s -session-timeout 1ms -think -1s", []string{"-hold", "-patience", "-session-timeout", "-think"}},
		{"-greedy -think 1ms", []string{"-think is 1ms", "-greedy"}},
		{"-tenure 2h", []string{"-tenure is 2h"}},
		{"-seed -1", []string{"seed"}},
		{"-read-ratio 1.01", []string{"-read-ratio is 1.01", "between 0 and 1"}},
		{"-read-ratio -0.5", []string{"-read-ratio is -0.5"}},
		{"-read-ratio NaN", []string{"-read-ratio is NaN"}},
		{"-read-ratio half", []string{"read-ratio", `"half"`, "between 0 and 1"}},
		{"-nonsense", []string{"nonsense"}},
		{"30s", []string{`"30s" is not a flag`}},
		{"-servers zk1:x", []string{"zk1:x"}},
		{"-servers /only/a/chroot", []string{"empty"}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if _, err := parseOptions(strings.Fields(tt.args), &stdout, &stderr); err == nil {
				t.Fatal("it was accepted")
			}
			for _, part := range append(tt.says, "-help") {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("%q does not say %q", &stderr, part)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("it wrote %q to the standard output", &stdout)
			}
		})
	}
}

func TestHelpNamesEveryFlagAndStatus(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if _, err := parseOptions([]string{"-help"}, &stdout, &stderr); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, part := range []string{"-servers", "-duration", "-processes", "-goroutines", "-locks", "-seed", "-json", "-hold", "-think", "-greedy", "-tenure", "-read-ratio", "-session-timeout", "-patience", "Exit status", "void"} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &stdout)
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("it wrote %q to the standard error", &stderr)
	}
}
