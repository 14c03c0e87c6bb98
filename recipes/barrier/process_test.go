// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// A program is another process that the test talks to in lines.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it says; closed at its end
}

// startProgram starts cmd, which is killed at the end of the test.
func startProgram(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, lines: make(chan string, 100)}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// kill kills the program, and waits for its end.
func (p *program) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

func (p *program) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Error(err)
	}
}

// hear returns the next line that the program says.
func (p *program) hear() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if ok {
			return line
		}
		p.t.Error("the program has ended")
	case <-time.After(time.Minute):
		p.t.Error("the program says nothing")
	}
	return ""
}

// silent checks that the program says nothing for a while.
func (p *program) silent() {
	p.t.Helper()
	select {
	case line := <-p.lines:
		p.t.Errorf("the program says %q", line)
	case <-time.After(200 * time.Millisecond):
	}
}

// The environment of a process that a test starts.
const (
	childServer = "HOLDFAST_BARRIER_SERVER"
	childRoot   = "HOLDFAST_BARRIER_ROOT"
)

// childTimeout is the session timeout of the processes that are killed.
const childTimeout = 4 * time.Second

// startChild starts a process that is a member of round after round.
func startChild(t *testing.T, server, root string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childServer+"="+server, childRoot+"="+root)
	return startProgram(t, cmd)
}

// child is that process. It says when it is inside, leaves when it is told to, and says so.
func child(server, root string) {
	ctx := context.Background()
	m, err := manager.Open(ctx, manager.Config{
		Servers: []string{server}, Root: root, Label: "child", SessionTimeout: childTimeout,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	d, err := NewDouble(m, "b", 3)
	if err != nil {
		panic(err)
	}
	for in := bufio.NewScanner(os.Stdin); ; {
		st, err := d.Enter(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println("inside", strings.Join(st.Members, ", "))
		if !in.Scan() {
			return
		}
		fmt.Println("left", st.Leave(ctx))
	}
}
