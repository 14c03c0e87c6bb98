// SPDX-License-Identifier: Apache-2.0

// Package contender drives programs that contend for locks by other means than Holdfast's: a lock
// of another library, in any language. docs/testing.md has the protocol.
package contender

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Program is one that runs. Its clients wait for locks at the same time, each for one, on
// sessions of the program's choice. Any goroutine may call its methods.
type Program struct {
	cmd  *exec.Cmd
	told func(Notice)
	over chan struct{} // closed when its output has ended

	writing sync.Mutex // protects stdin; a program reads at once, so no caller waits long
	stdin   io.WriteCloser

	mu      sync.Mutex // protects clients and session
	clients map[string]*Client
	session uint64 // that began last
}

// A Notice is what a program says of one of its sessions: What is began, suspended, resumed or
// ended.
type Notice struct {
	Session uint64
	What    string
}

// ErrOver is the error of what was asked of a program that has ended.
var ErrOver = errors.New("the program has ended")

// readyWithin is how long a program may take to connect.
const readyWithin = time.Minute

// Start starts a program, and waits until it is connected. It is told the servers, with commas
// between them, and the session timeout in milliseconds, as its last two arguments. What it writes
// to its standard error goes to stderr. told is called for each notice, one at a time, and must not
// call the Program.
func Start(argv, servers []string, timeout time.Duration, stderr io.Writer, told func(Notice)) (*Program, error) {
	args := slices.Concat(argv[1:], []string{strings.Join(servers, ","), strconv.FormatInt(timeout.Milliseconds(), 10)})
	p := &Program{cmd: exec.Command(argv[0], args...), told: told, over: make(chan struct{}), clients: map[string]*Client{}}
	p.cmd.Stderr = stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the contender: %w", err)
	}
	ready := make(chan struct{})
	go p.listen(stdout, ready) // ends with the program, for which Close waits
	timer := time.NewTimer(readyWithin)
	defer timer.Stop()
	select {
	case <-ready:
		return p, nil
	case <-p.over:
		err = ErrOver
	case <-timer.C:
		err = fmt.Errorf("it did not say %q within %v", "ready", readyWithin)
	}
	return nil, errors.Join(fmt.Errorf("starting the contender %v: %w", p.cmd, err), p.Close(time.Second))
}

// listen reads what the program says.
func (p *Program) listen(out io.Reader, ready chan<- struct{}) {
	defer close(p.over)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		who, what, _ := strings.Cut(line, " ")
		switch {
		case line == "ready" && ready != nil:
			close(ready)
			ready = nil
		case who == "session":
			p.hear(what)
		default:
			p.Client(who).hear(what)
		}
	}
}

// hear takes a line about a session.
func (p *Program) hear(line string) {
	id, what, _ := strings.Cut(line, " ")
	session, err := strconv.ParseUint(id, 0, 64)
	if err != nil {
		return
	}
	if what == "began" {
		p.mu.Lock()
		p.session = session
		p.mu.Unlock()
	}
	p.told(Notice{session, what})
}

// tell writes a line to the program. If it is gone, the end of its output tells.
func (p *Program) tell(client, command, lock string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = fmt.Fprintf(p.stdin, "%s %s %s\n", client, command, lock)
}

// Client returns the client of that name. At first it has nothing.
func (p *Program) Client(name string) *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[name]
	if c == nil {
		c = &Client{program: p, name: name, answers: make(chan answer, 1)}
		p.clients[name] = c
	}
	return c
}

// Over returns a channel that is closed when the program has ended.
func (p *Program) Over() <-chan struct{} { return p.over }

// Close closes the program's input, which has it close its sessions and end. It is killed if it
// has not ended after the grace. The error is that of a program that did not end well by itself.
func (p *Program) Close(grace time.Duration) error {
	p.writing.Lock()
	_ = p.stdin.Close()
	p.writing.Unlock()
	killed := false
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-timer.C:
		killed = true
		_ = p.cmd.Process.Kill()
		<-p.over // Wait closes the pipe
	}
	if err := p.cmd.Wait(); err != nil && !killed {
		return fmt.Errorf("the contender %v: %w", p.cmd, err)
	}
	return nil
}
