// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestExpiryTimes: a session ends at the first tick after the last sign of life
// plus the timeout: never early, and at most a tick late.
func TestExpiryTimes(t *testing.T) {
	const tick = 500 * time.Millisecond
	for _, tc := range []struct {
		timeout time.Duration
		touch   time.Duration // last sign of life, from the server's start
		end     time.Duration // first tick later than touch + timeout
	}{
		{3 * time.Second, 0, 3500 * time.Millisecond},
		{3 * time.Second, 1 * time.Millisecond, 3500 * time.Millisecond},
		{3 * time.Second, 499 * time.Millisecond, 3500 * time.Millisecond},
		{3 * time.Second, 500 * time.Millisecond, 4 * time.Second},
		{3 * time.Second, 501 * time.Millisecond, 4 * time.Second},
		{1 * time.Second, 700 * time.Millisecond, 2 * time.Second},
		{1234 * time.Millisecond, 10 * time.Second, 11500 * time.Millisecond},
		{time.Hour, 26 * time.Hour, 27*time.Hour + tick},
	} {
		t.Run(fmt.Sprintf("T=%v,touched=%v", tc.timeout, tc.touch), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				start := time.Now()
				d := rawSession(t, srv, tc.timeout)
				d.do(`create "/e" flags=1`)
				for at := tc.touch % (tc.timeout / 2); at <= tc.touch; at += tc.timeout / 2 {
					time.Sleep(time.Until(start.Add(at)))
					d.do("ping")
				}
				if got := srv.Sessions()[0]; !got.LastTouch.Equal(start.Add(tc.touch)) || !got.Expires.Equal(start.Add(tc.end)) || got.Timeout != tc.timeout || !got.Connected {
					t.Errorf("session %+v, want it touched at %v, ending at %v", got, tc.touch, tc.end)
				}
				time.Sleep(time.Until(start.Add(tc.end - 1)))
				synctest.Wait()
				if !srv.Exists("/e") || len(srv.Expired()) > 0 {
					t.Fatalf("expired a moment before %v", tc.end)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if srv.Exists("/e") || len(srv.Sessions()) > 0 {
					t.Fatalf("not expired at %v", tc.end)
				}
				want := zktest.Expiry{Session: d.session, Timeout: tc.timeout, LastTouch: start.Add(tc.touch), At: start.Add(tc.end), Ephemerals: 1}
				if got := srv.Expired(); len(got) != 1 || got[0] != want {
					t.Errorf("Expired = %+v, want %+v", got, want)
				}
				if frame, end := d.readFrame(); end != "connection closed" {
					t.Errorf("after the expiry the connection has %x, %s; want it closed", frame, end)
				}
			})
		})
	}
}

// TestAnyRequestKeepsAlive: all requests are signs of life except auth, as in a
// real server.
func TestAnyRequestKeepsAlive(t *testing.T) {
	for _, tc := range []struct {
		request, answer string
		alive           bool
	}{
		{"ping", "z+0 0", true},
		{`exists "/"`, "z+", true},
		{`setData "/"`, "z+", true},
		{`setData "/x"`, "-101", true},
		{"op 1", "-5", true},
		{`auth digest "a:b"`, "0 0", false},
	} {
		t.Run(tc.request, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				d := rawSession(t, srv, 2*time.Second)
				for range 5 {
					time.Sleep(1500 * time.Millisecond)
					if got := d.do(tc.request); !strings.Contains(got, tc.answer) {
						break
					}
				}
				if alive := len(srv.Sessions()) == 1; alive != tc.alive {
					t.Errorf("session alive: %v, want %v", alive, tc.alive)
				}
			})
		})
	}
}

// TestShorterTimeoutComesFirst: the clock, while asleep until a session ends, wakes
// in time for a new session that ends sooner, and for one that is resumed with a
// shorter timeout.
func TestShorterTimeoutComesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		long := rawSession(t, srv, time.Hour)
		time.Sleep(time.Second)
		rawSession(t, srv, time.Second)
		time.Sleep(2 * time.Second)
		if got := srv.Expired(); len(got) != 1 || got[0].Timeout != time.Second {
			t.Fatalf("Expired = %+v, want the short session", got)
		}
		long.do("connect timeout=2s session=S1")
		time.Sleep(3 * time.Second)
		if got := srv.Expired(); len(got) != 2 || got[1].Session != long.session || got[1].Timeout != 2*time.Second {
			t.Fatalf("Expired = %+v, want both sessions", got)
		}
	})
}

