// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/takeover"
)

// socketPair returns the two ends of a connection between a process and a helper.
func socketPair(t *testing.T) (process *link, helper *net.UnixConn) {
	t.Helper()
	fds := must1(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))
	conns := make([]*net.UnixConn, 2)
	for i, fd := range [...]int{fds[0], fds[1]} {
		f := os.NewFile(uintptr(fd), "")
		c := must1(net.FileConn(f))
		must(t, f.Close())
		conns[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	return &link{conn: conns[0]}, conns[1]
}

// ended returns what tells of a process that has ended.
func ended(t *testing.T) *self {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	pidfd := must1(unix.PidfdOpen(cmd.Process.Pid, 0))
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	end, keeper, err := os.Pipe()
	must(t, err)
	must(t, keeper.Close())
	s := &self{pidfd: os.NewFile(uintptr(pidfd), ""), end: end, keeper: keeper}
	t.Cleanup(s.close)
	return s
}

// What a process has sent counts although it ended before the helper read it, or before the process
// read the answer.
func TestF347_ProcessEndsAtOnce(t *testing.T) {
	for _, before := range []string{"the hello is read", "the answer is read"} {
		t.Run(before, func(t *testing.T) {
			process, helper := socketPair(t)
			must(t, process.send(message{Hello: &hello{Version: version, PID: 7, Name: "p"}}, ended(t).fds()...))
			order := takeover.Order{ID: 1, Servers: []string{"zk"}}
			say := func() {
				must(t, process.send(message{Key: 1, Order: &takeover.Order{ID: 2}}))
				must(t, process.send(message{Key: 1, Order: &order}))
				must(t, process.conn.Close())
			}
			if before == "the hello is read" {
				say()
			}
			w, err := admit(helper)
			must(t, err)
			defer w.forget()
			if before == "the answer is read" {
				say()
			}
			w.hear()
			if got := w.orders[1]; len(w.orders) != 1 || got.ID != order.ID {
				t.Errorf("the helper knows %v", w.orders)
			}
			if err := w.awaitEnd(context.Background()); err != nil {
				t.Errorf("the helper takes the process for a living one: %v", err)
			}
		})
	}
}

// A process of another version, or of another kind, is told why it is refused.
func TestF349_HelperRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		first message
		files bool
		want  string
	}{
		"another version": {message{Hello: &hello{Version: version + 1}}, true, "use the same version of Holdfast on both sides"},
		"no hello":        {message{Key: 1, Forget: true}, false, "use the same version of Holdfast on both sides"},
		"no files":        {message{Hello: &hello{Version: version}}, false, "use the same version of Holdfast on both sides"},
	} {
		t.Run(name, func(t *testing.T) {
			process, helper := socketPair(t)
			var fds []int
			if tt.files {
				fds = ended(t).fds()
			}
			must(t, process.send(tt.first, fds...))
			if _, err := admit(helper); err == nil {
				t.Error("admitted")
			}
			if err := process.wait(func() { t.Error("it is ready") }); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the process is told %q, want %q", err, tt.want)
			}
		})
	}
}

// The time for which one message waits for room is none for the next.
func TestSendWithin(t *testing.T) {
	process, _ := socketPair(t)
	must(t, process.sendWithin(time.Millisecond, message{Key: 1, Forget: true}))
	<-time.After(5 * time.Millisecond)
	must(t, process.send(message{Key: 1, Forget: true}))
	for process.send(message{Key: 1, Forget: true}) == nil { // until there is no room
	}
	if err := process.sendWithin(time.Millisecond, message{Key: 1, Forget: true}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without room: %v", err)
	}
}
