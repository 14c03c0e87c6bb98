// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// electing starts a holdfast elect whose program says its name, and ends when its input does
// or a signal comes.
func electing(t *testing.T, addr, id string, flags ...string) (c *command, end func()) {
	t.Helper()
	args := append([]string{"elect", "--servers", addr, "--id", id}, flags...)
	c = prepare(t, append(args, "scheduler", "--", "sh", "-c", "echo "+id+" leads $HOLDFAST_LOCK; cat; exit 7")...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.begin()
	return c, func() { in.Close() }
}

// TestElect: one process after the other leads and runs its program. The phases go to standard
// error.
func TestElect(t *testing.T) {
	t.Parallel()
	server, addr := serve(t)
	first, end := electing(t, addr, "first")
	first.stdout.await(t, "first leads scheduler/lock\n")
	first.stderr.await(t, "holdfast: scheduler: ELECTED_COMPLETE, token ")
	record, _, ok := server.Get("/holdfast/scheduler/leader")
	if !ok || !strings.Contains(string(record), `"first"`) {
		t.Errorf("the record is %s", record)
	}
	second, endSecond := electing(t, addr, "second", "--json")
	second.stderr.await(t, `"READY_COMPLETE"`)
	if s := second.stdout.String(); s != "" {
		t.Errorf("two leaders: %q", s)
	}
	end()
	if code := first.code(); code != 7 {
		t.Errorf("exit code %d, %s", code, first.stderr)
	}
	second.stdout.await(t, "second leads")
	endSecond()
	if code := second.code(); code != 7 {
		t.Errorf("exit code %d, %s", code, second.stderr)
	}
	var types []string
	for line := range strings.Lines(first.stderr.String()) {
		at, line, _ := strings.Cut(strings.TrimSpace(line), " holdfast: scheduler: ")
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Errorf("the line has no time: %v", err)
		}
		line, _, _ = strings.Cut(line, ",")
		types = append(types, line)
	}
	want := "START OFFER_START OFFER_COMPLETE DETERMINE_START DETERMINE_COMPLETE ELECTED_START ELECTED_COMPLETE STOP_START STOP_COMPLETE"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("phases %s, want %s", got, want)
	}
	var last phase
	for line := range strings.Lines(second.stderr.String()) {
		last = phase{}
		if err := json.Unmarshal([]byte(line), &last); err != nil || last.Election != "scheduler" || last.State == "" || last.Time.IsZero() {
			t.Errorf("%v: %s", err, line)
		}
	}
	if last.Type != "STOP_COMPLETE" {
		t.Errorf("the last phase is %+v", last)
	}
}

// TestElectStandsAgain: when the leadership is lost, the program is ended, and started anew
// when this process leads again; with --once it is not.
func TestElectStandsAgain(t *testing.T) {
	for _, once := range []bool{false, true} {
		server, addr := serve(t)
		flags := []string{"--quiet"}
		if once {
			flags = append(flags, "--once")
		}
		c, end := electing(t, addr, "me", flags...)
		c.stdout.await(t, "me leads")
		if err := server.Delete("/holdfast/scheduler/lock/" + server.Children("/holdfast/scheduler/lock")[0]); err != nil {
			t.Fatal(err)
		}
		want := exitLost
		if !once {
			c.stdout.await(t, "me leads scheduler/lock\nme leads scheduler/lock\n")
			end()
			want = 7
		}
		if code := c.code(); code != want || !strings.Contains(c.stderr.String(), "the program is ended") {
			t.Errorf("once %t: exit code %d, %s", once, code, c.stderr)
		}
	}
}

// TestElectWithoutReader: nothing ends because no one reads standard error any more, or takes
// what is there.
func TestElectWithoutReader(t *testing.T) {
	for _, gone := range []bool{true, false} {
		server, addr := serve(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if !gone { // the pipe is full
			_ = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			for err == nil {
				_, err = w.Write(make([]byte, 1))
			}
		}
		c := prepare(t, "elect", "--servers", addr, "scheduler", "--", "sh", "-c", "echo leads; cat; exit 7")
		c.Cmd.Stderr = w
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.begin()
		w.Close()
		c.stdout.await(t, "leads")
		if gone {
			r.Close()
		}
		in.Close()
		if code := c.code(); code != 7 {
			t.Errorf("reader gone %t: exit code %d", gone, code)
		}
		if left := server.Children("/holdfast/scheduler/lock"); len(left) != 0 {
			t.Errorf("reader gone %t: left in the queue: %q", gone, left)
		}
	}
}

// TestElectExitCode: a program that ends by itself is not run again, whatever its exit code.
func TestElectExitCode(t *testing.T) {
	_, addr := serve(t)
	stdout, stderr, code := do(t, "elect", "--servers", addr, "--quiet", "x", "--", "sh", "-c", "echo run; exit 5")
	if stdout != "run\n" || code != exitLost {
		t.Errorf("code %d, %q, %s", code, stdout, stderr)
	}
}

// TestElectArguments: the program gets its arguments as they are.
func TestElectArguments(t *testing.T) {
	t.Parallel()
	_, addr := serve(t)
	stdout, stderr, code := do(t, "elect", "--servers", addr, "--quiet", "x", "--", "printf", "%s|", "a", "\xff", "--quiet", "")
	if stdout != "a|\xff|--quiet||" || code != 0 {
		t.Errorf("code %d, %q, %s", code, stdout, stderr)
	}
}

// TestElectSignals: a signal ends the candidacy, and the program if it runs.
func TestElectSignals(t *testing.T) {
	server, addr := serve(t)
	leader, _ := electing(t, addr, "leader")
	leader.stdout.await(t, "leader leads")
	waits, _ := electing(t, addr, "waits")
	waits.stderr.await(t, "READY_COMPLETE")
	for _, c := range []*command{waits, leader} {
		c.signal(syscall.SIGTERM)
		if code := c.code(); code != exitSignal+int(syscall.SIGTERM) {
			t.Errorf("exit code %d, %s", code, c.stderr)
		}
	}
	if left := server.Children("/holdfast/scheduler/lock"); len(left) != 0 {
		t.Errorf("left in the queue: %q", left)
	}
	if s := waits.stdout.String(); s != "" {
		t.Errorf("it ran: %q", s)
	}
}
