// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/verdict"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// interrupt sends SIGINT to the program's process group, as Ctrl-C does.
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
	errors := p.startReading(t)
	errors.until(t, "2 processes running")
	eventually(t, "locks were released", func() bool { return server.Requests(zktest.OpDelete) > 100 })
	p.interrupt(t)
	said := errors.rest()
	r := stressRun{exit: p.wait(t)}
	r.output = p.output() + said
	readJSON(t, file, &r.summary)
	r.expect(t, wire.ExitOK, verdict.OK, "of 1h0m0s: interrupted")
	if !r.summary.Interrupted || r.summary.Elapsed > time.Hour/2 {
		t.Errorf("the summary does not tell of the interrupt: %+v", r.summary)
	}
	if left := server.Sessions(); len(left) > 0 {
		t.Errorf("it left the sessions %+v behind", left)
	}
}

func TestSecondInterruptKills(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "stress", []string{"-duration", "1h", "-processes", "2", "-goroutines", "4", "-patience", "1h"}, wire.SabotageVariable+"="+string(wire.GetsStuck))
	errors := p.startReading(t)
	errors.until(t, " entries ") // by now the first process is stuck
	p.interrupt(t)
	errors.until(t, "stopping") // which will take as long as the patience
	p.interrupt(t)
	said := errors.rest()
	if exit := p.wait(t); exit != wire.ExitFailure || !strings.Contains(said, "killed by a second interrupt") {
		t.Errorf("exit status %d, want %d; it said:\n%s", exit, wire.ExitFailure, p.output()+said)
	}
}
