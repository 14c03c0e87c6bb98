// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// TestCalls: so does the embedded one.
func TestCalls(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		checkCalls(t, configure(z), "/a/b")
		if n := z.Requests(zktest.OpCreateContainer); n < 2 {
			t.Errorf("%d containers: want the directories to be", n)
		}
	})
}

// checkCalls makes every kind of call below dir, which it makes.
func checkCalls(t *testing.T, cfg Config, dir string) {
	t.Helper()
	c := open(t, cfg)
	s := c.Session()
	if s.Epoch() != 1 || s.ID() == 0 || s.Timeout() != 4*time.Second || s.Client() != c || s.Err() != nil {
		t.Fatalf("session %d %#x %v %v", s.Epoch(), s.ID(), s.Timeout(), s.Err())
	}
	n := mustCreate(t, s, dir, nil) // it keeps the container
	for _, again := range []string{dir, "/"} {
		must(t, s.EnsureDir(again, nil))
	}
	wantErr(t, s.EnsureDir(n.Path()+"/x", nil), ErrNoChildrenForEphemerals, Definite)
	if !s.Lease().InForce() {
		t.Error("no lease")
	}
	data, st, err := s.Get(n.Path())
	if must(t, err); string(data) != "data" || st.Czxid != n.Czxid() || st.EphemeralOwner != s.ID() || st.DataLength != 4 {
		t.Errorf("node %q: %q %+v", n.Path(), data, st)
	}
	must(t, s.Prove(n.Path()))

	a, none := dir+"/a", dir+"/none"
	must(t, s.Create(a, []byte("1"), nil))
	st, err = s.Set(a, []byte("22"), 0)
	if must(t, err); st.Version != 1 || st.DataLength != 2 || st.EphemeralOwner != 0 {
		t.Errorf("set: %+v", st)
	}
	names, st, err := s.Children(dir)
	must(t, err)
	if slices.Sort(names); !slices.Equal(names, []string{n.Name(), "a"}) || st.NumChildren != 2 {
		t.Errorf("children: %v %+v", names, st)
	}
	for path, want := range map[string]int32{a: 1, none: 0} {
		if st, there, err := s.Exists(path); there != (path == a) || err != nil || st.Version != want {
			t.Errorf("exists: %+v %v %v", st, there, err)
		}
	}
	must(t, s.Sync(dir))
	must(t, s.Delete(a, 1))

	res, err := s.Multi(CreateOp(a, []byte("1"), nil), SetOp(a, []byte("2"), 0), CheckOp(a, 1), CreateOp(none, nil, nil), DeleteOp(none, 0))
	if must(t, err); len(res) != 5 || res[0].Path != a || res[1].Stat.Version != 1 || res[3].Path != none {
		t.Errorf("results %+v", res)
	}
	n.KeepAlive(false) // or the heartbeat proves the session on a slow machine
	proofs := c.Stats().Proofs
	res, err = s.Multi(SetOp(a, []byte("3"), -1), CheckOp(none, -1), DeleteOp(a, -1))
	wantErr(t, err, ErrNoNode, Definite)
	if want := "zkio: transaction " + none + ": no such node"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want %q", err, want)
	}
	if len(res) != 3 || res[0].Err != nil || !is(res[1].Err, ErrNoNode) || res[2].Err != nil {
		t.Errorf("results %+v", res)
	}
	if data, _, err := s.Get(a); string(data) != "2" || err != nil {
		t.Errorf("a failed transaction left %q, %v", data, err)
	}
	for _, ops := range [][]Op{{}, {{}}, {CheckOp("a", -1)}, {CheckOp("/a/", -1)}, {CheckOp("//a", -1)}, {CheckOp("", -1)}, {CreateOp("/c", make([]byte, 2<<20), nil)}} {
		_, err := s.Multi(ops...)
		wantErr(t, err, ErrBadArguments, Definite)
	}
	for _, tt := range []struct {
		err  error
		want error
	}{
		{s.Create(a, nil, nil), ErrNodeExists},
		{s.Create(none+"/c", nil, nil), ErrNoNode},
		{s.Create(none, nil, []ACL{{PermAll, "digest", "no colon"}}), ErrInvalidACL},
		{s.Create(none, nil, []ACL{{PermAll, "nonsense", "x"}}), ErrInvalidACL},
		{s.Create(none, make([]byte, 1<<20), nil), ErrBadArguments},
		{func() error { _, err := s.Set(a, nil, 7); return err }(), ErrBadVersion},
		{func() error { _, _, err := s.Get("relative"); return err }(), ErrBadArguments},
		{s.Delete(dir, -1), ErrNotEmpty},
		{s.Delete(none, -1), ErrNoNode},
		{s.Prove(none), ErrNoNode},
	} {
		wantErr(t, tt.err, tt.want, Definite)
	}
	if c.Stats().Proofs != proofs {
		t.Error("refusals are taken for proofs")
	}
	n.KeepAlive(true)
	must(t, s.Create(none, make([]byte, 1<<20-10_000), nil))
	must(t, s.Delete(none, 0))
	if how, err := n.Remove(s); how != RemovedByUs || err != nil {
		t.Errorf("removed %d, %v", how, err)
	}
	n, other, began := mustCreate(t, s, dir, nil), open(t, cfg).Session(), time.Now()
	path := n.Path()
	mustClose(t, c)
	if took := time.Since(began); took > 500*time.Millisecond || !s.Gone() {
		t.Errorf("Close took %v; gone %v", took, s.Gone())
	}
	must(t, other.Sync("/"))
	if _, there, err := other.Exists(path); there || err != nil {
		t.Errorf("a node outlives its client: %v, %v", there, err)
	}
	for _, err := range []error{s.Create(none, nil, nil), s.Delete(a, -1), s.Sync(a), s.Prove(a), s.EnsureDir(dir, nil), s.Err()} {
		wantErr(t, err, ErrClosed, Closed)
	}
}

