// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestMatch: a fault acts on the requests that its Match selects.
func TestMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := rawSession(t, srv, 10*time.Second)
		b := rawSession(t, srv, 10*time.Second)
		requests := []struct{ name, request string }{
			{"a ping", "ping"},
			{"a get /x", `getData "/x"`},
			{"b get /x/y", `getData "/x/y"`},
			{"a create /y", `create "/y"`},
			{"b get /x", `getData "/x"`},
			{"b multi /y /x", `multi check "/y" | check "/x"`},
			{"a sync /", `sync "/"`},
			{"b multiRead /y", `multiRead getData "/y" | getChildren "/x"`},
			{"a whoAmI", "whoAmI"},
		}
		for _, tc := range []struct {
			match zktest.Match
			want  []string
		}{
			{zktest.Match{Times: 1}, []string{"a get /x"}},
			{zktest.Match{Times: 2}, []string{"a get /x", "b get /x/y"}},
			{zktest.Match{Times: zktest.Every}, []string{"a get /x", "b get /x/y", "a create /y", "b get /x", "b multi /y /x", "a sync /", "b multiRead /y", "a whoAmI"}},
			{zktest.Match{Nth: 3}, []string{"a create /y"}},
			{zktest.Match{Nth: 5, Times: 2}, []string{"b multi /y /x", "a sync /"}},
			{zktest.Match{Nth: 99}, nil},
			{zktest.Match{Op: zktest.OpPing, Times: 1}, []string{"a ping"}},
			{zktest.Match{Op: zktest.OpGetData, Times: zktest.Every}, []string{"a get /x", "b get /x/y", "b get /x"}},
			{zktest.Match{Path: "/x", Times: zktest.Every}, []string{"a get /x", "b get /x/y", "b get /x", "b multi /y /x", "b multiRead /y"}},
			{zktest.Match{Path: "/x/", Times: zktest.Every}, []string{"b get /x/y"}},
			{zktest.Match{Session: b.session, Times: zktest.Every}, []string{"b get /x/y", "b get /x", "b multi /y /x", "b multiRead /y"}},
			{zktest.Match{Session: b.session, Path: "/x", Op: zktest.OpGetData, Nth: 2}, []string{"b get /x"}},
			{zktest.Match{Session: 99, Times: zktest.Every}, nil},
		} {
			fault := srv.Faults().SwallowRequest(tc.match)
			var got []string
			for _, r := range requests {
				before := fault.Hits()
				client := map[byte]*peer{'a': a, 'b': b}[r.name[0]]
				client.do("send " + r.request)
				synctest.Wait()
				if fault.Hits() > before {
					got = append(got, r.name)
					client.sent = nil
				} else {
					client.do("answer")
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%+v acted on %v, want %v", tc.match, got, tc.want)
			}
			fault.Remove()
			fault.Remove() // does nothing
		}
	})
}

// A Match that says neither Nth nor Times could mean one request or all of them.
func TestMatchSaysHowMany(t *testing.T) {
	for name, c := range map[string]struct {
		match   zktest.Match
		refused bool
	}{
		"neither":                {zktest.Match{Op: zktest.OpMulti}, true},
		"nothing":                {zktest.Match{}, true},
		"the third":              {zktest.Match{Nth: 3}, false},
		"the next":               {zktest.Match{Times: 1}, false},
		"every":                  {zktest.Match{Times: zktest.Every}, false},
		"every, from the second": {zktest.Match{Nth: 2, Times: zktest.Every}, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := zktest.NewServer(zktest.Config{Logger: quiet})
			defer srv.Close()
			defer func() {
				if refused := recover(); (refused != nil) != c.refused {
					t.Errorf("%+v: panics with %v, want a panic: %t", c.match, refused, c.refused)
				}
			}()
			srv.Faults().DelayReply(c.match, time.Second)
		})
	}
}

func TestRefuse(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 20*time.Second, dial)
		refuse := srv.Faults().Refuse()
		if _, _, err := c.Get("/"); err != nil {
			t.Errorf("a connection that was there before: %v", err)
		}
		nc, err := dial(t.Context(), "tcp", "zktest")
		if err == nil {
			// Over TCP the connection is made and then reset.
			_, err = nc.Read(make([]byte, 1))
			_ = nc.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("dial: %v, want a refused connection", err)
		}
		<-refuse.Hit()
		if refuse.Hits() != 1 || refuse.Kind() != zktest.FaultRefuse {
			t.Errorf("%s: %d hits, want 1", refuse.Kind(), refuse.Hits())
		}
		srv.Faults().CutAll()
		c.await(t, zk.StateDisconnected)
		refuse.Remove()
		c.await(t, zk.StateHasSession)
	})
}

