// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that run passes on to the program.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT,
	syscall.SIGPIPE, // not to end when the reader of standard error does
}

// guardReads is how long a guard may take until it has read what it is to run.
const guardReads = 10 * time.Second

// A program is the program that run runs, as seen from run: its guard.
type program struct {
	guard  int         // the guard's process
	orders *os.File    // to the guard
	exited chan ending // told when the program and its descendants are gone
}

// startProgram starts the guard, which starts the program.
func startProgram(s start) (*program, error) {
	s.Parent, s.Group = os.Getpid(), unix.Getpgrp()
	// If one of them is a pipe, the process at its other end may want the keys, such as a
	// pager: then the program gets the terminal when it asks for it.
	s.Foreground = isTerminal(os.Stdin) && isTerminal(os.Stdout)
	// If the guard is killed, its descendants become this process's, which ends them.
	adoptOrphans()

	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// The guard gets its end under the number that it has here: whatever files this
	// process has inherited go to the program under their own numbers.
	fd := r.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	self, err := executable()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	p := &program{orders: w, exited: make(chan ending, 1)}
	args := append([]string{os.Args[0], guardVerb, strconv.Itoa(int(fd)), s.Path}, s.Args...)
	p.guard, err = syscall.ForkExec(self, args, &syscall.ProcAttr{
		Env:   s.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // the terminal's signals are not for the guard
	})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := p.begin(s); err != nil {
		_ = w.Close()
		_ = syscall.Kill(p.guard, syscall.SIGKILL) // it has begun nothing
		_, _ = syscall.Wait4(p.guard, nil, 0, nil)
		return nil, fmt.Errorf("its guard does not read what to run: %w", err)
	}
	go func() { // which run waits for
		e := p.wait()
		_ = w.Close() // cron starts one program after the other; send finds it closed
		p.exited <- e
	}()
	return p, nil
}

// begin sends the guard its first message, which can be larger than what a pipe takes at once.
func (p *program) begin(s start) error {
	text, err := json.Marshal(s)
	if err != nil {
		panic("holdfast: " + err.Error()) // it has texts and numbers only
	}
	if err := p.orders.SetWriteDeadline(time.Now().Add(guardReads)); err != nil {
		return err
	}
	if _, err := p.orders.Write(text); err != nil {
		return err
	}
	return p.orders.SetWriteDeadline(time.Time{})
}

// executable returns the path of this program, even if the file was replaced since.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		const self = "/proc/self/exe"
		if _, err := os.Readlink(self); err != nil {
			return "", fmt.Errorf("run finds processes in /proc, which is not mounted here: %w", err)
		}
		return self, nil
	}
	return os.Executable()
}

// send sends a message to the guard. If that is gone, exited says so. If it is stopped,
// the pipe fills up, and messages are dropped: nothing may keep run from ending the
// program in its place. A message is short enough that the system takes all of it or none.
func (p *program) send(message any) {
	text, err := json.Marshal(message)
	if err != nil {
		panic("holdfast: " + err.Error()) // it has numbers only
	}
	conn, err := p.orders.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = conn.Write(func(fd uintptr) bool {
		_, _ = syscall.Write(int(fd), text)
		return true // do not wait for room
	})
}

// signal passes a signal on to the program.
func (p *program) signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok && n != syscall.SIGPIPE {
		p.send(order{Signal: int(n)})
	}
}

// kill kills the guard and the program with all its descendants, where the system tells
// which processes those are.
func (p *program) kill() { signalDescendants(syscall.SIGKILL) }

// wait waits for the end of the guard and returns its exit code, which is the
// program's, and says so if the guard was killed. If this is process 1 of a container, every orphan there becomes its child,
// and is waited for as well.
func (p *program) wait() ending {
	killed := false // the guard was, so that what it leaves must be
	e := ending{code: signalCode(syscall.SIGKILL)}
	options := 0 // block until a child has ended
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // no child is left
			return e
		case pid == 0: // all that have ended are reaped, and others live
			p.kill()
			options = 0
			continue
		case pid == p.guard && status.Exited():
			return ending{code: status.ExitStatus()}
		case pid == p.guard:
			killed = true
			e.why = fmt.Sprintf("the guard, process %d, which watches over the program, was ended by a signal (%v), so the program is killed", pid, status.Signal())
		}
		if killed {
			// Each look reads what the system tells of all processes. So first reap all
			// children that have ended: a program that forks fast would leave more of them
			// than one look for each could keep up with.
			options = syscall.WNOHANG
		}
	}
}
