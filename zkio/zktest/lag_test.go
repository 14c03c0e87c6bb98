// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// said returns what d and its companions have written down since the last call.
func (d *dialogue) said() string {
	text := d.text.String()
	d.text.Reset()
	return text
}

// wantSaid fails the test unless each line of what was written down since the
// last look contains the wanted text.
func (d *dialogue) wantSaid(what string, want ...string) {
	d.t.Helper()
	got := strings.Split(strings.TrimSuffix(d.said(), "\n"), "\n")
	if len(got) != len(want) {
		d.t.Errorf("%s: %q, want %q", what, got, want)
		return
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			d.t.Errorf("%s: %q, want it to say %q", what, got[i], want[i])
		}
	}
}

// behind runs a test in virtual time with a session that lags and one that does
// not. The first zxid that they see, that of the second session, is "z+0".
func behind(t *testing.T, n int, test func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue)) {
	t.Helper()
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		dial := func() (net.Conn, error) { return srv.Dial(context.Background(), "tcp", "") }
		slow := newDialogue(t, "slow", dial)
		slow.connect(10*time.Second, 0, make([]byte, 16), 0, -1)
		quick := slow.other("quick").start()
		slow.said()
		test(srv, srv.Faults().Lag(n, slow.session), slow, quick)
	})
}

// TestLagReads: a client of a follower that lags sees the past, whole
// transactions at a time, and every kind of answer is as old as the others.
func TestLagReads(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		quick.create("/a", "old", 0) // z+1
		lag.CatchUp()
		quick.set("/a", []byte("newer"), -1)                                // z+2
		quick.multi(mCreate("/a/x", 0), mCreate("/a/y", 0), mSet("/a", -1)) // z+3
		quick.delete("/a/x", -1)                                            // z+4
		quick.setACL("/a", []entry{{1, "world", "anyone"}}, -1)             // z+5
		quick.said()
		look := func() {
			slow.get("/a", false)
			slow.children(jute.OpGetChildren2, "/a", false)
			slow.exists("/a/x", false)
			slow.getACL("/a")
			slow.ping()
		}
		if lag.Pending() != 4 || lag.Hits() != 0 {
			t.Errorf("%d transactions are pending, %d hits; want 4 and none", lag.Pending(), lag.Hits())
		}
		look()
		slow.wantSaid("at the beginning", `z+1 0 "old" {c z+1 m z+1 p z+1 v 0`, `z+1 0 []`, `z+1 -101`, `z+1 0 [{31 world anyone}]`, `ping -> z+1 0`)
		if n := lag.Advance(1); n != 1 {
			t.Errorf("Advance(1) = %d", n)
		}
		look()
		slow.wantSaid("one later", `z+2 0 "newer" {c z+1 m z+2 p z+1 v 1`, `z+2 0 []`, `z+2 -101`, `z+2 0 [{31 world anyone}]`, `ping -> z+2 0`)
		lag.Advance(1)
		look()
		slow.wantSaid("a multi at once", `z+3 0 "set" {c z+1 m z+3 p z+3 v 2 cv 2`, `z+3 0 ["x" "y"]`, `z+3 0 {c z+3`, `z+3 0 [{31 world anyone}]`, `ping -> z+3 0`)
		if n := lag.Advance(-1) + lag.Advance(0); n != 0 || lag.Pending() != 2 {
			t.Errorf("to advance by nothing advances by %d", n)
		}
		if n := lag.Advance(100); n != 2 {
			t.Errorf("Advance(100) = %d", n)
		}
		hits := lag.Hits()
		look()
		slow.wantSaid("at the end", `z+5 0 "set" {c z+1 m z+3 p z+4 v 2 cv 3`, `z+5 0 ["y"]`, `z+5 -101`, `z+5 0 [{1 world anyone}]`, `ping -> z+5 0`)
		if hits != 12 || lag.Hits() != hits || srv.Faults().Hits()[zktest.FaultLag] != hits || lag.Kind() != zktest.FaultLag {
			t.Errorf("%d hits, then %d; want 12, those of pings and of present answers not counted", hits, lag.Hits())
		}
		select {
		case <-lag.Hit():
		default:
			t.Error("the first hit was not reported")
		}
	})
}

// TestLagBound: data that lag by up to n transactions, failed ones and those of
// sessions included.
func TestLagBound(t *testing.T) {
	behind(t, 2, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		quick.create("/a", "1", 0)             // z+1
		quick.set("/a", []byte("2"), -1)       // z+2
		quick.set("/a", []byte("3"), 77)       // z+3, refused
		quick.other("third").start().session++ // z+4
		quick.said()
		slow.get("/a", false)
		slow.wantSaid("two behind", `z+2 0 "2"`)
		if lag.Pending() != 2 {
			t.Errorf("%d transactions are pending, want 2", lag.Pending())
		}
		lag.Remove()
		lag.Remove()
		slow.get("/a", false)
		slow.wantSaid("not behind", `z+4 0 "2"`)
		quick.set("/a", []byte("4"), -1)
		quick.said()
		slow.get("/a", false)
		slow.wantSaid("never again", `z+5 0 "4"`)
	})
}

