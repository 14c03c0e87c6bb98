// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/parent"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A run in which the harness was stopped says so, when it goes on and in its verdict.
func TestRunThatStoodStill(t *testing.T) {
	t.Parallel()
	_, address := newServer(t)
	dir := filepath.Join(t.TempDir(), "report")
	p := newProgram(t, "stress", []string{"-servers", address, "-duration", "1h", "-processes", "2", "-goroutines", "4", "-report", dir})
	errors := p.startReading(t)
	errors.until(t, "2 processes running")
	signal := func(s syscall.Signal) {
		if err := p.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	stopped := time.Now()
	eventually(t, "it was stopped for long enough", func() bool { return time.Since(stopped) > parent.Standstill+parent.BeatEvery+time.Second/2 })
	signal(syscall.SIGCONT)
	errors.until(t, "the machine stood still for ")
	p.interrupt(t)
	errors.rest()
	p.wait(t)
	if !strings.Contains(p.stdout.String(), "  stood still        at ") {
		t.Errorf("the summary does not say so:\n%s", p.stdout.String())
	}
	if v, err := verdict.Read(dir); err != nil || len(v.Standstills) == 0 || v.Standstills[0].For < parent.Standstill.Nanoseconds() {
		t.Errorf("the verdict has the standstills %+v, %v", v.Standstills, err)
	}
}
