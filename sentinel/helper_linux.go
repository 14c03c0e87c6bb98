// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/oneline"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
)

// helperMain is the helper of one process, which has left it a connection as its file 3. It returns
// the exit code.
func helperMain(configure func(*zkio.Config) error) int {
	// The end of the process may come with signals for all of its service.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	_ = os.WriteFile("/proc/self/comm", []byte(HelperName), 0) // else it is "exe"
	f := os.NewFile(3, "process")
	conn, err := net.FileConn(f)
	_ = f.Close()
	process, isUnix := conn.(*net.UnixConn)
	if err != nil || !isUnix {
		fmt.Fprintf(os.Stderr, "holdfast: %s is in the environment, but this process is no helper of another: unset it\n", marker)
		return 2
	}
	_ = os.Unsetenv(marker) // what configure starts is no helper
	closeInherited()
	w, err := admit(process)
	if err != nil {
		return 1 // the process logs why
	}
	debug.FreeOSMemory() // of the program's own beginning
	w.hear()
	w.close(context.Background(), configure, os.Stderr)
	return 0
}

// closeInherited closes what the process has inherited itself, and so has passed on, such as the
// sockets of a service manager: others wait until nothing has them open any more. What Go opens is
// closed by exec, so what is not was open before.
func closeInherited() {
	files, _ := os.ReadDir("/proc/self/fd") // without it they stay open, as in any child
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// A ward is a process whose sessions a helper closes when it has ended.
type ward struct {
	hello
	conn     *net.UnixConn
	pidfd    *os.File
	lifeline *os.File
	orders   map[uint64]takeover.Order
	size     map[uint64]int // of the orders, in bytes …
	total    int            // … and of all together
}

// errReplaced is the cause of the end of a ward whose process has connected once more.
var errReplaced = errors.New("the process has connected once more")

// mostTold bounds what a process can have a helper remember: some 1,500 sessions.
const mostTold = 1 << 20

// admit reads what a process says first, and answers. If it returns an error, it has closed conn.
func admit(conn *net.UnixConn) (*ward, error) {
	refuse := func(err error) (*ward, error) {
		_, _ = conn.Write([]byte(err.Error()))
		return nil, oneline.Join(err, conn.Close())
	}
	w := &ward{conn: conn, orders: make(map[uint64]takeover.Order), size: make(map[uint64]int)}
	m, _, files, err := w.read()
	if err != nil {
		return refuse(err)
	}
	if m.Hello == nil || m.Hello.Version != version || len(files) != 2 {
		closeAll(files)
		return refuse(fmt.Errorf("this helper understands version %d of the messages: use the same version of Holdfast on both sides", version))
	}
	w.hello, w.pidfd, w.lifeline = *m.Hello, files[0], files[1]
	_, _ = conn.Write([]byte(ready)) // if the process has ended already, what it has sent is still to be read
	return w, nil
}

// read reads a message. Its files are the caller's, if there is no error.
func (w *ward) read() (m message, size int, files []*os.File, err error) {
	text, control := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(4*4))
	n, controls, flags, _, err := w.conn.ReadMsgUnix(text, control)
	for errors.Is(err, syscall.ECONNRESET) {
		// It is reported once, before what is still to be read, if the process has ended without
		// reading the answer.
		n, controls, flags, _, err = w.conn.ReadMsgUnix(text, control)
	}
	if err != nil {
		return m, 0, nil, err
	}
	files, err = filesIn(control[:controls])
	switch {
	case err != nil:
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("a message of more than %d bytes", maxMessage)
	case flags&unix.MSG_CTRUNC != 0:
		err = errors.New("it has no room for more open files: raise its limit (ulimit -n)")
	default:
		err = json.Unmarshal(text[:n], &m)
	}
	if err != nil {
		closeAll(files)
		files = nil
	}
	return m, n, files, err
}