// TestEnsureDirWithoutRights: directories that exist can be used without the right
// to create them.
func TestEnsureDirWithoutRights(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		admin := configure(z)
		admin.Auth = []Auth{{"digest", []byte("admin:secret")}}
		a := open(t, admin).Session()
		readOnly := []ACL{{PermAll, "auth", ""}, {PermRead, "world", "anyone"}}
		must(t, a.Create("/top", nil, readOnly))
		must(t, a.Create("/top/open", nil, nil))

		s := open(t, configure(z)).Session()
		must(t, s.EnsureDir("/top/open/a/b", nil))
		wantErr(t, s.EnsureDir("/top/other", nil), ErrNoAuth, Definite)
		wantErr(t, s.EnsureDir("/top/other/a", nil), ErrNoAuth, Definite)
	})
}

// TestListener follows a client through its life.
func TestListener(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c, r := openTold(t, z)
		first := c.Session()
		mustCreate(t, first, "/d", nil)
		z.ExpireSession(first.ID())
		eventually(t, "a second session", func() bool { return c.Session().Epoch() == 2 })
		second := c.Session()
		if !first.Gone() || second.ID() == first.ID() || second.Gone() {
			t.Errorf("first %#x gone %v, second %#x gone %v", first.ID(), first.Gone(), second.ID(), second.Gone())
		}
		wantErr(t, first.Delete("/d", -1), ErrSessionOver, SessionOver)
		wantErr(t, first.Err(), ErrSessionOver, SessionOver)
		must(t, second.Create("/e", nil, nil))
		mustClose(t, c)
		mustClose(t, c)
		want := []string{
			"started 1", "lapsed", "over 1: zkio: session is over: the server ended it",
			"started 2", "lapsed", "over 2: zkio: client is closed",
		}
		if got := r.lines(); !slices.EqualFunc(got, want, strings.HasPrefix) || r.sawForce() {
			t.Errorf("told %q, want %q; a lease was in force when its end was told: %v", got, want, r.sawForce())
		}
	})
}