// TestLagAndOwnWrites: writes and syncs bring the follower up to date, whatever
// becomes of them.
func TestLagAndOwnWrites(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(d *dialogue)
		said string
		zxid string // afterwards
	}{
		{"create", func(d *dialogue) { d.create("/b", "", 0) }, `z+3 0 /b`, "z+3"},
		{"a refused create", func(d *dialogue) { d.create("/a", "", 0) }, `z+3 -110`, "z+3"},
		{"set", func(d *dialogue) { d.set("/a", []byte("mine"), 1) }, `z+3 0 {`, "z+3"},
		{"multi", func(d *dialogue) { d.multi(mCheck("/a", 0), mCheck("/a", 1)) }, ``, "z+3"},
		{"sync", func(d *dialogue) { d.call(jute.OpSync, "sync", jute.AppendString(nil, "/a"), showPath) }, `z+2 0 /a`, "z+2"},
		{"ping", func(d *dialogue) { d.ping() }, `z+0 0`, "z+0"},
		{"auth", func(d *dialogue) { d.auth("digest", "a:b") }, `0 0`, "z+0"},
		{"another's write", func(d *dialogue) { d.other("third").start().create("/b", "", 0) }, ``, "z+0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
				quick.create("/a", "old", 0)       // z+1
				quick.set("/a", []byte("new"), -1) // z+2
				quick.said()
				tc.do(slow)
				if said := slow.said(); !strings.Contains(said, tc.said) {
					t.Errorf("%q, want it to say %q", said, tc.said)
				}
				slow.ping()
				slow.wantSaid("then", "ping -> "+tc.zxid+" 0")
				quick.set("/a", []byte("newer"), -1)
				quick.said()
				slow.ping()
				slow.wantSaid("and it lags again", "ping -> "+tc.zxid+" 0")
			})
		})
	}
}

// TestLagAndWatches: watches fire when the follower comes to the transaction,
// each in its place among the answers; and those that are set again are
// compared with what the follower knows.
func TestLagAndWatches(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		for _, path := range []string{"/a", "/b"} {
			quick.create(path, "", 0)
		}
		lag.CatchUp() // z+2
		slow.get("/a", true)
		slow.exists("/new", true)
		slow.children(jute.OpGetChildren, "/", true)
		quick.get("/a", true)
		if n := srv.AllWatches(); n != (zktest.WatchCount{Data: 3, Child: 1}) || srv.Watches("/a") != (zktest.WatchCount{Data: 2}) {
			t.Errorf("watches: %+v altogether, %+v on /a", n, srv.Watches("/a"))
		}
		slow.said()
		quick.set("/a", nil, -1)    // z+3
		quick.create("/new", "", 0) // z+4
		quick.delete("/b", -1)      // z+5
		quick.set("/a", nil, -1)    // z+6
		quick.wantSaid("who does not lag is told", `event 3 /a`, `set "/a"`, `create`, `delete`, `set "/a"`)
		slow.ping()
		slow.wantSaid("who lags is not", `ping -> z+2`)
		lag.Advance(1)
		slow.ping()
		slow.wantSaid("one later", `event 3 /a`, `ping -> z+3`)
		slow.get("/a", true)
		slow.set("/a", nil, -1)
		slow.wantSaid("with a write", `get and watch "/a" -> z+3`, `event 1 /new`, `event 4 /`, `event 3 /a`, `set "/a" version -1 -> z+7`)

		quick.set("/a", nil, -1) // z+8
		quick.create("/c", "", 0)
		quick.said()
		slow.setWatches(slow.base+7, []string{"/a"}, []string{"/c"}, nil)
		slow.ping()
		slow.wantSaid("set again, nothing has happened yet", `setWatches z+7`, `ping -> z+7`)
		lag.CatchUp()
		slow.ping()
		slow.wantSaid("and now it has", `event 3 /a`, `event 1 /c`, `ping -> z+9`)
		slow.get("/a", true)
		quick.set("/a", nil, -1) // z+10
		slow.said()
		lag.Remove()
		slow.ping()
		slow.wantSaid("at the end of the lag", `event 3 /a`, `ping -> z+10`)
		slow.get("/a", true)
		quick.set("/a", nil, -1)
		slow.said()
		slow.ping()
		slow.wantSaid("after it", `event 3 /a`, `ping -> z+11`)
		if n := srv.AllWatches(); n != (zktest.WatchCount{}) {
			t.Errorf("watches are left: %+v", n)
		}
	})
}

