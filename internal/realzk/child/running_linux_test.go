// SPDX-License-Identifier: Apache-2.0

package child

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A Running tells how its process has ended and what that has said, and not what an earlier one
// has said into the same log.
func TestRunningTells(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("an earlier process\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Run(role("speaker"), log)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); err == nil || err.Error() != "it exited: exit status 3" {
		t.Errorf("it ended by %v, want exit status 3", err)
	}
	if got := r.Said(10); got != "one\ntwo\nthree" {
		t.Errorf("it said %q", got)
	}
	if got := r.Said(1); got != "three" {
		t.Errorf("its last line is %q", got)
	}
	if err := r.Kill(); err != nil {
		t.Errorf("killed after its end: %v", err)
	}
	if whole, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(whole), "an earlier process\none\n") {
		t.Errorf("the log is %q, %v", whole, err)
	}
}

// Kill ends a process that is paused, and returns when it has been reaped.
func TestRunningIsKilled(t *testing.T) {
	r, err := Run(role("sleeper"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Exited():
	default:
		t.Error("Kill has returned before the process was reaped")
	}
	if err := r.Err(); err == nil || err.Error() != "it exited: signal: killed" {
		t.Errorf("it ended by %v, want SIGKILL", err)
	}
	if err := (*Running)(nil).Kill(); err != nil {
		t.Errorf("Kill of none: %v", err)
	}
}

// What cannot start leaves no process and no goroutine, and says why.
func TestRunningCannotStart(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ log, want string }{
		{filepath.Join(dir, "missing", "log"), "open its log: "},
		{filepath.Join(dir, "log"), "no such file"},
	} {
		cmd := role("speaker")
		cmd.Path = filepath.Join(dir, "no such program")
		if r, err := Run(cmd, test.log); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("with log %s: %v, %v; want an error with %q", test.log, r, err, test.want)
		}
	}
}