// TestF041_ExpiryWhileDisconnected: nothing tells the client until it is back, but
// its lease ends in time by itself.
func TestF041_ExpiryWhileDisconnected(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c, r := openTold(t, z)
		s := c.Session()
		n := mustCreate(t, s, "/d", nil)
		refuse := z.Faults().Refuse()
		z.Faults().CutAll()
		eventually(t, "expiry at the server", func() bool { return !z.Exists(n.Path()) })
		if s.Lease().InForce() || !r.has("lapsed") || s.Err() != nil {
			t.Errorf("the lease outlived the node: %v; told: %v; session %v", s.Lease().InForce(), r.lines(), s.Err())
		}
		refuse.Remove()
		eventually(t, "a second session", func() bool { return c.Session().Epoch() == 2 })
		if got := strings.Join(r.lines(), " / "); !strings.HasPrefix(got, "started 1 / lapsed / over 1") || !s.Gone() {
			t.Errorf("told: %s; gone: %v", got, s.Gone())
		}
	})
}

// TestF006_QueuedRequestsStayInTheirSession: go-zookeeper carries requests that wait
// to be sent into whatever session comes next. With one connection object per
// session they have nowhere to go.
func TestF006_QueuedRequestsStayInTheirSession(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.Servers = []string{"zk1", "zk2", "zk3"}
		c := open(t, cfg)
		s := c.Session()
		must(t, s.Create("/d", nil, nil))
		refuse := z.Faults().Refuse()
		z.Faults().CutAll()
		synctest.Wait() // the client has noticed
		var wg sync.WaitGroup
		errs := make([]error, 40)
		for i := range errs {
			wg.Go(func() { errs[i] = s.Create(fmt.Sprintf("/d/n%d", i), nil, nil) })
		}
		synctest.Wait()
		z.ExpireSession(s.ID())
		time.Sleep(5 * time.Second)
		refuse.Remove()
		eventually(t, "a second session", func() bool { return c.Session().Epoch() == 2 })
		wg.Wait()
		must(t, c.Session().Sync("/d"))
		if left := z.Children("/d"); len(left) != 0 {
			t.Errorf("created in the next session: %v", left)
		}
		for i, err := range errs {
			if class := ClassOf(err); class != SessionOver && class != NotSent {
				t.Errorf("create %d: %v (%v)", i, err, class)
			}
		}
	})
}

// TestAnotherSessionInstead: a server that cannot resume the session opens
// another, and does not say so.
func TestAnotherSessionInstead(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		var r recorder
		cfg := configure(z)
		cfg.Listener = &r
		var swap atomic.Bool
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := z.Dial(ctx, network, addr)
			if err == nil && swap.Swap(false) {
				conn = &forgetful{Conn: conn}
			}
			return conn, err
		}
		c := open(t, cfg)
		s := c.Session()
		mustCreate(t, s, "/d", nil)
		swap.Store(true)
		z.Faults().CutAll()
		eventually(t, "a second session", func() bool { return c.Session().Epoch() == 2 })
		wantErr(t, s.Err(), ErrSessionOver, SessionOver)
		if s.Gone() || c.Session().ID() == s.ID() {
			t.Errorf("session %#x, then %#x; gone, though no server has said so: %v", s.ID(), c.Session().ID(), s.Gone())
		}
		if !r.has("lapsed") || !r.has("over 1: zkio: session is over: the server cannot resume sessions") {
			t.Errorf("told: %v", r.lines())
		}
	})
}

// forgetful turns the request to resume a session into one for a new session.
type forgetful struct {
	net.Conn
	once sync.Once
}

func (f *forgetful) Write(p []byte) (int, error) {
	f.once.Do(func() {
		p = append([]byte(nil), p...)
		// length, version, last zxid, timeout, session id, password
		binary.BigEndian.PutUint64(p[4+4+8+4:], 0)
		clear(p[4+4+8+4+8+4:])
	})
	return f.Conn.Write(p)
}

// TestF051_HungServerInTheList: servers that accept connections and say nothing must
// not cost the session.
func TestF051_HungServerInTheList(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.Servers = []string{"hung1", "good", "hung2"}
		var hang atomic.Bool
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if hang.Load() && strings.HasPrefix(addr, "hung") {
				ours, theirs := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				return ours, nil
			}
			return z.Dial(ctx, network, addr)
		}
		c := open(t, cfg)
		s := c.Session()
		hang.Store(true)
		for range 10 {
			// The worst case: the loss is noticed as late as can be, by silence.
			hole, began, before := z.Faults().BlackholeConnection(s.ID()), time.Now(), c.Stats().Reconnects
			eventually(t, "reconnected", func() bool { return c.Stats().Reconnects > before })
			if took := time.Since(began); took >= s.Timeout() {
				t.Errorf("took %v", took)
			}
			hole.Remove()
			time.Sleep(time.Second)
		}
		if c.Session() != s || s.Err() != nil {
			t.Errorf("the session was lost: %v", s.Err())
		}
	})
}

