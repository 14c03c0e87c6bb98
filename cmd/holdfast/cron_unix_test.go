// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startCron starts a holdfast cron whose program prints what it was told, and the given name.
func startCron(t *testing.T, addr, id, program string, flags ...string) *command {
	t.Helper()
	args := append([]string{"cron", "--servers", addr, "--id", id, "--every", "200ms", "--session-timeout", "4s"}, flags...)
	return begin(t, append(args, "reports", "--", "sh", "-c", `echo $HOLDFAST_PLANNED $HOLDFAST_ATTEMPT $HOLDFAST_MISSED $HOLDFAST_TOKEN $HOLDFAST_LOCK; `+program)...)
}

// TestCron: one of two processes runs the program at each planned time, whether it fails or not. When that
// one is killed in the middle, the other one runs the program again for the same time.
func TestCron(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	failed := filepath.Join(t.TempDir(), "failed") // what does not end comes after a failure, even if the first planned time is one of its
	first := startCron(t, addr, "first", `case $HOLDFAST_PLANNED in *[05]Z) if [ -e `+failed+` ]; then exec sleep 1000; fi;; esac; : > `+failed+`; exit 3`,
		"--missed=all", "--attempts=2")
	first.stdout.await(t, " 1 0 ")
	second := startCron(t, addr, "second", `exit 0`, "--missed=all", "--attempts=2", "--json")
	running := func() (planned string) { // of the one that does not end
		_, later, _ := strings.Cut(first.stdout.String(), "\n") // after the one that failed
		for line := range strings.Lines(later) {
			if planned, _, _ := strings.Cut(line, " "); strings.HasSuffix(planned, "0Z") || strings.HasSuffix(planned, "5Z") {
				return planned
			}
		}
		return ""
	}
	for running() == "" {
		<-time.After(10 * time.Millisecond)
	}
	first.signal(syscall.SIGKILL)
	second.stdout.await(t, running()+" 2 0 ")
	second.stdout.await(t, next(t, running())+" 1 0 ")
	second.signal(syscall.SIGTERM)
	if code := second.code(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d, %s", code, second.stderr)
	}
	if told := first.stderr.String(); !strings.Contains(told, "has failed: exit code 3") {
		t.Errorf("the first says %q", told)
	}
	var told cronEvent
	line, _, _ := strings.Cut(second.stderr.String(), "\n")
	if err := json.Unmarshal([]byte(line), &told); err != nil || told.Event != "interrupted" || told.Cron != "reports" || told.Attempt != 1 {
		t.Errorf("%v: the second says first %q", err, line)
	}
	if left := server.Children("/holdfast/reports/lock"); len(left) != 0 {
		t.Errorf("left in the queue: %q", left)
	}
	planned := make(map[string]bool)
	var last string
	for line := range strings.Lines(first.stdout.String() + second.stdout.String()) {
		var at, attempt, missed, token, lock string
		if _, err := fmt.Sscan(line, &at, &attempt, &missed, &token, &lock); err != nil || missed != "0" || lock != "reports/lock" {
			t.Errorf("a program says %q: %v", line, err)
		}
		if planned[at+" "+attempt] || last != "" && attempt == "1" && at != next(t, last) {
			t.Errorf("%s follows %s", at, last)
		}
		planned[at+" "+attempt], last = true, at
	}
}

// next returns the planned time after this one.
func next(t *testing.T, planned string) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, planned)
	if err != nil {
		t.Fatal(err)
	}
	return at.Add(200 * time.Millisecond).Format(time.RFC3339Nano)
}

// TestCronSchedule: the program is run at the times of the cron expression, by the record.
func TestCronSchedule(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	const record = `{"planned":"2026-03-01T06:00:00Z","state":"done","token":1,"attempt":1,"id":"before"}`
	if err := server.CreateAll("/holdfast/reports/record", []byte(record)); err != nil {
		t.Fatal(err)
	}
	c := begin(t, "cron", "--servers", addr, "--schedule", "CRON_TZ=Asia/Kolkata 0 12 1 3 *", "--missed=all",
		"reports", "--", "sh", "-c", "echo $HOLDFAST_PLANNED")
	c.stdout.await(t, "2026-03-01T06:30:00Z\n")
	c.signal(syscall.SIGTERM)
	if code := c.code(); code != 128+int(syscall.SIGTERM) || !strings.HasPrefix(c.stdout.String(), "2026-03-01T06:30:00Z\n") {
		t.Errorf("exit code %d, %s, %s", code, c.stdout, c.stderr)
	}
}

