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

// A process is a child as the parent sees it. The parent's main goroutine has
// it to itself; what the process says comes to it as events.
type process struct {
	index int
	cmd   *exec.Cmd
	stdin io.WriteCloser

	ready    bool
	exited   bool
	progress counts // the latest
	final    *final // nil until it has come
}

// An event is what happened to a process.
type event struct {
	process *process
	message message
	// exit is set, and message is not, when the process has ended: what was
	// wrong with that, or nil.
	exited bool
	exit   error
}

// startProcess starts this program again, as the child with the settings s. What
// it says comes as events, the last of which says that it has ended; what it
// writes to its standard error goes to log, line by line.
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
	// One line, which the pipe holds whether the process reads it or not. If
	// the process is gone already, its end says so.
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
		reading.Wait() // Wait closes the pipes, so it comes after
		events <- event{process: p, exited: true, exit: cmd.Wait()}
	}()
	return p, nil
}

// goOn lets the process's workers begin. If it is gone, its end says so.
func (p *process) goOn() {
	_, _ = io.WriteString(p.stdin, goLine)
}

// stop tells the process to stop. It may be called more than once.
func (p *process) stop() { _ = p.stdin.Close() }

// kill ends the process at once.
func (p *process) kill() {
	if !p.exited {
		_ = p.cmd.Process.Kill()
	}
}
