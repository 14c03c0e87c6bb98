// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"errors"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestRestart: a server that was down continues where it was, and its clients
// resume their sessions.
func TestRestart(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 20*time.Second, dial)
		id := c.SessionID()
		for _, node := range []struct {
			path  string
			flags int32
		}{{"/d", 0}, {"/d/n-", zk.FlagSequence}, {"/d/n-", zk.FlagSequence | zk.FlagEphemeral}} {
			if _, err := c.Create(node.path, []byte("data"), node.flags, open); err != nil {
				t.Fatal(err)
			}
		}
		_, _, changed, err := c.ExistsW("/d/n-0000000001")
		if err != nil {
			t.Fatal(err)
		}
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

		srv.Stop()
		c.await(t, zk.StateDisconnected)
		if n := srv.AllWatches(); n != (zktest.WatchCount{}) {
			t.Errorf("watches without a connection: %+v", n)
		}
		if s := srv.Sessions(); len(s) != 1 || s[0].Connected || !s[0].Expires.IsZero() {
			t.Errorf("sessions while it is down: %+v", s)
		}
		if nc, err := dial(context.Background(), "tcp", "zktest:2181"); err == nil {
			// Over TCP the kernel accepts before the server can refuse, so
			// the first read may be what fails.
			if _, err := nc.Read(make([]byte, 1)); err == nil {
				t.Error("the server answers while it is down")
			}
			nc.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("dial: %v, want that it is refused or reset", err)
		}
		watched := make(chan struct{})
		srv.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if op == zktest.OpSetWatches {
				close(watched)
			}
		})
		srv.Start()
		c.await(t, zk.StateHasSession)
		<-watched // before that the client must not be asked for anything: see bubbleClient
		srv.OnRequest(nil)

		if c.SessionID() != id {
			t.Error("the session was lost")
		}
		if after := nodes(); !reflect.DeepEqual(after, before) {
			t.Errorf("nodes %+v, want %+v", after, before)
		}
		if zxid := srv.Zxid(); zxid != (last>>32+1)<<32 {
			t.Errorf("zxid %#x after %#x, want a new epoch", zxid, last)
		}
		path, err := c.Create("/d/n-", nil, zk.FlagSequence, open)
		if err != nil || path != "/d/n-0000000002" {
			t.Errorf("the next in sequence is %s, %v", path, err)
		}
		if _, stat, _ := srv.Get(path); stat.Czxid <= last || stat.Czxid != 1<<32+1 {
			t.Errorf("czxid %#x, want the first of its epoch", stat.Czxid)
		}
		if err := c.Delete("/d/n-0000000001", -1); err != nil {
			t.Fatal(err)
		}
		if e := <-changed; e.Type != zk.EventNodeDeleted {
			t.Errorf("the watch was told %v", e)
		}
		srv.Restart()
		c.await(t, zk.StateDisconnected)
		c.await(t, zk.StateHasSession)
		if c.SessionID() != id || srv.Zxid() != 2<<32 {
			t.Errorf("after a second restart: session %x, want %x; zxid %#x", c.SessionID(), id, srv.Zxid())
		}
		if got := srv.Faults().Hits()[zktest.FaultStop]; got != 2 {
			t.Errorf("%d stops were counted, want 2", got)
		}
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
