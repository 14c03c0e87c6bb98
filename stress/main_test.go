// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/sentinel"
	"github.com/holdfast-go/holdfast/stress/internal/parent"
	"github.com/holdfast-go/holdfast/stress/internal/summary"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/stress/internal/worker"
)

// programMark is the environment variable that makes the test binary run one of
// programs instead of the tests.
const programMark = "HOLDFAST_STRESS_TEST_PROGRAM"

var programs = map[string]func(){
	"stress":       main,
	"holder":       holderMain,
	sampledProgram: sampledMain,
}

// sampled reports whether of the tests that have many runs a few are enough: a race of the
// harness shows up in any of them.
func sampled() bool { return testing.Short() || racing.Detector }

// sampledProgram is the harness with the quickest runs of its self-test alone.
const sampledProgram = "sampled"

func sampledMain() {
	parent.KeepSelfTests("", wire.GrantsTwice, wire.SloppyRegister)
	main()
}

func TestMain(m *testing.M) {
	sentinel.Main()
	if worker.IsChild() { // of the program "stress"
		main()
	}
	if program := programs[os.Getenv(programMark)]; program != nil {
		program()
		os.Exit(0)
	}
	if os.Getenv("GORACE") == "" { // by default the race detector lets each process sleep for a second at its end
		_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}

// A program is the test binary run as one of programs.
type program struct {
	cmd            *exec.Cmd
	temp           string       // its TMPDIR
	stdout, stderr bytes.Buffer // to be read after it has ended
}

// newProgram returns the named program, not yet started. The end of the test kills
// it.
func newProgram(t *testing.T, name string, args []string, env ...string) *program {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	p := &program{cmd: exec.CommandContext(ctx, binary, args...), temp: t.TempDir()}
	p.cmd.Env = append(os.Environ(), programMark+"="+name, "TMPDIR="+p.temp)
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	return p
}

// wait waits for the program to end and returns its exit status.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// output returns everything that the program wrote.
func (p *program) output() string { return p.stdout.String() + p.stderr.String() }

// A stressRun is a finished run of the harness.
type stressRun struct {
	exit    int
	output  string
	summary summary.Summary // zero if none was written
	left    []string        // files left in its TMPDIR
}

// runStress runs the harness and waits for it to end.
func runStress(t *testing.T, args []string, env ...string) stressRun {
	t.Helper()
	return runProgram(t, "stress", args, env...)
}

// runProgram is runStress for one of programs that does as stress does.
func runProgram(t *testing.T, name string, args []string, env ...string) stressRun {
	t.Helper()
	file := filepath.Join(t.TempDir(), "summary.json")
	p := newProgram(t, name, append(args, "-json", file), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := stressRun{exit: p.wait(t)}
	r.output = p.output()
	if _, err := os.Stat(file); err == nil {
		readJSON(t, file, &r.summary)
	}
	var err error
	if r.left, err = filepath.Glob(filepath.Join(p.temp, "*")); err != nil {
		t.Fatal(err)
	}
	return r
}

// readJSON reads a file into v.
func readJSON(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