// TestPingsKeepAlive: a client without work keeps its session.
func TestPingsKeepAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 3*time.Second)
		id := c.SessionID()
		time.Sleep(2 * time.Hour)
		if c.SessionID() != id || c.State() != zk.StateHasSession || len(srv.Expired()) > 0 {
			t.Error("the session did not last")
		}
		if pings := srv.Requests(zktest.OpPing); pings < 7000 || pings > 7200 {
			t.Errorf("%d pings in two hours, want one a second", pings)
		}
	})
}

// TestExpiryIsOneTransaction: all nodes of a session are deleted with one zxid.
func TestExpiryIsOneTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 2*time.Second)
		d.do(`create "/p"`)
		for i := range 10 {
			d.do(fmt.Sprintf(`create "/p/%d" flags=1`, i))
		}
		before := srv.Zxid()
		time.Sleep(3 * time.Second)
		if got := srv.Nodes(); !slices.Equal(got, []string{"/p"}) {
			t.Errorf("Nodes = %v", got)
		}
		if _, stat, _ := srv.Get("/p"); srv.Zxid() != before+1 || stat.Pzxid != before+1 || stat.Cversion != 20 {
			t.Errorf("zxid %d after %d, stat %+v", srv.Zxid(), before, stat)
		}
	})
}

// TestResume: a session outlives its connection by its timeout.
func TestResume(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubbleClient(t, srv, 4*time.Second)
		if _, err := c.Create("/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		id := c.SessionID()
		for _, outage := range []time.Duration{0, 2 * time.Second} {
			srv.Faults().RefuseFor(outage)
			srv.Faults().CutAll()
			c.await(t, zk.StateHasSession)
			if c.SessionID() != id || !srv.Exists("/e") {
				t.Fatalf("session lost after an outage of %v", outage)
			}
		}
		srv.Faults().RefuseFor(10 * time.Second)
		srv.Faults().CutAll()
		c.await(t, zk.StateExpired)
		c.await(t, zk.StateHasSession) // a new one
		if c.SessionID() == id || srv.Exists("/e") {
			t.Error("the session outlived its timeout")
		}
		if got := srv.Expired(); len(got) != 1 || got[0].Session != id || got[0].Forced {
			t.Errorf("Expired = %+v", got)
		}
	})
}

// TestResumeNegotiatesAnew: the last requested timeout counts.
func TestResumeNegotiatesAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 2*time.Second)
		d.do("connect timeout=30s session=S1")
		time.Sleep(20 * time.Second)
		if got := srv.Sessions(); len(got) != 1 || got[0].Timeout != 30*time.Second {
			t.Errorf("Sessions = %+v", got)
		}
	})
}

// TestTimeoutBounds: requested timeouts are moved into the bounds.
func TestTimeoutBounds(t *testing.T) {
	for _, tc := range []struct {
		cfg               zktest.Config
		shortest, longest time.Duration
	}{
		{zktest.Config{}, 4 * time.Second, 40 * time.Second},
		{zktest.Config{TickTime: 100 * time.Millisecond}, 200 * time.Millisecond, 2 * time.Second},
		{zktest.Config{MinSessionTimeout: time.Second, MaxSessionTimeout: 3 * time.Second}, time.Second, 3 * time.Second},
		{zktest.Config{MinSessionTimeout: time.Minute}, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t, tc.cfg)
			for ask, want := range map[time.Duration]time.Duration{0: tc.shortest, time.Millisecond: tc.shortest, tc.shortest: tc.shortest, tc.longest: tc.longest, time.Hour: tc.longest} {
				d := rawSession(t, srv, ask)
				for _, s := range srv.Sessions() {
					if s.ID == d.session && s.Timeout != want {
						t.Errorf("%+v: asked for %v, got %v, want %v", tc.cfg, ask, s.Timeout, want)
					}
				}
			}
		})
	}
}