// TestLagTakesWatchesAlong: the watches that a connection has when it begins to
// lag, or stops, go on, and end with the connection.
func TestLagTakesWatchesAlong(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		quick.create("/a", "", 0)
		quick.get("/a", true)
		quick.children(jute.OpGetChildren, "/a", true)
		everybody := srv.Faults().Lag(-1)
		if err := srv.Create("/a/b", nil); err != nil {
			t.Fatal(err)
		}
		quick.said()
		quick.ping()
		quick.wantSaid("while everybody lags", "ping -> z+1")
		everybody.Remove()
		if err := srv.Set("/a", nil); err != nil {
			t.Fatal(err)
		}
		quick.ping()
		quick.wantSaid("afterwards", "event 4 /a", "event 3 /a", "ping -> z+3")
		quick.get("/a", true)
		srv.Faults().Lag(-1)
		quick.nc.Close()
		synctest.Wait()
		if n := srv.AllWatches(); n != (zktest.WatchCount{}) {
			t.Errorf("watches are left: %+v", n)
		}
	})
}

// TestLagAfterLag: the Lag that was made last serves a client. The one before
// has caught up by then, so that the client does not go back.
func TestLagAfterLag(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, first *zktest.Lag, slow, quick *dialogue) {
		quick.create("/a", "", 0)
		second := srv.Faults().Lag(-1, slow.session)
		if first.Pending() != 0 {
			t.Errorf("%d transactions are pending at the first", first.Pending())
		}
		quick.create("/b", "", 0)
		first.CatchUp() // serves nobody any more
		for range 2 {
			quick.said()
			slow.ping()
			slow.wantSaid("at the second", "ping -> z+1")
			slow.reconnect()
			slow.connect(10*time.Second, slow.session, slow.password, 0, 0)
		}
		second.Remove()
		slow.said()
		slow.ping()
		slow.wantSaid("without it", "ping -> z+2")
		slow.reconnect()
		slow.connect(10*time.Second, slow.session, slow.password, 0, 0)
		quick.create("/c", "", 0)
		slow.said()
		slow.ping()
		slow.wantSaid("and the first again", "ping -> z+2")
	})
}

// TestLagRefusesTheFuture: a follower does not take a client that has seen more
// than itself, and takes it when it has caught up.
func TestLagRefusesTheFuture(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		id, password := slow.session, slow.password
		base := srv.Zxid()
		quick.create("/a", "", 0)
		for _, step := range []struct {
			seen int64
			said string
		}{
			{base, "session S1"},
			{base + 1, "connect: connection closed"},
			{base, "session S1"},
		} {
			slow.reconnect()
			slow.said()
			slow.connect(10*time.Second, id, password, step.seen, 0)
			slow.wantSaid("resumed", step.said)
		}
		slow.ping()
		slow.wantSaid("it lags still", "ping -> z+0")
		lag.CatchUp()
		slow.reconnect()
		slow.connect(10*time.Second, id, password, base+1, 0)
		slow.wantSaid("caught up", "session S1")
		quick.create("/b", "", 0)
		slow.said()
		slow.ping()
		slow.wantSaid("and lags again", "ping -> z+1")
	})
}

// TestLagServer: one of several addresses belongs to a follower that lags, and
// what a client has learned elsewhere it does not unlearn there.
func TestLagServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		lag := srv.Faults().LagServer(-1, "zk2:2181")
		to := func(addr string) func() (net.Conn, error) {
			return func() (net.Conn, error) { return srv.Dial(context.Background(), "tcp", addr) }
		}
		quick := newDialogue(t, "quick", to("zk1:2181")).start()
		slow := quick.other("slow")
		slow.dial = to("zk2:2181")
		quick.create("/before", "", 0)
		slow.reconnect()
		slow.start() // which brings the follower to this session
		slow.said()
		slow.exists("/before", false)
		slow.wantSaid("at the session's beginning", "z+2 0 {c z+1")
		base := srv.Zxid()
		quick.create("/a", "", 0)
		slow.said()
		slow.exists("/a", false)
		slow.wantSaid("at the follower", "-101")
		slow.dial = to("zk1:2181")
		slow.reconnect()
		slow.connect(10*time.Second, slow.session, slow.password, base, 0)
		slow.said()
		slow.exists("/a", false)
		slow.wantSaid("at the other server", "0 {c")
		id, password := slow.session, slow.password
		slow.dial = to("zk2:2181")
		slow.reconnect()
		slow.connect(10*time.Second, id, password, base+1, 0)
		slow.wantSaid("back at the follower", "connection closed")
		lag.CatchUp()
		slow.reconnect()
		slow.connect(10*time.Second, id, password, base+1, 0)
		slow.wantSaid("when it has caught up", "session S2")
	})
}

