// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// CanStall tells that this system can stop one thread of a process.
const CanStall = true

// Stall stops those threads of a child process whose names begin with prefix, and no others,
// until resume is called, which the caller must do once. It returns when they have stopped. It
// takes what a debugger does: each is attached to by ptrace, so the child must have none already.
func Stall(pid int, prefix string) (resume func() error, err error) {
	stalled, end, done := make(chan error, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		// Only the thread that has attached to another can detach from it. It is not unlocked:
		// it ends with the goroutine, and whatever it is attached to then goes on.
		runtime.LockOSThread()
		threads, err := attach(pid, prefix)
		stalled <- err
		if err == nil {
			<-end
		}
		done <- detach(threads)
	}()
	resume = func() error {
		close(end)
		return <-done
	}
	if err := <-stalled; err != nil {
		return nil, errors.Join(err, <-done)
	}
	return resume, nil
}

// attach attaches to the threads, and returns those that have stopped, also with an error.
func attach(pid int, prefix string) (threads []int, err error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(comm), prefix) {
			continue // it has ended, or is another
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return threads, err
		}
		if err := syscall.PtraceAttach(id); err != nil {
			return threads, fmt.Errorf("attach to thread %d (%s) of process %d: %w", id, strings.TrimSpace(string(comm)), pid, err)
		}
		threads = append(threads, id)
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(id, &status, syscall.WALL, nil); err != nil {
			return threads, fmt.Errorf("wait for thread %d of process %d: %w", id, pid, err)
		}
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("process %d has no thread whose name begins with %q", pid, prefix)
	}
	return threads, nil
}

// detach has the threads go on. One that has ended meanwhile, with its process, is no error.
func detach(threads []int) (err error) {
	for _, id := range threads {
		if e := syscall.PtraceDetach(id); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("detach from thread %d: %w", id, e))
		}
	}
	return err
}