// TestSessionIDs: ids have the server's number in the high byte and do not repeat,
// not even in servers that start one after the other.
func TestSessionIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[int64]bool)
		for range 3 {
			for _, id := range []uint8{0, 7, 255} {
				srv := newServer(t, zktest.Config{ID: id})
				for range 3 {
					s := rawSession(t, srv, time.Second).session
					if seen[s] {
						t.Errorf("session %x twice", s)
					}
					seen[s] = true
					if want := max(id, 1); uint64(s)>>56 != uint64(want) {
						t.Errorf("session %x of server %d", s, want)
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// TestForgetfulServer: a session of another server cannot be resumed, and a client
// that has seen later transactions than there are gets no answer.
func TestForgetfulServer(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := rawSession(t, srv, 10*time.Second)
		for range 10 {
			d.do(`setData "/"`)
		}
		again := newServer(t, zktest.Config{})
		d.do("disconnect")
		d.dial = dialing(again)
		if got := d.do("connect session=S1"); !strings.HasPrefix(got, "none") {
			t.Errorf("the session of another server: %s", got)
		}
		if got := d.do("connect seen=last"); got != "connection closed" || len(again.Sessions()) != 0 {
			t.Errorf("a client from the future: %s", got)
		}
	})
}

// TestContainers: a container that has lost its last child goes at the next check,
// and its parent, if that is a container too, at the one after.
func TestContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, zktest.Config{ContainerCheckInterval: 10 * time.Second})
		start := time.Now()
		c := bubbleClient(t, srv, 10*time.Second)
		for _, path := range []string{"/outer", "/outer/used", "/outer/fresh", "/busy"} {
			if _, err := c.CreateContainer(path, nil, zk.FlagContainer, open); err != nil {
				t.Fatal(err)
			}
		}
		_, _, gone, err := c.ExistsW("/outer/used")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/outer/used/x", "/busy/x"} {
			if _, err := c.Create(path, nil, 0, open); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Delete("/outer/used/x", -1); err != nil {
			t.Fatal(err)
		}
		for _, check := range []struct {
			at   time.Duration
			want []string
		}{
			{9 * time.Second, []string{"/busy", "/busy/x", "/outer", "/outer/fresh", "/outer/used"}},
			{11 * time.Second, []string{"/busy", "/busy/x", "/outer", "/outer/fresh"}},
			{time.Hour, []string{"/busy", "/busy/x", "/outer", "/outer/fresh"}},
		} {
			time.Sleep(time.Until(start.Add(check.at)))
			synctest.Wait()
			if got := srv.Nodes(); !slices.Equal(got, check.want) {
				t.Errorf("after %v: %v, want %v", check.at, got, check.want)
			}
		}
		if e := <-gone; e.Type != zk.EventNodeDeleted {
			t.Errorf("watch on the container: %v", e)
		}
		if err := c.Delete("/outer/fresh", -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if srv.Exists("/outer") {
			t.Error("the outer container is still there")
		}
	})
}

// TestTimeToLive: a node with a time to live goes at the first check at which it
// has no children and was last set longer ago than that, to the millisecond.
func TestTimeToLive(t *testing.T) {
	const check = 10 * time.Second
	for _, tc := range []struct {
		name    string
		ttl     time.Duration
		set     time.Duration // when its data is set; 0: never
		child   time.Duration // when its child is deleted; 0: it has none
		created time.Duration // since the server's start
		gone    time.Duration // at which check it goes
	}{
		{name: "at the first check", ttl: time.Second, gone: 10 * time.Second},
		{name: "not at the very moment", ttl: 10 * time.Second, gone: 20 * time.Second},
		{name: "but one later", ttl: 10*time.Second - time.Millisecond, gone: 10 * time.Second},
		{name: "after hours", ttl: 3 * time.Hour, created: time.Second, gone: 3*time.Hour + check},
		{name: "set anew", ttl: 15 * time.Second, set: 9 * time.Second, gone: 30 * time.Second},
		{name: "a child keeps it", ttl: time.Second, child: 45 * time.Second, gone: 50 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t, zktest.Config{ContainerCheckInterval: check, ExtendedTypes: true})
				start := time.Now()
				at := func(d time.Duration) { time.Sleep(time.Until(start.Add(d))) }
				at(tc.created)
				c := bubbleClient(t, srv, 10*time.Second)
				if path, err := c.CreateTTL("/t", nil, zk.FlagTTL, open, tc.ttl); err != nil || path != "/t" {
					t.Fatal(path, err)
				}
				if tc.child > 0 {
					if _, err := c.Create("/t/child", nil, 0, open); err != nil {
						t.Fatal(err)
					}
				}
				c.Close() // no client has to be connected
				if tc.set > 0 {
					at(tc.set)
					if err := srv.Set("/t", nil); err != nil {
						t.Fatal(err)
					}
				}
				if tc.child > 0 {
					at(tc.child)
					if err := srv.Delete("/t/child"); err != nil {
						t.Fatal(err)
					}
				}
				at(tc.gone - 1)
				synctest.Wait()
				if !srv.Exists("/t") {
					t.Error("the node went too early")
				}
				at(tc.gone)
				synctest.Wait()
				if srv.Exists("/t") {
					t.Error("the node is still there")
				}
			})
		})
	}
}

