// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestLostRequestsAndReplies compares what the client sees with what happened.
func TestLostRequestsAndReplies(t *testing.T) {
	create := zktest.Match{Op: zktest.OpCreate, Path: "/a"}
	for _, tc := range []struct {
		name      string
		fault     func(*zktest.Faults) *zktest.Fault
		executed  bool
		reconnect bool // the client loses its connection, else only this answer
	}{
		{"DropReply", func(f *zktest.Faults) *zktest.Fault { return f.DropReply(create) }, true, true},
		{"DropRequest", func(f *zktest.Faults) *zktest.Fault { return f.DropRequest(create) }, false, true},
		{"SwallowReply", func(f *zktest.Faults) *zktest.Fault { return f.SwallowReply(create) }, true, false},
		{"SwallowRequest", func(f *zktest.Faults) *zktest.Fault { return f.SwallowRequest(create) }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
				c := dialClient(t, 10*time.Second, dial)
				id := c.SessionID()
				fault := tc.fault(srv.Faults())
				result := make(chan error, 1)
				go func() {
					_, err := c.Create("/a", nil, zk.FlagEphemeral, open)
					result <- err
				}()
				<-fault.Hit()
				if tc.reconnect {
					if err := <-result; err != zk.ErrConnectionClosed {
						t.Errorf("Create: %v, want a lost connection", err)
					}
					c.await(t, zk.StateHasSession)
				}
				// The session and later requests are not affected.
				if ok, _, err := c.Exists("/a"); ok != tc.executed || err != nil {
					t.Errorf("Exists = %v, %v; want %v", ok, err, tc.executed)
				}
				if c.SessionID() != id {
					t.Error("the session changed")
				}
				if fault.Hits() != 1 || srv.Faults().Hits()[fault.Kind()] != 1 {
					t.Errorf("%s: %d hits, %v altogether", fault.Kind(), fault.Hits(), srv.Faults().Hits())
				}
				if _, err := c.Create("/a/b", nil, 0, open); err == zk.ErrConnectionClosed {
					t.Error("the fault acted twice")
				}
				if !tc.reconnect {
					select {
					case err := <-result:
						t.Errorf("Create was answered: %v", err)
					default:
					}
					c.Close()
					if err := <-result; err != zk.ErrConnectionClosed {
						t.Errorf("Create, at the client's close: %v", err)
					}
				}
			})
		})
	}
}

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
			{zktest.Match{}, []string{"a get /x"}},
			{zktest.Match{Times: 2}, []string{"a get /x", "b get /x/y"}},
			{zktest.Match{Times: -1}, []string{"a get /x", "b get /x/y", "a create /y", "b get /x", "b multi /y /x", "a sync /", "b multiRead /y", "a whoAmI"}},
			{zktest.Match{Nth: 3}, []string{"a create /y"}},
			{zktest.Match{Nth: 5, Times: 2}, []string{"b multi /y /x", "a sync /"}},
			{zktest.Match{Nth: 99}, nil},
			{zktest.Match{Op: zktest.OpPing}, []string{"a ping"}},
			{zktest.Match{Op: zktest.OpGetData, Times: -1}, []string{"a get /x", "b get /x/y", "b get /x"}},
			{zktest.Match{Path: "/x", Times: -1}, []string{"a get /x", "b get /x/y", "b get /x", "b multi /y /x", "b multiRead /y"}},
			{zktest.Match{Path: "/x/", Times: -1}, []string{"b get /x/y"}},
			{zktest.Match{Session: b.session, Times: -1}, []string{"b get /x/y", "b get /x", "b multi /y /x", "b multiRead /y"}},
			{zktest.Match{Session: b.session, Path: "/x", Op: zktest.OpGetData, Nth: 2}, []string{"b get /x"}},
			{zktest.Match{Session: 99, Times: -1}, nil},
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

