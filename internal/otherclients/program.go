// SPDX-License-Identifier: Apache-2.0

package otherclients

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Program is a running program that tests talk to by lines. It has clients, in a session
// each, that do things at the same time. The first word of each line names the client that
// is told something, or that answers. The end of the program's input ends it.
//
// Any goroutine may call its methods.
type Program struct {
	process *os.Process
	killed  atomic.Bool
	over    chan struct{} // closed when no test waits for answers any more

	mu      sync.Mutex // protects answers
	answers map[string]chan string

	writing sync.Mutex // protects stdin; a program reads at once, so no caller waits long
	stdin   io.Writer
}

// endsWithin is for how long a program may take to end when its input has ended.
const endsWithin = 10 * time.Second

// Start starts a program. The end of the test ends its input, and waits for its end; the
// test fails if the program does. What it writes to standard error goes to the test's.
func Start(tb testing.TB, cmd *exec.Cmd) *Program {
	tb.Helper()
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &Program{process: cmd.Process, over: make(chan struct{}), answers: make(map[string]chan string), stdin: stdin}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			client, answer, _ := strings.Cut(lines.Text(), " ")
			select {
			case p.of(client) <- answer:
			case <-p.over:
			}
		}
	}()
	tb.Cleanup(func() {
		close(p.over)
		_ = stdin.Close() // fails if the program has ended
		timer := time.AfterFunc(endsWithin, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		<-heard // Wait closes the pipe
		if err := cmd.Wait(); err != nil && !p.killed.Load() {
			tb.Errorf("%v: %v", cmd, err)
		}
	})
	return p
}

// Kill kills the program, and its clients with it. That it has not ended by itself does not
// fail the test then.
func (p *Program) Kill() error {
	p.killed.Store(true)
	return p.process.Kill()
}

// Tell sends a client a command, and does not wait for the answer.
func (p *Program) Tell(client, command string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := fmt.Fprintf(p.stdin, "%s %s\n", client, command)
	return err
}

// Answers returns the channel of what a client says, line by line. It keeps some lines that
// are not received yet.
func (p *Program) Answers(client string) <-chan string { return p.of(client) }

func (p *Program) of(client string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[client] == nil {
		p.answers[client] = make(chan string, 100)
	}
	return p.answers[client]
}