// filesIn returns the files that come with a message.
func filesIn(control []byte) (files []*os.File, err error) {
	parts, err := unix.ParseSocketControlMessage(control)
	for _, p := range parts {
		fds, err := unix.ParseUnixRights(&p)
		if err != nil {
			continue // something else
		}
		for _, fd := range fds {
			_ = unix.SetNonblock(fd, true) // so that the file's reads can be cancelled
			files = append(files, os.NewFile(uintptr(fd), "of the process"))
		}
	}
	return files, err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// hear notes which sessions the process has, until the process has ended or has closed the
// connection.
func (w *ward) hear() {
	defer w.conn.Close()
	for {
		m, size, files, err := w.read()
		closeAll(files) // none belong to it
		switch {
		case err != nil:
			return
		case m.Order != nil:
			if w.total += size - w.size[m.Key]; w.total > mostTold {
				_, _ = fmt.Fprintf(w.conn, "a process may have at most %d bytes of sessions", mostTold)
				clear(w.orders)
				return
			}
			w.orders[m.Key], w.size[m.Key] = *m.Order, size
		case m.Forget:
			w.total -= w.size[m.Key]
			delete(w.orders, m.Key)
			delete(w.size, m.Key)
		}
	}
}

// close closes the sessions of the process when it is gone, and says so. It returns early if ctx
// ends.
func (w *ward) close(ctx context.Context, configure func(*zkio.Config) error, log io.Writer) {
	defer w.forget()
	if len(w.orders) == 0 {
		return
	}
	say := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		_, _ = fmt.Fprintf(log, "%s holdfast: %q (pid %d) %s\n", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), w.Name, w.PID, line)
	}
	if err := w.awaitEnd(ctx); err != nil {
		if ctx.Err() == nil {
			say("cannot be watched, so its sessions are not closed when it ends: %v", err)
		}
		return
	}
	began := time.Now()
	delay := time.NewTimer(w.Delay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-ctx.Done():
		return
	}
	var closing sync.WaitGroup
	var notes []func() // left when all sessions are closed
	var mu sync.Mutex  // protects notes
	for _, o := range w.orders {
		closing.Go(func() {
			nodes, err := o.Close(ctx, configure)
			after := time.Since(began)
			switch {
			case err != nil && errors.Is(context.Cause(ctx), errReplaced): // the next one closes it
				return
			case err != nil:
				say("has ended: its session could not be closed, so ZooKeeper frees its locks %v from now at the latest: %v", o.Timeout, err)
				return
			}
			say("has ended: its session %#x is closed after %v, and its locks are free", o.ID, after.Round(time.Millisecond))
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, func() {
				if err := o.Leave(ctx, configure, began, after, nodes); err != nil {
					say("has ended: its note in ZooKeeper, which tells the next holders: %v", err)
				}
			})
		})
	}
	closing.Wait()
	for _, leave := range notes {
		leave()
	}
}

// awaitEnd waits until the process and all children that it keeps have ended. It returns an error if
// ctx ends before. The end of the connection does not show that: the process may have closed it.
func (w *ward) awaitEnd(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.forget)
	defer stop()
	// The file is readable when all threads of the process have ended.
	if err := awaitEvent(w.pidfd, unix.POLLIN); err != nil {
		return err
	}
	// The process and its children have the other end of this one.
	if err := awaitEvent(w.lifeline, unix.POLLHUP); err != nil {
		return err
	}
	return ctx.Err()
}

// awaitEvent waits until the system reports the event for a file, or until the file is closed. It
// does not read: the process has the file, too, and may let reads of it block.
func awaitEvent(f *os.File, event int16) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var polling error
	err = raw.Read(func(fd uintptr) bool {
		polled := []unix.PollFd{{Fd: int32(fd), Events: event}}
		_, polling = unix.Poll(polled, 0)
		for polling == unix.EINTR {
			_, polling = unix.Poll(polled, 0)
		}
		return polling != nil || polled[0].Revents&event != 0
	})
	if err != nil {
		return err
	}
	return polling
}

// forget closes what the ward has of the process.
func (w *ward) forget() {
	_ = w.pidfd.Close()
	_ = w.lifeline.Close()
}