// TestLostConnect: if the answer to a handshake is lost, the session exists and
// its client does not know.
func TestLostConnect(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		lost := srv.Faults().DropReply(zktest.Match{Op: zktest.OpConnect})
		refused := srv.Faults().DropRequest(zktest.Match{Op: zktest.OpConnect, Nth: 2})
		c := bubbleClient(t, srv, 10*time.Second)
		if lost.Hits() != 1 || refused.Hits() != 1 || len(srv.Sessions()) != 2 {
			t.Errorf("%d and %d hits, sessions %+v; want an orphan and the client's", lost.Hits(), refused.Hits(), srv.Sessions())
		}
		time.Sleep(time.Minute)
		if got := srv.Sessions(); len(got) != 1 || got[0].ID != c.SessionID() {
			t.Errorf("sessions %+v, want the client's only", got)
		}
		mute := srv.Faults().SwallowRequest(zktest.Match{Op: zktest.OpConnect})
		if got := newRecord(t, dialing(srv)).peer("A").do("connect timeout=1s"); got != "nothing" || mute.Hits() != 1 {
			t.Errorf("%s, %d hits", got, mute.Hits())
		}
	})
}

// TestDelayReply: the request takes effect at once and the answer comes later.
// Nothing overtakes it on its connection.
func TestDelayReply(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		other := bubbleClient(t, srv, 10*time.Second)
		srv.Faults().DelayReply(zktest.Match{Op: zktest.OpCreate, Times: 2}, 2*time.Second)
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Create("/a", nil, 0, open); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("Create: %v after %v, want 2s", err, time.Since(start))
			}
		})
		synctest.Wait()
		if !srv.Exists("/a") {
			t.Error("the request was delayed, not only the answer")
		}
		wg.Go(func() {
			if _, _, err := c.Get("/a"); err != nil || time.Since(start) != 2*time.Second {
				t.Errorf("Get on the same connection: %v after %v, want 2s", err, time.Since(start))
			}
		})
		if _, _, err := other.Get("/a"); err != nil || time.Since(start) != 0 {
			t.Errorf("Get on another connection: %v after %v", err, time.Since(start))
		}
		wg.Wait()
		if _, err := c.Create("/b", nil, 0, open); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("second Create: %v after %v, want 4s", err, time.Since(start))
		}
		if _, err := c.Create("/c", nil, 0, open); err != nil || time.Since(start) != 4*time.Second {
			t.Errorf("third Create: %v after %v, want no delay", err, time.Since(start))
		}
	})
}

// TestDelaysInSequence: answers that wait for each other are sent in order, none
// before its time.
func TestDelaysInSequence(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 30*time.Second)
		start := time.Now()
		for _, seconds := range []int{2, 0, 5, 1} {
			if seconds > 0 {
				srv.Faults().DelayReply(zktest.Match{Op: zktest.OpExists}, time.Duration(seconds)*time.Second)
			}
			d.do(`send exists "/"`)
			synctest.Wait()
		}
		for i, want := range []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second} {
			if _, end := d.readFrame(); end != "" || time.Since(start) != want {
				t.Errorf("answer %d after %v, want %v %s", i, time.Since(start), want, end)
			}
		}
	})
}

func TestCut(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		a := dialClient(t, 10*time.Second, dial)
		b := dialClient(t, 10*time.Second, dial)
		if !srv.Faults().Cut(a.SessionID()) {
			t.Error("Cut of a connected session reports that it was not")
		}
		a.await(t, zk.StateDisconnected)
		a.await(t, zk.StateHasSession)
		if srv.Faults().Cut(99) {
			t.Error("Cut of no session reports that there was one")
		}
		if b.State() != zk.StateHasSession {
			t.Error("another session was cut")
		}
		if n := srv.Faults().CutAll(); n != 2 {
			t.Errorf("CutAll = %d, want 2", n)
		}
		for _, c := range []*client{a, b} {
			c.await(t, zk.StateDisconnected)
			c.await(t, zk.StateHasSession)
		}
		if got := srv.Faults().Hits()[zktest.FaultCut]; got != 3 {
			t.Errorf("%d hits, want 3", got)
		}
	})
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
		if refuse.Hits() != 1 {
			t.Errorf("%d hits, want 1", refuse.Hits())
		}
		srv.Faults().CutAll()
		c.await(t, zk.StateDisconnected)
		refuse.Remove()
		c.await(t, zk.StateHasSession)
	})
}

