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
