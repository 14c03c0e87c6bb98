// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	osprocess "github.com/holdfast-go/holdfast/internal/realzk/child"
	"github.com/holdfast-go/holdfast/stress/internal/chronicle"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
	"github.com/holdfast-go/holdfast/stress/internal/worker"
)

// A process is a child as seen by the parent, whose goroutine alone uses it. What
// the child does arrives as events.
type process struct {
	index       int // history.Register: the register
	incarnation int // how often it has been started before
	cmd         *exec.Cmd
	stdin       io.WriteCloser

	ready    bool
	exited   bool
	progress wire.Counts // latest
	final    *wire.Final // nil until received

	// Set if the nemesis has killed the process, so that its end is no failure.
	killed   bool
	clock    time.Duration   // how far the clock of the next incarnation is ahead
	replaced chan<- struct{} // to be closed when that has been started

	group   bool               // it has a program of its own, which is in its process group: signals are for both
	starter *osprocess.Starter // of a process with a clock of its own; or nil
}

// An event is a message from a process, or its end.
type event struct {
	process *process
	message wire.Message // if exited is false
	exited  bool
	exit    error // of exec.Cmd.Wait
}

// String names the process, as the targets of faults do.
func (p *process) String() string {
	if p.index == history.Register {
		return "the register"
	}
	return history.ProcessTarget(p.index)
}

// startProcess runs this program as the child with the settings s. It sends the
// child's messages to events, followed by its end, and passes each line that the
// child writes to its standard error to log.
func startProcess(s wire.Settings, events chan<- event, log func(line string)) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting process %d: %w", s.Process, err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), worker.Mark+"="+strconv.Itoa(s.Process))
	cmd.Dir = s.Dir
	Apart(cmd)
	p := &process{index: s.Process, incarnation: s.Incarnation, cmd: cmd, group: len(s.Program) > 0}
	var stdout, stderr io.ReadCloser
	if p.stdin, err = cmd.StdinPipe(); err == nil {
		if stdout, err = cmd.StdoutPipe(); err == nil {
			if stderr, err = cmd.StderrPipe(); err == nil {
				err = p.start(s.ClockAhead)
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
		err := wire.ReadMessages(stdout, func(m wire.Message) { events <- event{process: p, message: m} })
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
		err := cmd.Wait()
		if p.group {
			_ = killGroup(cmd.Process) // what its program may have started
		}
		if p.starter != nil {
			p.starter.Close()
		}
		events <- event{process: p, exited: true, exit: err}
	}()
	return p, nil
}

// start starts p, with a monotonic clock that is ahead of the machine's.
func (p *process) start(ahead time.Duration) (err error) {
	if ahead == 0 {
		return p.cmd.Start()
	}
	if p.starter, err = osprocess.NewStarterWithClock(ahead); err != nil {
		return err
	}
	if err = p.starter.Start(p.cmd); err != nil {
		p.starter.Close()
	}
	return err
}

// tell writes a line to p. If p is gone, the event of its end tells. The pipe has room for
// all lines, so that this does not wait for a process that is stopped.
func (p *process) tell(line string) { _, _ = io.WriteString(p.stdin, line) }

// stop tells p to stop. It may be called more than once.
func (p *process) stop() { _ = p.stdin.Close() }

func (p *process) kill() {
	switch {
	case p.exited:
	case p.group:
		_ = killGroup(p.cmd.Process)
	default:
		_ = p.cmd.Process.Kill()
	}
}

// pause stops p by SIGSTOP.
func (p *process) pause() error {
	if p.group {
		if err := stopGroup(p.cmd.Process); err != nil {
			return err
		}
	}
	return osprocess.Pause(p.cmd.Process) // which waits until it has stopped
}

func (p *process) resume() error {
	if p.group {
		return continueGroup(p.cmd.Process)
	}
	return osprocess.Resume(p.cmd.Process)
}

func (p *process) life() chronicle.Life {
	return chronicle.Life{Process: p.index, Incarnation: p.incarnation}
}
