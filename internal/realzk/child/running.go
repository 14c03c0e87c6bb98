// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// A Running is a server process, from its start until it is reaped. Its methods are safe for
// concurrent use.
type Running struct {
	Process *os.Process

	exited chan struct{} // closed when the process has been reaped
	err    error         // why; written before exited is closed, read after

	log  string // where it writes what it says; never changes
	said int64  // how long that was when the process started
}

// Run starts cmd, which writes to the end of the file at log, in the way of [Starter], and reaps
// it. The caller is to call Kill.
func Run(cmd *exec.Cmd, log string) (*Running, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	defer file.Close() // the process has a copy of the descriptor
	said, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	cmd.Stdout, cmd.Stderr = file, file
	starter := NewStarter()
	if err := starter.Start(cmd); err != nil {
		starter.Close()
		return nil, err
	}
	r := &Running{Process: cmd.Process, exited: make(chan struct{}), log: log, said: said}
	go func() { // Kill joins it
		defer close(r.exited)
		err := cmd.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		r.err = fmt.Errorf("it exited: %w", err)
		starter.Close()
	}()
	return r, nil
}

// Exited is closed when the process has ended and has been reaped.
func (r *Running) Exited() <-chan struct{} { return r.exited }

// Err waits until the process has ended, and returns how: never nil.
func (r *Running) Err() error {
	<-r.exited
	return r.err
}

// Kill kills the process by SIGKILL, even if it is paused, and waits for its end. It does nothing
// if the process has ended, or if r is nil.
func (r *Running) Kill() error {
	if r == nil {
		return nil
	}
	if err := r.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.exited
	return nil
}

// Said returns the last n lines of what the process has written, or why they cannot be read.
func (r *Running) Said(n int) string { return LogSince(r.log, r.said, n) }

// LogSince returns the last n lines of the file at path after offset, or why they cannot be read.
func LogSince(path string, offset int64, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	data = data[min(offset, int64(len(data))):]
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
