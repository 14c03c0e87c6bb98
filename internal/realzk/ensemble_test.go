// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// greets reports whether the server at addr creates a session, for which it needs a
// majority.
func greets(t *testing.T, addr string, within time.Duration) bool {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write(handshake()); err != nil {
		return false
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(conn, make([]byte, 4+36))
	return err == nil
}

// mode returns the role of the server, or "" if it does not serve.
func mode(s *Server) string {
	for line := range strings.Lines(s.FourLetterWord("srvr")) {
		if m, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(m)
		}
	}
	return ""
}

// An isolated server keeps its role for a while, but commits nothing; then it stops
// serving. The others continue without it, and it rejoins them later.
func TestEnsembleIsolation(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3, ConfigLine("syncLimit=4")) // 2 s
	for _, test := range []struct {
		name   string
		victim func() *Server
		mode   string
	}{
		{"a follower", e.Follower, "follower"},
		{"the leader", e.Leader, "leader"},
	} {
		victim := test.victim()
		e.Isolate(victim)
		if got := mode(victim); got != test.mode {
			t.Errorf("%s: just isolated it is %q", test.name, got)
		}
		if greets(t, victim.Addr(), 500*time.Millisecond) {
			t.Errorf("%s: isolated, it makes a session", test.name)
		}
		leader := e.Settled()
		if leader == victim || !greets(t, leader.Addr(), time.Minute) {
			t.Errorf("%s: without it %s leads, and does not serve", test.name, leader.Addr())
		}
		poll := time.NewTicker(10 * time.Millisecond)
		defer poll.Stop()
		for mode(victim) != "" {
			select {
			case <-poll.C:
			case <-t.Context().Done():
				t.Fatalf("%s: it serves without a majority", test.name)
			}
		}
		e.Heal()
		if e.Settled() != leader || mode(victim) != "follower" {
			t.Errorf("%s: back, it is %q", test.name, mode(victim))
		}
		if !greets(t, victim.Addr(), time.Minute) {
			t.Errorf("%s: back, it makes no session", test.name)
		}
	}
}

// The servers of an ensemble can be killed and restarted one by one.
func TestEnsembleRestarts(t *testing.T) {
	t.Parallel()
	e := StartEnsemble(t, 3)
	leader := e.Leader()
	leader.Kill()
	if next := e.Leader(); next == leader || !greets(t, next.Addr(), time.Minute) {
		t.Errorf("after the leader's death %s leads, and does not serve", next.Addr())
	}
	leader.Restart()
	if got := e.Settled(); got == leader {
		t.Error("the restarted server leads without a reason")
	}
	if others := e.Others(leader); len(others) != 2 || len(Addrs(others...)) != 2 || others[0] == leader || others[1] == leader {
		t.Errorf("the others of %s: %v", leader.Addr(), Addrs(others...))
	}
}
