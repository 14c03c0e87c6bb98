// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// A process is a child as seen by the parent, whose goroutine alone uses it. What
// the child does arrives as events.
type process struct {
	index int
	cmd   *exec.Cmd
	stdin io.WriteCloser

	ready    bool
	exited   bool
	progress counts // latest
	final    *final // nil until received
}

// An event is a message from a process, or its end.
type event struct {
	process *process
	message message // if exited is false
	exited  bool
	exit    error // of exec.Cmd.Wait
}

// startProcess runs this program as the child with the settings s. It sends the
// child's messages to events, followed by its end, and passes each line that the
// child writes to its standard error to log.
func startProcess(s settings, events chan<- event, log func(line string)) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting process %d: %w", s.Process, err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childMark+"="+strconv.Itoa(s.Process))
	apart(cmd)
	p := &process{index: s.Process, cmd: cmd}
	var stdout, stderr io.ReadCloser
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		if stdout, err = cmd.StdoutPipe(); err == nil {
			if stderr, err = cmd.StderrPipe(); err == nil {
				err = cmd.Start()
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("starting process %d: %w", s.Process, err)
	}
	// The pipe's buffer has room for this line. If the child is gone, the event
	// of its end tells.
	_ = json.NewEncoder(p.stdin).Encode(s)

	var reading sync.WaitGroup
	reading.Go(func() {
		err := readMessages(stdout, func(m message) { events <- event{process: p, message: m} })
		if err != nil {
			log(err.Error())
		}
	})
	reading.Go(func() {
		for lines := bufio.NewReader(stderr); ; {
			line, err := lines.ReadString('\n')
			if line != "" {
				log(line)
			}
			if err != nil {
				return
			}
		}
	})
	go func() {
		reading.Wait() // first, because Wait closes the pipes
		events <- event{process: p, exited: true, exit: cmd.Wait()}
	}()
	return p, nil
}

// begin lets the workers of p begin. If p is gone, the event of its end tells.
func (p *process) begin() {
	_, _ = io.WriteString(p.stdin, goLine)
}

// stop tells p to stop. It may be called more than once.
func (p *process) stop() { _ = p.stdin.Close() }

// kill kills p.
func (p *process) kill() {
	if !p.exited {
		_ = p.cmd.Process.Kill()
	}
}