func TestRefuseFor(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		refuse := srv.Faults().RefuseFor(4500 * time.Millisecond)
		for i := range 10 {
			nc, err := srv.Dial(t.Context(), "tcp", "zktest")
			if refused := i < 5; refused != errors.Is(err, syscall.ECONNREFUSED) || refused != (nc == nil) {
				t.Errorf("after %d s: %v", i, err)
			}
			if nc != nil {
				_ = nc.Close()
			}
			time.Sleep(time.Second)
		}
		if refuse.Hits() != 5 {
			t.Errorf("%d hits, want 5", refuse.Hits())
		}
	})
}

// TestBlackhole: the connections of one client stay open in silence and its
// session expires. Another client does not notice.
func TestBlackhole(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		start := time.Now()
		c := bubbleClient(t, srv, 6*time.Second)
		other := bubbleClient(t, srv, 6*time.Second)
		if _, err := c.Create("/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		id := c.SessionID()
		hole := srv.Faults().Blackhole(id)
		c.await(t, zk.StateDisconnected)
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("the client noticed after %v; it waits for 2/3 of 6s", took)
		}
		c.await(t, zk.StateConnecting)
		time.Sleep(time.Until(start.Add(time.Minute)))
		if got := srv.Expired(); len(got) != 1 || got[0].Session != id || got[0].At.Sub(start) != 6500*time.Millisecond {
			t.Errorf("Expired = %+v, want it after 6.5s", got)
		}
		if other.State() != zk.StateHasSession || srv.Exists("/e") {
			t.Errorf("the other client is %v, the ephemeral there: %v", other.State(), srv.Exists("/e"))
		}
		if c.State() == zk.StateHasSession || hole.Hits() < 2 {
			t.Errorf("client %v with %d connections in the hole", c.State(), hole.Hits())
		}
		hole.Remove()
		c.await(t, zk.StateExpired)
		c.await(t, zk.StateHasSession)
		if got := srv.Connections(); got != 2 {
			t.Errorf("%d connections left, want one per client", got)
		}
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

// TestBlackholeConnection: only the current connection falls silent.
func TestBlackholeConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 4*time.Second, dial)
		id := c.SessionID()
		hole := srv.Faults().BlackholeConnection(id)
		c.await(t, zk.StateDisconnected)
		c.await(t, zk.StateHasSession)
		if c.SessionID() != id || hole.Hits() != 1 {
			t.Errorf("session %x instead of %x, %d hits", c.SessionID(), id, hole.Hits())
		}
	})
}

// TestBlackholeNew: the server accepts connections and does not answer.
func TestBlackholeNew(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 10*time.Second)
		mute := srv.Faults().BlackholeNew()
		d := newRecord(t, dialing(srv)).peer("A")
		d.do("connect")
		if len(srv.Sessions()) != 1 {
			t.Errorf("sessions %+v, want the first client's only", srv.Sessions())
		}
		if _, _, err := c.Get("/"); err != nil {
			t.Errorf("a connection that was there before: %v", err)
		}
		mute.Remove()
		if frame, end := d.readFrame(); end != "" || len(frame) == 0 {
			t.Errorf("after the end of the fault: %x, %s; want the answer to the handshake", frame, end)
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

// TestExpireSession: a session ended by the test looks like one that timed out.
func TestExpireSession(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 10*time.Second, dial)
		if _, err := c.Create("/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		r := newRecord(t, func(string) (net.Conn, error) { return dial(t.Context(), "tcp", "") })
		other := r.peer("B")
		other.do("connect")
		other.do(`getData "/e" watch`)
		id := c.SessionID()
		if !srv.ExpireSession(id) || srv.ExpireSession(id) {
			t.Error("ExpireSession should report true, then false")
		}
		if srv.Exists("/e") {
			t.Error("the ephemeral is still there")
		}
		other.do("events 1")
		if got, want := r.text.String(), "B: event 2 /e\n"; got != want {
			t.Errorf("the watch was told %q, want %q", got, want)
		}
		c.await(t, zk.StateExpired)
		c.await(t, zk.StateHasSession)
		if c.SessionID() == id {
			t.Error("the session is still there")
		}
		if got := srv.Expired(); len(got) != 1 || !got[0].Forced || got[0].Ephemerals != 1 {
			t.Errorf("Expired = %+v", got)
		}
	})
}