// TestF041_SilentPartition: the lease ends before the server can end the session,
// whenever the partition begins.
func TestF041_SilentPartition(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 1300 * time.Millisecond, 10 * time.Second} {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			c, r := openTold(t, z)
			s := c.Session()
			n := mustCreate(t, s, "/d", nil)
			time.Sleep(after)
			lease := s.Lease()
			if !lease.InForce() {
				t.Fatal("no lease")
			}
			z.Faults().Blackhole(s.ID())
			eventually(t, "the node is gone", func() bool { return !z.Exists(n.Path()) })
			expired := z.Expired()
			lapses, at := r.lapsed()
			margin := expired[len(expired)-1].At.Sub(at)
			t.Logf("partition %v after the create: the lease ended %v before the node", after, margin)
			if lease.InForce() || lapses != 1 || margin < s.Timeout()/12 {
				t.Errorf("in force %v, lapses told %d, margin %v", lease.InForce(), lapses, margin)
			}
		})
	}
}

// TestLapsedLeaseStaysLapsed: the session goes on, gets a new lease, and the old
// one stays what it is.
func TestLapsedLeaseStaysLapsed(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c, r := openTold(t, z)
		s := c.Session()
		if s.Lease() == nil || s.Lease().InForce() || !s.Lease().Lapsed() {
			t.Fatal("a lease before the first proof")
		}
		n := mustCreate(t, s, "/d", nil)
		old := s.Lease()
		keeps := func(l *Lease) {
			t.Helper()
			for range 20 {
				time.Sleep(time.Second)
				if s.Lease() != l || !l.InForce() || l != old && (old.InForce() || !old.Lapsed() || old.Remaining() != 0) {
					t.Fatal("the heartbeat does not keep the lease, or has revived the old one")
				}
			}
		}
		keeps(old)
		n.KeepAlive(false) // no proofs any more; pings keep the session
		eventually(t, "lapsed", func() bool { return !old.InForce() })
		must(t, s.Err())
		n.KeepAlive(true)
		eventually(t, "a new lease", func() bool { return s.Lease().InForce() })
		keeps(s.Lease())
		if lapses, _ := r.lapsed(); s.Err() != nil || lapses != 1 {
			t.Errorf("session %v, lapses told %d", s.Err(), lapses)
		}
		must(t, n.Delete(s))
	})
}

// TestHeartbeatWrites: the heartbeat writes if there is a node to keep alive and
// nothing else is written.
func TestHeartbeatWrites(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		time.Sleep(time.Minute)
		n := mustCreate(t, s, "/d", nil)
		time.Sleep(time.Minute)
		must(t, n.Delete(s))
		busy := z.Requests(zktest.OpMulti)
		// Some seconds more than a minute, because the server looks for empty
		// containers, such as /d, once in a minute.
		time.Sleep(time.Minute + 5*time.Second)
		idle := z.Requests(zktest.OpMulti) - busy
		mustCreate(t, s, "/d", nil)
		before := z.Requests(zktest.OpMulti)
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			_, err := s.Set("/d", nil, -1)
			must(t, err)
		}
		written := z.Requests(zktest.OpMulti) - before
		if idle != 0 || written != 0 || busy < 100 || busy > 110 {
			t.Errorf("%d proofs in a minute with a node, %d in one without, %d beside a write every half second; want about 105, 0 and 0", busy, idle, written)
		}
		if c.Session() != s || s.Err() != nil {
			t.Error("the session was lost")
		}
	})
}