// TestLagAndExpiry: who lags learns late that its session is over, and until
// then may see its own ephemeral nodes, which others know to be gone.
func TestLagAndExpiry(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(lag *zktest.Lag, d *dialogue)
		said string
	}{
		{"told by a write", func(_ *zktest.Lag, d *dialogue) { d.create("/b", "", 0) }, "connection closed"},
		{"told by a sync", func(_ *zktest.Lag, d *dialogue) {
			d.call(jute.OpSync, "sync", jute.AppendString(nil, "/"), nil)
		}, "connection closed"},
		{"told by a close", func(_ *zktest.Lag, d *dialogue) { d.call(jute.OpClose, "close", nil, nil) }, "connection closed"},
		{"told when it has caught up", func(lag *zktest.Lag, d *dialogue) { lag.CatchUp(); d.ping() }, "connection closed"},
		{"told when the lag ends", func(lag *zktest.Lag, d *dialogue) { lag.Remove(); d.ping() }, "connection closed"},
		{"not told by a ping", func(_ *zktest.Lag, d *dialogue) { d.ping() }, "ping -> z+1 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
				slow.create("/e", "", 1)
				quick.get("/e", true)
				if !srv.ExpireSession(slow.session) || srv.ExpireSession(slow.session) {
					t.Error("ExpireSession should report true, then false")
				}
				slow.said()
				quick.ping()
				quick.wantSaid("the other is told", "event 2 /e", "ping -> z+2")
				slow.exists("/e", false)
				slow.wantSaid("it is not", "0 {c z+1")
				if n := len(srv.Sessions()); n != 1 {
					t.Errorf("%d sessions, want 1", n)
				}
				tc.do(lag, slow)
				slow.wantSaid("then", tc.said)
				if srv.Exists("/b") {
					t.Error("a dead session has written")
				}
				o := slow.other("again")
				o.connect(10*time.Second, slow.session, slow.password, 0, 0)
				if o.session != 0 {
					t.Error("the session was resumed")
				}
				time.Sleep(time.Minute)
				if n := len(srv.Expired()); n != 2 {
					t.Errorf("%d sessions have expired, want each once", n)
				}
			})
		})
	}
}

// TestLagAndCut: a connection that lags can be cut off like others, its session
// over or not.
func TestLagAndCut(t *testing.T) {
	behind(t, -1, func(srv *zktest.Server, lag *zktest.Lag, slow, quick *dialogue) {
		srv.ExpireSession(slow.session)
		if !srv.Faults().Cut(slow.session) || srv.Faults().Cut(slow.session) {
			t.Error("Cut should report true, then false")
		}
		slow.ended()
		slow.wantSaid("cut", "connection closed")
		lag.CatchUp()
	})
}

// TestLagWithClient: a client of the real kind on a follower that lags.
func TestLagWithClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		lag := srv.Faults().Lag(-1, c.SessionID())
		if _, _, _, err := c.ExistsW("/a"); err != nil {
			t.Fatal(err)
		}
		_, _, appeared, err := c.ExistsW("/a")
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.Create("/a", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // its pings keep the session alive, and nothing happens
		if ok, _, err := c.Exists("/a"); ok || err != nil {
			t.Errorf("Exists = %v, %v; want that it is not seen yet", ok, err)
		}
		select {
		case e := <-appeared:
			t.Errorf("the watch was told %v", e)
		default:
		}
		if _, err := c.Sync("/a"); err != nil {
			t.Fatal(err)
		}
		if ok, _, err := c.Exists("/a"); !ok || err != nil {
			t.Errorf("Exists after Sync = %v, %v", ok, err)
		}
		synctest.Wait()
		select {
		case e := <-appeared:
			if e.Type != zk.EventNodeCreated {
				t.Errorf("the watch was told %v", e)
			}
		default:
			t.Error("the watch was not told")
		}
		// What it has seen it does not lose by another connection.
		if err := srv.Delete("/a"); err != nil {
			t.Fatal(err)
		}
		srv.Faults().Cut(c.SessionID())
		c.await(t, zk.StateHasSession)
		if ok, _, err := c.Exists("/a"); !ok || err != nil {
			t.Errorf("Exists after the reconnect = %v, %v; want the past", ok, err)
		}
		c.Close()
		if lag.Pending() != 0 {
			t.Errorf("%d transactions are pending after the close, which is a write", lag.Pending())
		}
	})
}
