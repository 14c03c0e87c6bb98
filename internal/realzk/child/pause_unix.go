// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// CanPause tells that this system has SIGSTOP and SIGCONT.
const CanPause = true

// Pause stops a process by SIGSTOP. On Linux it returns when all of its threads have
// stopped, elsewhere when the signal has been sent. The error wraps [os.ErrProcessDone] if
// the process has ended.
func Pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal stops one thread after the other. Until the last has stopped, the process
	// may still answer.
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	for {
		switch stopped, ended := state(p.Pid); {
		case ended:
			return os.ErrProcessDone
		case stopped:
			return nil
		}
		select {
		case <-patience.C:
			return errors.New("its threads did not stop within 10 s")
		case <-poll.C:
		}
	}
}

// Resume resumes a paused process. It does nothing if the process is not paused.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// state reports whether all threads of a process have stopped, and whether it has ended.
// Without Linux's /proc it has stopped.
func state(pid int) (stopped, ended bool) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		_, err := os.Stat("/proc/self/stat")
		return err != nil, err == nil
	}
	stopped = true
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		// pid (command) state …; the command may contain anything.
		stat := string(data)
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		switch {
		case len(fields) == 0, fields[0] == "T", fields[0] == "t":
		case fields[0] == "Z" || fields[0] == "X":
			ended = ended || len(stats) == 1
		default:
			stopped = false
		}
	}
	return stopped, ended
}
