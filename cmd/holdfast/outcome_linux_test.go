// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Facts that could not be written are no success. A program under run writes to its own
// standard output, so its code is its own.
func TestF323_OutputIsFull(t *testing.T) {
	e := startEnsemble(t)
	e.hold(t, "jobs/nightly", "lock-", 1, "billing")
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"ls"}, exitFailure},
		{[]string{"ls", "--json"}, exitFailure},
		{[]string{"who", "jobs/nightly"}, exitFailure},
		{[]string{"ps"}, exitFailure},
		{[]string{"version"}, exitFailure},
		{[]string{"completion", "bash"}, exitFailure},
		{[]string{"who", "nothing"}, exitMissing}, // nothing is written
		{[]string{"run", "x", "--", "true"}, 0},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		defer full.Close()
		c := prepare(t, append([]string{"--servers", e.addr}, test.args...)...)
		c.Cmd.Stdout = full
		c.begin()
		if code := c.code(); code != test.code {
			t.Errorf("%q: exit code %d, want %d; %s", test.args, code, test.code, c.stderr)
		}
		if told := regexp.MustCompile(`(?m)^holdfast: .*no space left on device$`).MatchString(c.stderr.String()); told != (test.code == exitFailure) {
			t.Errorf("%q: %s", test.args, c.stderr)
		}
	}
}

// What a holder in another process says of its loss names the holdfast break that was its
// cause. A program that heeds the revocation loses nothing.
func TestF313_BreakIsNamed(t *testing.T) {
	server, addr := serve(t)
	script := `trap 'echo told; exit 0' TERM; echo in; while :; do sleep 0.05; done`
	for _, test := range []struct {
		onRevoke, grace string
		code            int
		stderr, deleted string
	}{
		{"ignore", "300ms", exitLost, `lock was lost: .*; before that, the lock was revoked: holdfast-break@\S+, pid \d+, since \S+, "holdfast break by \S+ on \S+"`, "deleted the node of sh@"},
		{"ignore", "0s", exitLost, `lock was lost: [^;]*: the program is ended`, "deleted the node of sh@"},
		{"term", "50s", 0, `holdfast-break@\S+, pid \d+ asks for "\S+" \("holdfast break by \S+ on \S+"\): the program gets SIGTERM`, "has left meanwhile: nothing to delete"},
	} {
		t.Run(test.onRevoke+" "+test.grace, func(t *testing.T) {
			name := test.onRevoke + test.grace
			c := begin(t, "run", "--servers", addr, "--on-revoke", test.onRevoke, name, "--", "sh", "-c", script)
			c.stdout.await(t, "in")
			node := server.Children("/holdfast/" + name)[0]
			stdout, stderr, code := do(t, "break", "--servers", addr, "--yes", "--grace", test.grace, name)
			if code != 0 || !strings.Contains(stdout, test.deleted) || !strings.Contains(stderr, node) || strings.Contains(stderr, "notice") {
				t.Errorf("break: exit code %d, %q, %q", code, stdout, stderr)
			}
			if code := c.code(); code != test.code || !regexp.MustCompile(test.stderr).MatchString(c.stderr.String()) {
				t.Errorf("exit code %d, %q; want %d, %s", code, c.stderr, test.code, test.stderr)
			}
		})
	}
}

// run says which processes it ends, and why: those that the program has left running, and the
// program itself if the guard was killed.
func TestF324_RunSaysWhatItKills(t *testing.T) {
	_, addr := serve(t)
	for _, test := range []struct {
		name, script string
		killGuard    bool
		code         int
		stderr       string
	}{
		{"left running", `sleep 100 & echo in`, false, 0, `^\S+ holdfast: sh has ended, and has left running: (sleep|sh) \(pid \d+\); that is ended, too\n$`},
		{"many left running", `for i in 1 2 3 4 5; do sleep 100 & done; echo in`, false, 0, `: ((sleep|sh) \(pid \d+\), ){2}(sleep|sh) \(pid \d+\) and 2 more; that is ended, too\n$`},
		{"all ended", `true & wait; echo in`, false, 0, `^$`},
		{"guard killed", `echo in; sleep 100`, true, 137, `^\S+ holdfast: sh: the guard, process \d+, which watches over the program, was ended by a signal \(killed\), so the program is killed\n$`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(t, "run", "--servers", addr, test.name, "--", "sh", "-c", test.script)
			if test.killGuard {
				c.stdout.await(t, "in")
				kill(t, guardOf(t, c), syscall.SIGKILL)
			}
			if code := c.code(); code != test.code || !regexp.MustCompile(test.stderr).MatchString(c.stderr.String()) {
				t.Errorf("exit code %d, %q", code, c.stderr)
			}
		})
	}
}

// The caller chooses the exit codes of a lock that is not granted and of one that is lost, so
// that they are not the program's.
func TestF326_ChosenExitCodes(t *testing.T) {
	server, addr := serve(t)
	flags := []string{"run", "--servers", addr, "-E", "44", "--lost-exit-code", "55"}
	for _, code := range []int{4, 5, 44} {
		if _, stderr, got := do(t, append(flags, "x", "--", "sh", "-c", fmt.Sprint("exit ", code))...); got != code || stderr != "" {
			t.Errorf("exit code %d, %s; want the program's, %d", got, stderr, code)
		}
	}
	holder := begin(t, append(flags, "x", "--", "sh", "-c", "echo in; exec sleep 100")...)
	holder.stdout.await(t, "in")
	if _, stderr, code := do(t, append(flags, "--try", "x", "--", "true")...); code != 44 || stderr == "" {
		t.Errorf("not granted: exit code %d, %s", code, stderr)
	}
	must(t, server.Delete("/holdfast/x/"+server.Children("/holdfast/x")[0]))
	if code := holder.code(); code != 55 {
		t.Errorf("lost: exit code %d, %s", code, holder.stderr)
	}

	// The guard ends the program when run is stopped, and has the same code.
	late := begin(t, append(flags, "--session-timeout", "1s", "y", "--", "sh", "-c", "echo in; exec sleep 100")...)
	late.stdout.await(t, "in")
	late.signal(syscall.SIGSTOP)
	late.stderr.await(t, "it was not confirmed in time that the lock is still held")
	late.signal(syscall.SIGCONT)
	if code := late.code(); code != 55 {
		t.Errorf("ended by the guard: exit code %d, %s", code, late.stderr)
	}
	for _, test := range []struct{ args, refused string }{
		{"run --lost-exit-code=-1", "--lost-exit-code is -1"},
		{"run --lost-exit-code=256", "--lost-exit-code is 256"},
		{"run -E-1", "--conflict-exit-code is -1"},
		{"run -E256", "--conflict-exit-code is 256"},
		{"elect --lost-exit-code=256", "--lost-exit-code is 256"},
	} {
		args := append(strings.Fields(test.args), "--servers", "127.0.0.1:1", "x", "--", "true")
		if _, stderr, got := do(t, args...); got != exitUsage || !strings.Contains(stderr, test.refused+": it must be from 0 to 255") {
			t.Errorf("%s: exit code %d, %s; want a refusal before there is a connection", test.args, got, stderr)
		}
	}
}
