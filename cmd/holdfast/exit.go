// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/manager"
)

// The exit codes, which docs/command.md describes. The code of "run" is that of the
// program that it ran, unless one of these says why there is none.
const (
	exitOK           = 0
	exitFailure      = 1   // what was asked for failed
	exitUsage        = 2   // the command line or the environment is wrong
	exitNoConnection = 3   // no server could be reached
	exitNotGranted   = 4   // the lock is held by another process
	exitLost         = 5   // the lock was lost while the program ran, or may have been
	exitFindings     = 6   // doctor found something to change
	exitMissing      = 7   // ZooKeeper has nothing of this name
	exitCannotRun    = 126 // the program cannot be executed
	exitNotFound     = 127 // there is no such program
	exitSignal       = 128 // plus the number of the signal
)

// An exitError ends the command with a code of its own. If err is nil, nothing is
// written.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitf returns an error that ends the command with code.
func exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// usagef returns the error of bad usage.
func usagef(format string, args ...any) error { return exitf(exitUsage, format, args...) }

// exitCode returns the code for err.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, manager.ErrBadName), errors.Is(err, manager.ErrBadConfig):
		return exitUsage
	case errors.Is(err, manager.ErrLocked):
		return exitNotGranted
	case errors.Is(err, manager.ErrLost):
		return exitLost
	}
	return exitFailure
}

// signalCode returns the exit code of a program that the signal has ended.
func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitFailure
}