// TestHeartbeatFindsNodeGone: the heartbeat tells the watchers of a node that
// it finds gone, and goes on with the others.
func TestHeartbeatFindsNodeGone(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		var gone, kept recorder
		a, b := mustCreate(t, s, "/d", nil), mustCreate(t, s, "/d", nil)
		// Without a read, the server has no watch to tell of.
		c.Watch(a.Path(), &gone)
		c.Watch(b.Path(), &kept)
		must(t, z.Delete(a.Path()))
		eventually(t, "told", func() bool { return gone.has(a.Path() + " deleted") })
		time.Sleep(time.Minute)
		if len(gone.lines()) != 1 || len(kept.lines()) != 0 || !s.Lease().InForce() || c.Stats().Nodes != 1 {
			t.Errorf("told %v, and of the other node %v; lease %v, %d nodes", gone.lines(), kept.lines(), s.Lease().InForce(), c.Stats().Nodes)
		}
		must(t, b.Delete(s))
		must(t, a.Delete(s))
	})
}

// TestSessionEndsDuringDial: a connection that is made for a session that has
// ended meanwhile is not used, not even by requests that have waited for it.
func TestSessionEndsDuringDial(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		var ending atomic.Pointer[Session]
		cfg := configure(z)
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			s := ending.Load()
			if s != nil {
				time.Sleep(time.Second)
			}
			conn, err := z.Dial(ctx, network, addr)
			if s != nil {
				s.end(ErrSessionOver, false)
				ending.Store(nil)
			}
			return conn, err
		}
		c := open(t, cfg)
		s := c.Session()
		ending.Store(s)
		z.Faults().CutAll()
		synctest.Wait()
		wantErr(t, s.Create("/x", nil, nil), ErrSessionOver, SessionOver)
		eventually(t, "a second session", func() bool { return c.Session() != s })
		must(t, c.Session().Sync("/"))
		if n := c.Stats().Reconnects; n != 0 || z.Exists("/x") {
			t.Errorf("the session was resumed %d times; created after the end of its session: %v", n, z.Exists("/x"))
		}
	})
}

// TestRestoredEnsemble: servers that have seen less than the client close its
// connections unanswered, for ever.
func TestRestoredEnsemble(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		restored := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet})
		t.Cleanup(func() { restored.Close() })
		var target atomic.Pointer[zktest.Server]
		target.Store(z)
		cfg := configure(z)
		cfg.Servers = []string{"zk1", "zk2"}
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return target.Load().Dial(ctx, network, addr)
		}
		c := open(t, cfg)
		mustCreate(t, c.Session(), "/d", nil)
		if took := checkRestored(t, c, func() { target.Store(restored); z.Faults().CutAll() }); took > 3*cfg.SessionTimeout {
			t.Errorf("gave up only after %v", took)
		}
	})
}

// The next session has a timeout that is too short for the margin: it has no lease, and the log
// says why.
func TestNextSessionWithoutLease(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		hasty := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, MaxSessionTimeout: time.Second, Logger: quiet})
		t.Cleanup(func() { hasty.Close() })
		var target atomic.Pointer[zktest.Server]
		target.Store(z)
		var log strings.Builder
		cfg := configure(z)
		cfg.LostMargin = 900 * time.Millisecond
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return target.Load().Dial(ctx, network, addr)
		}
		c := open(t, cfg)
		first := c.Session()
		target.Store(hasty)
		z.Faults().CutAll()
		eventually(t, "a second session", func() bool { return c.Session() != first })
		synctest.Wait()
		if !strings.Contains(log.String(), "no lease can be had in this zookeeper session") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("logged %q", &log)
		}
		must(t, c.Session().Prove("/"))
		if left := c.Session().Lease().Remaining(); left != 0 {
			t.Errorf("a write was answered, and the lease lasts for %v", left)
		}
	})
}

// checkRestored has move replace c's servers by some that have seen less, and
// returns how long the first session lasts.
func checkRestored(t *testing.T, c *Client, move func()) (took time.Duration) {
	t.Helper()
	s, began := c.Session(), time.Now()
	move()
	eventually(t, "a second session", func() bool { return c.Session() != s })
	if took = time.Since(began); took < 2*s.Timeout() || s.Gone() {
		t.Errorf("gave up after %v; gone, though no server has said so: %v", took, s.Gone())
	}
	wantErr(t, s.Err(), ErrSessionOver, SessionOver)
	return took
}

