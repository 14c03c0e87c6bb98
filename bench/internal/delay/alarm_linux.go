// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm waits for points in time, exactly to some ten microseconds. Go's timers are
// not exact enough: while a program is idle, they fire at whole milliseconds from the
// moment when it last did anything, since epoll_wait counts in these. So an alarm is a
// timer of the kernel's. It is for one goroutine.
type alarm struct {
	file *os.File // which the runtime polls
	conn syscall.RawConn
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{file: os.NewFile(uintptr(fd), "timer")}
	if a.conn, err = a.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	return a, nil
}

// close ends an until, and makes further ones return at once. Unlike until, it may be
// called by another goroutine.
func (a *alarm) close() { _ = a.file.Close() }

// until waits until t.
func (a *alarm) until(t time.Time) {
	left := time.Until(t)
	if left <= 0 {
		return
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}
	var err error
	closed := a.conn.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &at, nil) })
	if closed != nil || err != nil {
		return
	}
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:]) // it fails if closed
}
