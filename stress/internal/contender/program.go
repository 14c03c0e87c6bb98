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
	cmd    *exec.Cmd
	told   func(Notice)
	wrong  func(error)
	stdout io.Closer
	over   chan struct{} // closed when its output has ended

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

// ReadyWithin is how long a program may take to connect.
const ReadyWithin = time.Minute

// endDelay is how long the output of a program that was killed is awaited: a program that it has
// started may have it as well.
const endDelay = time.Second

// Start starts a program, and waits until it is connected. It is told the servers, with commas
// between them, and the session timeout in milliseconds, as its last two arguments. What it writes
// to its standard error goes to stderr. told is called for each notice, and wrong for each line that
// the protocol does not have, one at a time; they must not call the Program.
func Start(argv, servers []string, timeout time.Duration, stderr io.Writer, told func(Notice), wrong func(error)) (*Program, error) {
	args := slices.Concat(argv[1:], []string{strings.Join(servers, ","), strconv.FormatInt(timeout.Milliseconds(), 10)})
	p := &Program{cmd: exec.Command(argv[0], args...), told: told, wrong: wrong, over: make(chan struct{}), clients: map[string]*Client{}}
	// By a pipe of our own, with an end: what the program starts, and leaves, does not keep the
	// harness's.
	p.cmd.Stderr, p.cmd.WaitDelay = struct{ io.Writer }{stderr}, endDelay
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin, p.stdout = stdin, stdout
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the contender: %w", err)
	}
	ready := make(chan error, 1)
	go p.listen(stdout, ready) // ends with the program, for which Close waits
	timer := time.NewTimer(ReadyWithin)
	defer timer.Stop()
	select {
	case err = <-ready:
		if err == nil {
			return p, nil
		}
	case <-p.over:
		err = ErrOver
	case <-timer.C:
		err = fmt.Errorf("it did not say %q within %v", "ready", ReadyWithin)
	}
	return nil, errors.Join(fmt.Errorf("starting the contender %v: %w", p.cmd, err), p.Close(endDelay))
}

func (p *Program) listen(out io.Reader, ready chan<- error) {
	defer close(p.over)
	begun := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		who, what, _ := strings.Cut(line, " ")
		var err error
		switch {
		case line == "ready" && !begun:
			begun = true
			ready <- nil
		case who == "session":
			err = p.hear(what)
		case !begun:
			ready <- fmt.Errorf("it said %q, and not %q", line, "ready")
			begun = true
		default:
			err = p.answer(who, what)
		}
		if err != nil {
			p.say(line, err)
		}
	}
}

// answer takes a line of a client's. One that is not understood is reported before the client is
// told that it has failed.
func (p *Program) answer(client, what string) error {
	c := p.Client(client)
	a, err := c.hear(what)
	if err != nil {
		p.say(client+" "+what, err)
	}
	if a != nil && !c.answer(*a) {
		return errors.New("the client was asked for nothing")
	}
	return nil
}

// say reports a line that is not understood.
func (p *Program) say(line string, err error) {
	p.wrong(fmt.Errorf("the contender said %q: %w", line, err))
}

// notices are what a program says of a session.
var notices = []string{"began", "suspended", "resumed", "ended"}

// hear takes a line about a session.
func (p *Program) hear(line string) error {
	id, what, _ := strings.Cut(line, " ")
	session, err := strconv.ParseUint(id, 0, 64)
	if err != nil || session == 0 {
		return fmt.Errorf("%q is no number of a session, such as 0x1000a or 65546", id)
	}
	if !slices.Contains(notices, what) {
		return fmt.Errorf("a session has %s, and not %q", strings.Join(notices, ", "), what)
	}
	if what == "began" {
		p.mu.Lock()
		p.session = session
		p.mu.Unlock()
	}
	p.told(Notice{session, what})
	return nil
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
		late := time.AfterFunc(endDelay, func() { _ = p.stdout.Close() })
		defer late.Stop()
		<-p.over // before Wait, which closes the pipe
	}
	if err := p.cmd.Wait(); err != nil && !killed && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("the contender %v: %w", p.cmd, err)
	}
	return nil
}
