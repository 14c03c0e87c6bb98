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

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// programMark is the environment variable that makes the test binary another
// program: the harness itself, or one of the programs of the tests.
const programMark = "HOLDFAST_STRESS_TEST_PROGRAM"

// The programs that the test binary can be.
var programs = map[string]func(){
	"stress": main,
	"holder": holderMain,
}

func TestMain(m *testing.M) {
	if isChild() { // of a harness that is the test binary
		main()
	}
	if program := programs[os.Getenv(programMark)]; program != nil {
		program()
		os.Exit(0)
	}
	goleak.VerifyTestMain(realzk.WithShared(m))
}

// A program is the test binary as another program.
type program struct {
	cmd            *exec.Cmd
	temp           string       // its directory for temporary files
	stdout, stderr bytes.Buffer // to be read when it has ended
}

// newProgram returns the program, which has not been started. It is killed when
// the test ends, and is to end by itself long before its patience ends.
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

// wait waits until the program has ended and returns its exit status.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// output is all that the program said.
func (p *program) output() string { return p.stdout.String() + p.stderr.String() }

// A stressRun is a finished run of the harness.
type stressRun struct {
	exit    int
	output  string
	summary summary  // of the file that -json names; zero if it was not written
	left    []string // what it left in its directory for temporary files
}

// runStress runs the harness and waits until it has ended.
func runStress(t *testing.T, args []string, env ...string) stressRun {
	t.Helper()
	file := filepath.Join(t.TempDir(), "summary.json")
	p := newProgram(t, "stress", append(args, "-json", file), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := stressRun{exit: p.wait(t)}
	r.output = p.output()
	r.summary = readSummary(t, file)
	left, err := filepath.Glob(filepath.Join(p.temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	r.left = left
	return r
}

// readSummary reads what -json wrote, if it was written.
func readSummary(t *testing.T, file string) (s summary) {
	t.Helper()
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s
	} else if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return s
}