// TestOnRequest: a hook acts exactly between two requests of a client.
func TestOnRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 10*time.Second, dial)
		if err := srv.Create("/a", nil); err != nil {
			t.Fatal(err)
		}
		type call struct {
			session int64
			op      zktest.Op
			path    string
		}
		var mu sync.Mutex
		var calls []call
		srv.OnRequest(func(session int64, op zktest.Op, path string) {
			mu.Lock()
			defer mu.Unlock()
			if op == zktest.OpPing {
				return
			}
			calls = append(calls, call{session, op, path})
			switch {
			case op == zktest.OpGetData && path == "/a":
				// The client has listed the node; now it is gone.
				if err := srv.Delete("/a"); err != nil {
					t.Error(err)
				}
			case path == "/b":
				srv.Faults().DropRequest(zktest.Match{Op: op, Path: path}) // this very request
			}
		})
		if names, _, err := c.Children("/"); err != nil || !slices.Contains(names, "a") {
			t.Errorf("Children = %v, %v", names, err)
		}
		if _, _, err := c.Get("/a"); err != zk.ErrNoNode {
			t.Errorf("Get: %v, want no node", err)
		}
		if _, err := c.Create("/b", nil, 0, open); err != zk.ErrConnectionClosed || srv.Exists("/b") {
			t.Errorf("Create: %v, node there: %v", err, srv.Exists("/b"))
		}
		c.await(t, zk.StateHasSession)
		srv.OnRequest(nil)
		if _, _, err := c.Get("/"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		id := c.SessionID()
		want := []call{{id, zktest.OpGetChildren2, "/"}, {id, zktest.OpGetData, "/a"}, {id, zktest.OpCreate, "/b"}, {id, zktest.OpConnect, ""}}
		if !slices.Equal(calls, want) {
			t.Errorf("calls %+v, want %+v", calls, want)
		}
	})
}

// TestHookBlocks: while a hook blocks one connection, the others work on.
func TestHookBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		slow := bubbleClient(t, srv, 10*time.Second)
		quick := bubbleClient(t, srv, 10*time.Second)
		reached, goOn := make(chan struct{}), make(chan struct{})
		srv.OnRequest(func(session int64, op zktest.Op, _ string) {
			if session == slow.SessionID() && op == zktest.OpCreate {
				close(reached)
				<-goOn
			}
		})
		result := make(chan error, 1)
		go func() {
			_, err := slow.Create("/a", nil, 0, open)
			result <- err
		}()
		<-reached
		if _, err := quick.Create("/a", nil, 0, open); err != nil {
			t.Errorf("another client's Create: %v", err)
		}
		close(goOn)
		if err := <-result; err != zk.ErrNodeExists {
			t.Errorf("Create: %v, want that the other was first", err)
		}
	})
}

// TestFaultsClear: after Clear no fault acts.
func TestFaultsClear(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 30*time.Second)
		f := srv.Faults()
		f.RefuseFor(time.Hour)
		f.BlackholeAll()
		f.Blackhole(c.SessionID())
		f.DropReply(zktest.Match{Times: -1})
		f.DelayReply(zktest.Match{Times: -1}, time.Hour)
		f.Clear()
		if _, _, err := c.Get("/"); err != nil {
			t.Errorf("Get: %v", err)
		}
		bubbleClient(t, srv, 30*time.Second)
	})
}
