// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/oneline"
)

// A self is how other processes can know for certain that this one has ended.
type self struct {
	pidfd *os.File
	// The helper has a copy of end, which reads EOF when this process and all kept children have
	// ended: they have keeper.
	end, keeper *os.File
}

func newSelf() (*self, error) {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("this system has no pidfds, which Linux has since 5.3: %w", errors.ErrUnsupported)
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("this process may not call pidfd_open: allow it in the seccomp profile: %w", errors.ErrUnsupported)
	default:
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	end, keeper, err := os.Pipe()
	if err != nil {
		return nil, oneline.Join(err, unix.Close(pidfd))
	}
	return &self{os.NewFile(uintptr(pidfd), "pidfd"), end, keeper}, nil
}

// fds returns what goes with a hello.
func (s *self) fds() []int { return []int{int(s.pidfd.Fd()), int(s.end.Fd())} }

// keep gives the command a keeper of its own: a program may close cmd.ExtraFiles once it has started.
func (s *self) keep(cmd *exec.Cmd) error {
	fd, err := unix.FcntlInt(s.keeper.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "keeper")) // closed with cmd, at the latest
	return nil
}

func (s *self) close() {
	for _, f := range []*os.File{s.pidfd, s.end, s.keeper} {
		_ = f.Close()
	}
}

// A link is a connection to a helper. It keeps the bounds of messages. What is sent stays in the
// kernel until the helper reads it, whatever becomes of this process.
type link struct {
	conn *net.UnixConn
	cmd  *exec.Cmd // the helper; nil for an agent

	failing sync.Once
	failed  error // why fail closed conn
}

// maxMessage is how long a message can be.
const maxMessage = 64 << 10

// newLink connects to the agent, or starts a helper if there is none.
func newLink(agent string) (*link, error) {
	if agent != "" {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: agent, Net: "unixpacket"})
		if err != nil {
			return nil, fmt.Errorf("no agent: start holdfast agent --socket %s: %w", agent, err)
		}
		return &link{conn: conn}, nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "helper"), os.NewFile(uintptr(fds[1]), "helper")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn.(*net.UnixConn), cmd: exec.Command(program())}
	// Not the program's name: pkill -f of the program would end the helper as well.
	l.cmd.Args = []string{HelperName, strconv.Itoa(os.Getpid())}
	l.cmd.Env = append(os.Environ(), marker+"=1")
	l.cmd.Stderr = os.Stderr
	l.cmd.ExtraFiles = []*os.File{theirs}
	// Signals to this process's group, or from its terminal, are not for the helper.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := l.cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return l, nil
}

// program is the path of this program, even if it was replaced or removed since.
func program() string {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running
	}
	path, _ := os.Executable() // it fails where /proc is missing
	return path
}

// programName is the program's name for people.
func programName() string {
	path, _ := os.Executable()
	return filepath.Base(path)
}

// send sends a message, and files with it. It does not wait: a helper that reads nothing is of no
// use.
func (l *link) send(m message, fds ...int) error { return l.sendOr(m, fds, false) }

// sendWithin is like send, but waits for so long while the system has no room for a message.
func (l *link) sendWithin(d time.Duration, m message) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(d))
	defer func() { _ = l.conn.SetWriteDeadline(time.Time{}) }() // else it would end each send after it
	return l.sendOr(m, nil, true)
}

func (l *link) sendOr(m message, fds []int, wait bool) error {
	text, err := json.Marshal(m)
	switch {
	case err != nil:
		return err
	case len(text) > maxMessage:
		return fmt.Errorf("the servers and credentials are too long for a message to the helper: %d bytes, of %d", len(text), maxMessage)
	}
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return !wait || sent != unix.EAGAIN
	})
	switch {
	case err != nil:
		return fmt.Errorf("tell the helper: %w", err)
	case sent == unix.EAGAIN:
		return errors.New("it reads nothing of what it is told")
	case sent != nil:
		return fmt.Errorf("tell the helper: %w", sent)
	}
	return nil
}

// wait returns when the helper has ended, with a reason. It calls ready when the helper says
// that it is there.
func (l *link) wait(began func()) error {
	_ = l.conn.SetReadDeadline(time.Now().Add(readyTime))
	said := make([]byte, 1<<10)
	n, err := l.conn.Read(said)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		why := "does main begin with sentinel.Main()?"
		if l.cmd == nil {
			why = "is the agent stopped?"
		}
		return fmt.Errorf("it said nothing for %v: %s", readyTime, why)
	case err == nil && string(said[:n]) != ready:
		return fmt.Errorf("it refuses: %s", said[:n])
	case err == nil:
		began()
		_ = l.conn.SetReadDeadline(time.Time{})
		if n, err = l.conn.Read(said); err == nil { // it says nothing more, unless it gives up
			return fmt.Errorf("it gives up: %s", said[:n])
		}
	}
	if l.failing.Do(func() {}); l.failed != nil {
		return l.failed
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it has ended")
	}
	return err
}

// fail makes wait return err.
func (l *link) fail(err error) {
	l.failing.Do(func() { l.failed = err })
	_ = l.conn.Close()
}

// end ends the helper, and joins it.
func (l *link) end() {
	_ = l.conn.Close()
	if l.cmd != nil {
		_ = l.cmd.Process.Kill()
		_ = l.cmd.Wait()
	}
}

// leave leaves the helper alone, which closes sessions when this process has ended.
func (l *link) leave() {
	_ = l.conn.Close()
	if l.cmd != nil {
		_ = l.cmd.Process.Release()
	}
}