// TestCronMissed: by default the newest of the past planned times is run, and the program is told how
// many were passed over.
func TestCronMissed(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	const record = `{"planned":"2020-03-01T12:00:00Z","state":"done","token":1,"attempt":1,"id":"before"}`
	if err := server.CreateAll("/holdfast/reports/record", []byte(record)); err != nil {
		t.Fatal(err)
	}
	c := begin(t, "cron", "--servers", addr, "--schedule", "0 12 1 3 *", "reports", "--", "sh", "-c", "echo $HOLDFAST_PLANNED $HOLDFAST_MISSED")
	c.stdout.await(t, "\n")
	var year, missed int
	if _, err := fmt.Sscanf(c.stdout.String(), "%d-03-01T12:00:00Z %d", &year, &missed); err != nil || year < 2026 || missed != year-2021 {
		t.Errorf("the program says %q: %v", c.stdout, err)
	}
}

// TestCronRevoked: a program that ends because another process asks for the lock has not done its work,
// unless it ends with 0, so it is run again as --attempts says. One that is let alone has failed by itself.
func TestCronRevoked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		onRevoke, program string
		again             bool
	}{
		{"term", `trap 'exit 3' TERM; echo in; while [ $HOLDFAST_ATTEMPT = 1 ]; do sleep 0.01; done`, true},
		{"term", `trap 'exit 0' TERM; echo in; while :; do sleep 0.01; done`, false},
		{"ignore", `echo in; sleep 1; exit 3`, false},
	} {
		t.Run(test.onRevoke+" "+test.program, func(t *testing.T) {
			t.Parallel()
			_, addr := serve(t)
			c := begin(t, "cron", "--servers", addr, "--every=2s", "--missed=all", "--attempts=2", "--on-revoke="+test.onRevoke, "reports", "--",
				"sh", "-c", `echo at $HOLDFAST_PLANNED $HOLDFAST_ATTEMPT; `+test.program)
			c.stdout.await(t, "in\n")
			first, _, _ := strings.Cut(c.stdout.String(), "\n")
			if _, stderr, code := do(t, "revoke", "--servers", addr, "reports/lock"); code != 0 {
				t.Fatalf("revoke: %d, %s", code, stderr)
			}
			var planned string
			if _, err := fmt.Sscanf(first, "at %s 1", &planned); err != nil {
				t.Fatalf("%q: %v", first, err)
			}
			at, err := time.Parse(time.RFC3339Nano, planned)
			if err != nil {
				t.Fatal(err)
			}
			second := "at " + at.Add(2*time.Second).Format(time.RFC3339Nano) + " 1"
			if test.again {
				second = "at " + planned + " 2"
			}
			c.stdout.await(t, "\nat ") // and the rest of the line, which is written at once
			if got := strings.Split(c.stdout.String(), "\n"); got[2] != second {
				t.Errorf("after %q it runs %q, want %q", first, got[2], second)
			}
			if told := strings.Contains(c.stderr.String(), "was interrupted by a process that asks for the lock"); told != test.again {
				t.Errorf("it says %s", c.stderr)
			}
		})
	}
}

// TestCronEnds: a signal is passed on to the program, and ends cron when that has ended.
func TestCronEnds(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	c := startCron(t, addr, "me", `trap 'echo ends; exit 0' TERM; echo in; while :; do sleep 0.01; done`)
	c.stdout.await(t, "in\n")
	c.signal(syscall.SIGTERM)
	if code := c.code(); code != 128+int(syscall.SIGTERM) || !strings.HasSuffix(c.stdout.String(), "in\nends\n") {
		t.Errorf("exit code %d, %s", code, c.stdout)
	}
	if record, _, _ := server.Get("/holdfast/reports/record"); !strings.Contains(string(record), `"done"`) {
		t.Errorf("the record is %s", record)
	}
}
