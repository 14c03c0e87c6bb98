// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realzk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// canPause tells that this system has SIGSTOP and SIGCONT.
const canPause = true

func (j *jvm) pause() error {
	if err := j.proc.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal stops one thread after the other. Until the last has stopped, the
	// server may still answer.
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	for !j.stopped() {
		select {
		case <-j.exited:
			return os.ErrProcessDone
		case <-patience.C:
			return errors.New("its threads did not stop within 10 s")
		case <-poll.C:
		}
	}
	return nil
}

func (j *jvm) resume() error { return j.proc.Signal(syscall.SIGCONT) }

// stopped reports whether all threads have stopped. Without Linux's /proc it returns
// true.
func (j *jvm) stopped() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", j.pid))
	if err != nil {
		return true
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		// pid (command) state …; the command may contain anything.
		stat := string(data)
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(fields) > 0 && fields[0] != "T" && fields[0] != "t" {
			return false
		}
	}
	return true
}
