// SPDX-License-Identifier: Apache-2.0

package sentinel

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/takeover"
	"github.com/holdfast-go/holdfast/zkio"
)

// startAgent starts an agent in this process, and returns what it has said and how to end it.
func startAgent(t *testing.T, socket string) (said func() string, end func()) {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	log := new(wardProcess)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := Serve(ctx, l, func(*zkio.Config) error { return nil }, log); err != nil {
			t.Error(err)
		}
	})
	end = func() { cancel(); serving.Wait() }
	t.Cleanup(end)
	return log.said, end
}

// One agent is the helper of several processes: it closes the session of the one that has ended.
func TestF351_AgentOfSeveral(t *testing.T) {
	server, addr := serve(t)
	other, otherAddr := serve(t)
	socket := filepath.Join(t.TempDir(), "agent")
	said, _ := startAgent(t, socket)
	lives, dies := startWard(t, server, addr, envAgent+"="+socket), startWard(t, other, otherAddr, envAgent+"="+socket)
	n := closes(server, lives.session, always)
	dies.kill()
	eventually(t, func() bool { return strings.Contains(said(), "is closed after") })
	if other.Exists("/n") {
		t.Error("the session of the process that has ended is not closed")
	}
	chances(t, addr)
	if n() > 0 || !server.Exists("/n") {
		t.Error("the session of the process that lives is closed")
	}
}

// An agent that ends closes nothing. The next one is told of the session.
func TestF351_AgentEnds(t *testing.T) {
	server, addr := serve(t)
	socket := filepath.Join(t.TempDir(), "agent")
	_, end := startAgent(t, socket)
	w := startWard(t, server, addr, envAgent+"="+socket)
	n := closes(server, w.session, always)
	end()
	eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel does not run") })
	if n() > 0 {
		t.Error("the agent has closed the session of a process that lives")
	}
	said, _ := startAgent(t, socket)
	eventually(t, func() bool { return strings.Contains(w.said(), "the sentinel runs again") })
	w.kill()
	eventually(t, func() bool { return strings.Contains(said(), "is closed after") })
}

// A stranger at the socket disturbs no process.
func TestF351_AgentIsDisturbed(t *testing.T) {
	server, addr := serve(t)
	socket := filepath.Join(t.TempDir(), "agent")
	said, _ := startAgent(t, socket)
	for _, say := range []string{"", "nonsense", `{"Hello":{"Version":1}}`} {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
		must(t, err)
		defer conn.Close()
		if say != "" {
			_, err = conn.Write([]byte(say))
			must(t, err)
			answer := make([]byte, 1000)
			if n, err := conn.Read(answer); err != nil || string(answer[:n]) == ready {
				t.Errorf("the answer to %q is %q, %v", say, answer[:n], err)
			}
		}
	}
	w := startWard(t, server, addr, envAgent+"="+socket)
	w.kill()
	eventually(t, func() bool { return strings.Contains(said(), "is closed after") })
}

// The process is process 1 of a PID namespace, as in a container: all others there end with it, so
// only an agent outside can close its session.
func TestF351_Container(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not tested: only root can make a PID namespace")
		return
	}
	server, addr := serve(t)
	socket := filepath.Join(t.TempDir(), "agent")
	said, _ := startAgent(t, socket)
	w := startWardIn(t, syscall.CLONE_NEWPID, server, addr, envAgent+"="+socket)
	w.kill()
	eventually(t, func() bool { return strings.Contains(said(), "(pid 1) has ended: its session ") })
	if server.Exists("/n") {
		t.Error("the session is not closed")
	}
}

// An agent ends although a process, which has ended, has left a child that it keeps; and although
// a client lets reads of the file block that tells of that.
func TestF351_AgentEndsWhileItWaits(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent")
	_, end := startAgent(t, socket)
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	must(t, err)
	process, gone := &link{conn: conn}, ended(t)
	lifeline, keeper, err := os.Pipe()
	must(t, err)
	defer keeper.Close()
	defer lifeline.Close()
	must(t, process.send(message{Hello: &hello{Version: version, ID: "x"}}, int(gone.pidfd.Fd()), int(lifeline.Fd())))
	must(t, process.send(message{Key: 1, Order: &takeover.Order{ID: 1, Timeout: 1, Servers: []string{"127.0.0.1:1"}}}))
	answer := make([]byte, 100)
	if n := must1(conn.Read(answer)); string(answer[:n]) != ready {
		t.Fatalf("the agent says %q", answer[:n])
	}
	must(t, syscall.SetNonblock(int(lifeline.Fd()), false))
	must(t, conn.Close())
	end() // the test ends only if this does
}

// A process that connects once more has one helper, not two: what it told before is old.
func TestF351_ProcessConnectsAgain(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent")
	said, _ := startAgent(t, socket)
	gone := ended(t)
	lifeline, keeper, err := os.Pipe() // the agent waits until keeper is closed
	must(t, err)
	defer lifeline.Close()
	var last *net.UnixConn
	for i := range 20 {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
		must(t, err)
		defer conn.Close()
		process := &link{conn: conn}
		must(t, process.send(message{Hello: &hello{Version: version, ID: "x", Link: uint64(i + 1)}}, int(gone.pidfd.Fd()), int(lifeline.Fd())))
		must(t, process.send(message{Key: 1, Order: &takeover.Order{ID: int64(i + 1), Timeout: 10 * time.Millisecond, Servers: []string{"127.0.0.1:1"}}}))
		must1(conn.Read(make([]byte, 100)))
		if last != nil { // the agent closes it
			if n, err := last.Read(make([]byte, 100)); err == nil {
				t.Errorf("the agent says %d bytes on the connection before", n)
			}
		}
		last = conn
	}
	must(t, last.Close())
	must(t, keeper.Close())
	eventually(t, func() bool { return strings.Contains(said(), "close session 0x14:") })
	if n := strings.Count(said(), "close session"); n != 1 {
		t.Errorf("%d sessions, want the last one:\n%s", n, said())
	}
}
