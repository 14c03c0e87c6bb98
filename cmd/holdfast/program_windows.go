// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// forwarded are the signals that run passes on to the program, as CTRL_BREAK.
var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

const guardVerb = "__guard"

// guardMain is not used: a job object takes the guard's place.
func guardMain([]string) int { return exitUsage }

// A program is the program that run runs. It is in a job object, which Windows ends with
// all its processes when this process ends, however that ends.
type program struct {
	process *os.Process
	job     windows.Handle
	exited  chan ending // gets the exit code
}

func startProgram(s start) (*program, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	cmd := exec.Command(s.Path, s.Args[1:]...)
	cmd.Args = s.Args
	cmd.Env = s.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, windows.CloseHandle(job))
	}
	p := &program{process: cmd.Process, job: job, exited: make(chan ending, 1)}
	if err := p.enter(); err != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		return nil, errors.Join(fmt.Errorf("cannot put it into a job object: %w", err), windows.CloseHandle(job))
	}
	go func() { // which run waits for
		_ = cmd.Wait() // ProcessState says it as well
		p.kill()       // what it has left running
		p.exited <- ending{code: cmd.ProcessState.ExitCode()}
	}()
	return p, nil
}

// enter puts the program into the job.
func (p *program) enter() error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(p.process.Pid))
	if err != nil {
		return err
	}
	return errors.Join(windows.AssignProcessToJobObject(p.job, h), windows.CloseHandle(h))
}

// send does nothing but end the program when the lock is lost.
func (p *program) send(message any) {
	if o, ok := message.(order); ok && o.Lost {
		p.signal(syscall.SIGTERM)
	}
}

// signal sends CTRL_BREAK, the only event that reaches the program and not this process.
func (p *program) signal(os.Signal) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.process.Pid)) // fails without a console
}

// kill ends the program and its descendants.
func (p *program) kill() { _ = windows.TerminateJobObject(p.job, exitLost) }