// TestF073_LongOutage: while the servers are away, calls fail in time and nothing
// spins; then everything goes on.
func TestF073_LongOutage(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.SessionTimeout = 10 * time.Second
		var dials atomic.Int64
		cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return z.Dial(ctx, network, addr)
		}
		c := open(t, cfg)
		s := c.Session()
		refuse := z.Faults().Refuse()
		z.Faults().CutAll()
		stuck := make(chan error)
		go func() {
			time.Sleep(time.Second)
			stuck <- s.Create("/x", nil, nil)
		}()
		synctest.Wait()
		began := time.Now()
		wantErr(t, s.Sync("/"), ErrNotSent, NotSent)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a call in an outage took %v", took)
		}
		wantErr(t, <-stuck, ErrNotSent, NotSent)
		time.Sleep(time.Minute)
		if n := dials.Load(); n < 50 || n > 200 || s.Err() != nil {
			t.Errorf("%d dials in a minute; over, without a server that said so: %v", n, s.Err())
		}
		refuse.Remove()
		eventually(t, "a second session", func() bool { return c.Session().Epoch() == 2 })
		must(t, c.Session().Sync("/"))
	})
}

// TestReconnectIsQuick: a connection that lasted is replaced at once.
func TestReconnectIsQuick(t *testing.T) {
	connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
		for range 20 {
			time.Sleep(time.Second)
			began := time.Now()
			z.Faults().CutAll()
			must(t, settle(s, "/"))
			if took := time.Since(began); took != 0 {
				t.Fatalf("%v without a connection", took)
			}
		}
		if st := c.Stats(); st.Reconnects != 20 || st.Sessions != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestNegotiatedTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.SessionTimeout = 100 * time.Second
		c := open(t, cfg)
		if got := c.Session().Timeout(); got != 10*time.Second {
			t.Errorf("timeout %v, want 20 ticks", got)
		}
		cfg.LostMargin = 5 * time.Second
		_, err := Open(t.Context(), cfg)
		wantErr(t, err, ErrBadArguments, Definite)
		if !strings.Contains(err.Error(), "timeout of 10s") || !strings.Contains(err.Error(), "LostMargin") {
			t.Errorf("error %q", err)
		}
		eventually(t, "no session left behind", func() bool { return len(z.Sessions()) == 1 })
	})
}

func TestAuth(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		checkAuth(t, configure(z), "/d", false, func(*Session) { z.Faults().CutAll() })
	})
}

// checkAuth: credentials work, again after a reconnect, and the error about those
// that are refused names the scheme. The server may be older than ZooKeeper 3.8.
func checkAuth(t *testing.T, cfg Config, dir string, older bool, cut func(*Session)) {
	t.Helper()
	stranger := open(t, cfg).Session()
	cfg.Auth = []Auth{{"digest", []byte("user:secret")}, {"digest", []byte("other:secret")}}
	c := open(t, cfg)
	s := c.Session()
	must(t, s.EnsureDir(dir, nil))
	must(t, s.Create(dir+"/mine", nil, []ACL{{PermAll, "auth", ""}}))
	for i := range uint64(3) {
		cut(s)
		eventually(t, "reconnected", func() bool { return c.Stats().Reconnects > i })
		_, _, err := s.Get(dir + "/mine")
		must(t, err)
	}
	_, _, err := stranger.Get(dir + "/mine")
	wantErr(t, err, ErrNoAuth, Definite)
	cfg.Auth = cfg.Auth[:1]
	checkACLs(t, open(t, cfg).Session(), stranger, dir+"/acls", older)
	cfg.Auth = []Auth{{"nonsense", nil}}
	_, err = Open(t.Context(), cfg)
	wantErr(t, err, ErrAuthFailed, Definite)
	if !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("error %q does not name the scheme", err)
	}
}

