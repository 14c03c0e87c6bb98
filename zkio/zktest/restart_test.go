// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestRestart: a server that was down continues where it was, in a new epoch, and
// its clients resume their sessions.
func TestRestart(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		r := newRecord(t, func(string) (net.Conn, error) { return dial(t.Context(), "tcp", "zktest:2181") }).control(srv)
		r.expect(`
A: connect timeout=20s -> S1 for 20000 ms
A: create "/d" data="data" -> z+1 0 /d
A: create "/d/n-" flags=2 -> z+2 0 /d/n-0000000000
A: create "/d/n-" flags=3 -> z+3 0 /d/n-0000000001
A: code exists "/d/n-0000000001" watch -> 0
server: Stop
A: ended -> connection closed
server: Watches -> {Data:0 Child:0}
`)
		type node struct {
			data string
			stat zktest.Stat
		}
		nodes := func() map[string]node {
			all := make(map[string]node)
			for _, path := range srv.Nodes() {
				data, stat, _ := srv.Get(path)
				all[path] = node{string(data), stat}
			}
			return all
		}
		before, last := nodes(), srv.Zxid()
		if s := srv.Sessions(); len(s) != 1 || s[0].Connected || !s[0].Expires.IsZero() {
			t.Errorf("sessions while it is down: %+v", s)
		}
		// Over TCP the kernel accepts a connection before the server can refuse it.
		if got := r.peer("B").do("connect"); got != "connection refused" && got != "connection closed" {
			t.Errorf("while it is down: %s", got)
		}
		srv.Start()
		if after := nodes(); !reflect.DeepEqual(after, before) {
			t.Errorf("nodes %+v, want %+v", after, before)
		}
		if zxid := srv.Zxid(); zxid != (last>>32+1)<<32 {
			t.Errorf("zxid %#x after %#x, want a new epoch", zxid, last)
		}
		r.expect(`
A: connect timeout=20s session=S1 seen=last -> S1 for 20000 ms
A: setWatches last data="/d/n-0000000001" -> z+4294967295 0
A: create "/d/n-" flags=2 -> z+4294967296 0 /d/n-0000000002
A: event 2 /d/n-0000000001
A: delete "/d/n-0000000001" -> z+4294967297 0
server: Restart
A: ended -> connection closed
A: connect timeout=20s session=S1 -> S1 for 20000 ms
A: ping -> z+8589934591 0
server: Hits stop -> 2
`)
	})
}

// TestRestartBetween: a request that has arrived but has not been executed when the
// server stops is not executed later.
func TestRestartBetween(t *testing.T) {
	for name, op := range map[string]zktest.Op{"a handshake": zktest.OpConnect, "a request": zktest.OpCreate} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				stopped := false
				srv.OnRequest(func(_ int64, got zktest.Op, _ string) {
					if got == op && !stopped {
						stopped = true
						srv.Restart()
					}
				})
				d := newRecord(t, dialing(srv)).peer("A")
				d.do("connect")
				d.do(`create "/a"`)
				if srv.Exists("/a") || !stopped {
					t.Errorf("the node is there: %v; stopped: %v", srv.Exists("/a"), stopped)
				}
				if n := len(srv.Sessions()); n != map[zktest.Op]int{zktest.OpConnect: 0, zktest.OpCreate: 1}[op] {
					t.Errorf("%d sessions", n)
				}
			})
		})
	}
}

// TestRestartWhenClosed: a server that is closed stays closed.
func TestRestartWhenClosed(t *testing.T) {
	srv := newServer(t, zktest.Config{})
	srv.Stop()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	srv.Start()
	srv.Restart()
	if srv.Zxid() != 0 {
		t.Errorf("zxid %#x, want that nothing has happened", srv.Zxid())
	}
	if _, err := srv.Dial(context.Background(), "tcp", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want that it is refused", err)
	}
}