// TestBlackholeDuringHandshake: a connection that is resuming a session when the
// session's blackhole is set up does not escape it.
func TestBlackholeDuringHandshake(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 30*time.Second)
		holes := make(chan *zktest.Fault, 1)
		srv.OnRequest(func(session int64, op zktest.Op, _ string) {
			if op == zktest.OpConnect {
				holes <- srv.Faults().Blackhole(session)
			}
		})
		if got := d.do("connect timeout=30s session=S1"); got != "nothing" {
			t.Errorf("got %q", got)
		}
		srv.OnRequest(nil)
		(<-holes).Remove()
		if _, end := d.readFrame(); end != "" {
			t.Errorf("after the blackhole: %s", end)
		}
	})
}

// TestAbandonedInBlackhole: when a client closes a silent connection, what was in
// flight on it is lost. In particular it cannot take the session away from the
// client's next connection.
func TestAbandonedInBlackhole(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		r := newRecord(t, func(string) (net.Conn, error) { return dial(t.Context(), "tcp", "") })
		d, late := r.peer("A"), r.peer("B")
		d.do("connect")
		mute := srv.Faults().BlackholeNew()
		r.patience = time.Millisecond
		late.do("connect session=S1")
		late.do(`send create "/late"`)
		r.patience = 10 * time.Second
		<-mute.Hit()
		if got := srv.Connections(); got != 2 {
			t.Errorf("%d connections, want the silent one among them", got)
		}
		_ = late.nc.Close()
		for srv.Connections() > 1 { // a blackhole hides everything but this
			time.Sleep(time.Millisecond)
		}
		mute.Remove()
		if got := d.do("ping"); got != "z+0 0" || srv.Exists("/late") {
			t.Errorf("after the abandoned connection: session %+v, late request executed: %v", srv.Sessions(), srv.Exists("/late"))
		}
	})
}

// TestOnRequest: a hook acts exactly between two requests of a client, and a fault
// that it sets acts on the very request that it was called for.
func TestOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 10*time.Second)
		type call struct {
			session int64
			op      zktest.Op
			path    string
		}
		calls := make(chan call, 10)
		srv.OnRequest(func(session int64, op zktest.Op, path string) {
			calls <- call{session, op, path}
			switch path {
			case "/a":
				if err := srv.Delete("/a"); err != nil { // the client has listed it
					t.Error(err)
				}
			case "/b":
				srv.Faults().DropRequest(zktest.Match{Op: op, Path: path, Times: 1})
			}
		})
		d.control(srv).expect(`
server: Create /a
A: getChildren "/" -> z+1 0 ["a" "zookeeper"]
A: getData "/a" -> z+2 -101
A: create "/b" -> connection closed
server: Nodes -> []
A: connect session=S1 -> S1 for 10000 ms
`)
		srv.OnRequest(nil)
		d.do("ping")
		close(calls)
		var got []call
		for c := range calls {
			got = append(got, c)
		}
		id := d.session
		want := []call{{id, zktest.OpGetChildren, "/"}, {id, zktest.OpGetData, "/a"}, {id, zktest.OpCreate, "/b"}, {id, zktest.OpConnect, ""}}
		if !slices.Equal(got, want) {
			t.Errorf("calls %+v, want %+v", got, want)
		}
	})
}

// TestHookBlocks: while a hook blocks one connection, the others work on.
func TestHookBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		slow := rawSession(t, srv, 10*time.Second)
		goOn := make(chan struct{})
		srv.OnRequest(func(session int64, op zktest.Op, _ string) {
			if session == slow.session && op == zktest.OpCreate {
				<-goOn
			}
		})
		slow.do(`send create "/a"`)
		synctest.Wait()
		slow.expect("B: connect -> S2 for 10000 ms\nB: create \"/a\" -> z+2 0 /a\n")
		close(goOn)
		slow.expect("A: answer -> z+3 -110\n")
	})
}