func TestOpenErrors(t *testing.T) {
	type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)
	// pipe returns a dialer to a server that behaves as serve says.
	pipe := func(serve func(conn net.Conn)) dialer {
		return func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serve(theirs)
			return ours, nil
		}
	}
	both := func(reason string) string { return "zk1:2181: " + reason + "; zk2:2181: " + reason }
	for _, tt := range []struct {
		name string
		dial dialer
		want string
	}{
		{"refused and unknown", func(_ context.Context, _, addr string) (net.Conn, error) {
			if addr == "zk1:2181" {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return nil, &net.DNSError{Err: "no such host", Name: "zk2", IsNotFound: true}
		}, "zk1:2181: connection refused; zk2:2181: lookup zk2: no such host"},
		{"silent", pipe(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }), both("no answer within 1.333s")},
		{"closing", pipe(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1000)); conn.Close() }),
			both("the server closed the connection during the handshake: it is not serving, or this is its port for TLS")},
		{"unreachable", func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
			both("no answer within 1.333s")},
		{"no zookeeper", pipe(func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1000))
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}), both("the answer is not ZooKeeper's: is this ZooKeeper's client port, and is TLS on at both ends or at neither?")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				why := errors.New("the user went home")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, why)
				defer cancel()
				began := time.Now()
				c, err := Open(ctx, Config{Servers: []string{"zk1", "zk2"}, SessionTimeout: 4 * time.Second, Dialer: tt.dial, Logger: quiet})
				if c != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) {
					t.Fatalf("got %v, %v", c, err)
				}
				want := "zkio: open: no session with zk1:2181, zk2:2181 within 5s: " + tt.want +
					": context deadline exceeded: the user went home"
				if took := time.Since(began); err.Error() != want || took > 5*time.Second+100*time.Millisecond {
					t.Errorf("after %v:\ngot  %v\nwant %v", took, err, want)
				}
			})
		})
	}
}

// TestClose: Close ends the session, or says that it may linger, and does not wait
// for long.
func TestClose(t *testing.T) {
	for _, tt := range []struct {
		name      string
		fault     func(f *zktest.Faults)
		limit     time.Duration // of ctx
		most      time.Duration
		confirmed bool
	}{
		{"no connection", func(f *zktest.Faults) { f.Refuse(); f.CutAll(); time.Sleep(time.Second) }, time.Hour, closeGrace, false},
		{"connection soon back", func(f *zktest.Faults) { f.RefuseFor(300 * time.Millisecond); f.CutAll() }, time.Hour, closeGrace, true},
		{"answer lost", func(f *zktest.Faults) { f.DropReply(zktest.Match{Op: zktest.OpClose, Times: 1}) }, time.Hour, closeGrace, true},
		{"silent server", func(f *zktest.Faults) { f.BlackholeAll() }, 300 * time.Millisecond, 300 * time.Millisecond, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			connected(t, func(t *testing.T, z *zktest.Server, c *Client, s *Session) {
				tt.fault(z.Faults())
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				began := time.Now()
				err := c.Close(ctx)
				if took := time.Since(began); took > tt.most+100*time.Millisecond {
					t.Errorf("took %v", took)
				}
				wantErr(t, s.Err(), ErrClosed, Closed)
				if again := c.Close(ctx); again != err || s.Gone() != tt.confirmed {
					t.Errorf("Close says %v, then %v; gone %t, want %t", err, again, s.Gone(), tt.confirmed)
				}
				if !tt.confirmed {
					wantErr(t, err, ErrUnknown, Unknown)
				} else if n := len(z.Sessions()); n != 0 || err != nil {
					t.Errorf("%d sessions are left; %v", n, err)
				}
			})
		})
	}
}

// TestF097_CloseInAnOutage: ctx bounds Close whatever go-zookeeper is doing at that
// moment. Once in an outage it sleeps for a second, when that has lasted for the
// session's timeout, of 4 s here.
func TestF097_CloseInAnOutage(t *testing.T) {
	for outage := 3500 * time.Millisecond; outage < 6*time.Second; outage += 50 * time.Millisecond {
		bubble(t, func(t *testing.T, z *zktest.Server) {
			cfg := configure(z)
			cfg.Servers = []string{"a", "b", "c"}
			c := open(t, cfg)
			z.Faults().Refuse()
			z.Faults().CutAll()
			time.Sleep(outage)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			wantErr(t, c.Close(ctx), ErrUnknown, Unknown)
			if took := time.Since(began); took > 310*time.Millisecond {
				t.Errorf("after %v Close took %v", outage, took)
			}
		})
	}
}