// TestContainersWithoutSessions: the clock sleeps while there is nothing to do, and
// wakes for a container even if there is no session.
func TestContainersWithoutSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, zktest.Config{})
		time.Sleep(1000*time.Hour + 30*time.Second)
		c := bubbleClient(t, srv, 10*time.Second)
		if _, err := c.CreateContainer("/c", nil, zk.FlagContainer, open); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create("/c/e", nil, zk.FlagEphemeral, open); err != nil {
			t.Fatal(err)
		}
		c.Close()
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if !srv.Exists("/c") {
			t.Error("the container went before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if srv.Exists("/c") {
			t.Error("the container is still there")
		}
	})
}

// TestSequenceFreezes: from 2^31-1 on, sequence numbers repeat, and those of one
// transaction continue into the negative, as on a real server.
func TestSequenceFreezes(t *testing.T) {
	onBoth(t, func(t *testing.T, srv *zktest.Server, dial dialer) {
		c := dialClient(t, 10*time.Second, dial)
		if _, err := c.Create("/d", nil, 0, open); err != nil {
			t.Fatal(err)
		}
		if err := srv.SetSequence("/d", 1<<31-2); err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"/d/a-2147483646", "/d/b-2147483647", "/d/c-2147483647", "/d/d-2147483647"} {
			got, err := c.Create(fmt.Sprintf("/d/%c-", 'a'+i), nil, zk.FlagSequence, open)
			if err != nil || got != want {
				t.Errorf("Create = %s, %v; want %s", got, err, want)
			}
		}
		if _, err := c.Create("/d/d-", nil, zk.FlagSequence, open); err != zk.ErrNodeExists {
			t.Errorf("the same prefix again: %v", err)
		}
		var ops []any
		for range 3 {
			ops = append(ops, &zk.CreateRequest{Path: "/d/m-", Acl: open, Flags: zk.FlagSequence})
		}
		res, err := c.Multi(ops...)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"/d/m-2147483647", "/d/m--2147483648", "/d/m--2147483647"} {
			if res[i].String != want {
				t.Errorf("in one transaction: %s, want %s", res[i].String, want)
			}
		}
		if err := srv.DeleteAll("/d"); err != nil {
			t.Fatal(err)
		}
		if err := srv.Create("/d", nil); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Create("/d/n-", nil, zk.FlagSequence, open); got != "/d/n-0000000000" {
			t.Errorf("in a new directory: %s, %v", got, err)
		}
	})
}

// TestManySessions: a thousand sessions that expire at different ticks.
func TestManySessions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var wg sync.WaitGroup
		const n = 1000
		start := time.Now()
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				d := rawSession(t, srv, time.Duration(1000+i)*time.Millisecond)
				d.do(fmt.Sprintf(`create "/%d" flags=1`, i))
			})
		}
		wg.Wait()
		if got := len(srv.Sessions()); got != n {
			t.Fatalf("%d sessions, want %d", got, n)
		}
		time.Sleep(10 * time.Second)
		expired := srv.Expired()
		if len(expired) != n || len(srv.Nodes()) != 0 {
			t.Fatalf("%d of %d sessions expired, %d nodes left", len(expired), n, len(srv.Nodes()))
		}
		for _, x := range expired {
			if late := x.At.Sub(x.LastTouch) - x.Timeout; late <= 0 || late > 500*time.Millisecond {
				t.Errorf("session expired %v after its timeout", late)
			}
			if x.At.Sub(start)%(500*time.Millisecond) != 0 {
				t.Errorf("session expired between two ticks, at %v", x.At.Sub(start))
			}
		}
	})
}
