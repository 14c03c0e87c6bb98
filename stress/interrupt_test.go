// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// interruptible makes the program, which is not started yet, the leader of a
// process group, as a shell does.
func (p *program) interruptible() { p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interrupt sends what Ctrl-C sends, and to whom: the whole group.
func (p *program) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptEndsARunProperly(t *testing.T) {
	t.Parallel()
	server, address := newServer(t)
	file := filepath.Join(t.TempDir(), "summary.json")
	p := newProgram(t, "stress", []string{"-servers", address, "-duration", "1h", "-processes", "2", "-goroutines", "4", "-json", file})
	p.interruptible()
	errors := p.pipeErrors(t)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errors.until(t, "2 processes at work")
	eventually(t, "locks have been released", func() bool { return server.Requests(zktest.OpDelete) > 100 })
	p.interrupt(t)
	said := errors.rest()
	r := stressRun{exit: p.wait(t)}
	r.output = p.output() + said
	r.summary = readSummary(t, file)
	r.expect(t, exitOK, ok, "of 1h0m0s: interrupted")
	if !r.summary.Interrupted || r.summary.Elapsed > time.Hour/2 {
		t.Errorf("the summary does not say that it was interrupted: %+v", r.summary)
	}
	if left := server.Sessions(); len(left) > 0 {
		t.Errorf("it left the sessions %+v behind", left)
	}
}

func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "stress", []string{"-duration", "1h", "-processes", "2", "-goroutines", "4", "-patience", "1h"}, sabotageVariable+"="+string(getsStuck))
	p.interruptible()
	errors := p.pipeErrors(t)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errors.until(t, " entries ") // by then the first process has got stuck
	p.interrupt(t)
	errors.until(t, "stopping") // which would take as long as the patience
	p.interrupt(t)
	said := errors.rest()
	if exit := p.wait(t); exit != exitFailure || !strings.Contains(said, "killed by a second interrupt") {
		t.Errorf("exit status %d, want %d; it said:\n%s", exit, exitFailure, p.output()+said)
	}
}
