// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A Process is this program, started once more with other arguments.
type Process struct {
	Name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	err   error // how it ended; to be read after ended has closed
}

// A Line is a line that a process has written to its standard output.
type Line struct {
	From *Process
	Text string
}

// Start starts this program with args, and sends each line that it writes to lines.
// The process does not end before there is room for all of them.
func Start(name string, lines chan<- Line, args ...string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() { // ends with the process; Wait joins it
		defer close(p.ended)
		for text := bufio.NewScanner(stdout); text.Scan(); {
			lines <- Line{p, text.Text()}
		}
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process has ended, and returns an error if it failed.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Kill kills the process, as kill -9 does, if it has not ended.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Kill kills processes and waits for their ends.
func Kill(processes []*Process) {
	for _, p := range processes {
		p.Kill()
	}
	for _, p := range processes {
		_ = p.Wait() // that it was killed
	}
}

// EndWithParent ends this process when the one that started it has gone. It is for
// processes that were started by Start.
func EndWithParent() {
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
}
