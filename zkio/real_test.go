// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// These tests need a real ZooKeeper, because only it, or only real sockets,
// can show what they are about.

// A cable is a Dialer whose connections the test can cut.
type cable struct {
	dialer net.Dialer
	to     atomic.Pointer[string] // if set, where every dial goes

	mu     sync.Mutex // protects what follows
	conns  []net.Conn
	broken bool // dials fail
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if to := c.to.Load(); to != nil {
		addr = *to
	}
	conn, err := c.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		conn.Close()
		return nil, context.DeadlineExceeded
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// cut closes the connections.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// unplug closes the connections and has dials fail until plug is called.
func (c *cable) unplug() {
	c.mu.Lock()
	c.broken = true
	c.mu.Unlock()
	c.cut()
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = false
}

// setUp returns the Config of a client of a real server, with a session timeout
// of 4 s, and the path of a directory that is the test's own.
func setUp(t *testing.T, zk *realzk.Server) (Config, *cable, string) {
	t.Helper()
	wires := new(cable)
	cfg := Config{Servers: []string{zk.Addr()}, SessionTimeout: 4 * time.Second, Dialer: wires.dial, Logger: quiet}
	name := strings.NewReplacer("/", "_").Replace(t.Name())
	return cfg, wires, fmt.Sprintf("/zkio/%s-%d", name, guids.Add(1))
}

// mustKeep makes dir as a persistent node: a container that a test leaves empty
// may be removed under it, since the server looks for those once a minute.
func mustKeep(t *testing.T, s *Session, dir string) {
	t.Helper()
	must(t, s.EnsureDir(parent(dir), nil))
	must(t, s.Create(dir, nil, nil))
}

// until waits until ok, for half a minute at most.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("half a minute later, still not: %s", what)
		}
	}
}

// TestRealCalls: a real server understands what is asked of it.
func TestRealCalls(t *testing.T) {
	t.Parallel()
	cfg, _, dir := setUp(t, realzk.Shared(t))
	cfg.Dialer = nil // the client resolves and dials by itself
	checkCalls(t, open(t, cfg), dir)
}

// TestRealAuth: credentials work, again after a reconnect, and refused ones are
// reported.
func TestRealAuth(t *testing.T) {
	t.Parallel()
	cfg, wires, dir := setUp(t, realzk.Shared(t))
	cfg.Auth = []Auth{{"digest", []byte("user:secret")}}
	c := open(t, cfg)
	s := c.Session()
	must(t, s.EnsureDir(dir, nil))
	must(t, s.Create(dir+"/mine", nil, []ACL{{PermAll, "auth", ""}}))
	for i := range uint64(3) {
		wires.cut()
		until(t, "reconnected", func() bool { return c.Stats().Reconnects > i })
		_, _, err := s.Get(dir + "/mine")
		must(t, err)
	}
	stranger := cfg
	stranger.Auth = nil
	other := open(t, stranger).Session()
	_, _, err := other.Get(dir + "/mine")
	wantErr(t, err, ErrNoAuth, Definite)
	checkACLs(t, s, other, dir+"/acls")

	stranger.Auth = []Auth{{"nonsense", []byte("x")}}
	_, err = Open(t.Context(), stranger)
	wantErr(t, err, ErrAuthFailed, Definite)
}

// TestRealReconnects reconnects fifty times with live watches and writers.
// go-zookeeper has a data race there if it owns the watches; so this runs
// under the race detector in earnest. No event may be lost either.
func TestRealReconnects(t *testing.T) {
	t.Parallel()
	const reconnects, watched, writers = 50, 100, 16
	cfg, wires, dir := setUp(t, realzk.Shared(t))
	c := open(t, cfg)
	s := c.Session()
	mustKeep(t, s, dir)
	other, _, _ := setUp(t, realzk.Shared(t))
	admin := open(t, other).Session()

	recorders := make([]recorder, watched)
	paths := make([]string, watched)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/n%03d", dir, i)
		must(t, admin.Create(paths[i], nil, nil))
		watchNode(t, s, paths[i], &recorders[i])
	}

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Set(dir, fmt.Appendf(nil, "%d", i), -1); err != nil && ClassOf(err) != Unknown && ClassOf(err) != NotSent {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range uint64(reconnects) {
		// A node goes while there is a connection, or while there is none.
		first, last := int(i)*watched/reconnects, int(i+1)*watched/reconnects
		for j := first; j < last; j++ {
			if j == first {
				wires.cut()
			}
			must(t, admin.Delete(paths[j], -1))
		}
		until(t, "reconnected", func() bool { return c.Stats().Reconnects > i })
		// A connection that is lost at once is not replaced at once.
		lasted := time.Now().Add(shortLived)
		until(t, "told", func() bool {
			for j := first; j < last; j++ {
				if !recorders[j].has(paths[j] + " deleted") {
					return false
				}
			}
			return time.Now().After(lasted)
		})
	}
	close(stop)
	wg.Wait()
	if err := s.Err(); err != nil || c.Session() != s {
		t.Errorf("the session was lost: %v", err)
	}
	for i := range recorders {
		if got := recorders[i].lines(); len(got) != 1 {
			t.Errorf("%s was told: %v", paths[i], got)
		}
	}
	t.Logf("%+v", c.Stats())
}

// TestRealExpiry: the session ends while the client is away; requests that
// waited meanwhile are not made in the next.
func TestRealExpiry(t *testing.T) {
	t.Parallel()
	cfg, wires, dir := setUp(t, realzk.Shared(t))
	var r recorder
	cfg.SessionTimeout = time.Second
	cfg.Listener = &r
	c := open(t, cfg)
	s := c.Session()
	mustKeep(t, s, dir)
	n := mustCreate(t, s, dir, nil)
	other, _, _ := setUp(t, realzk.Shared(t))
	admin := open(t, other).Session()

	wires.unplug()
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, err := s.conn.Create(fmt.Sprintf("%s/late%d", dir, i), nil, 0, zkACL(nil)) // past waitConnected
			errs[i] = s.wrapErr("create", dir, err)
		})
	}
	until(t, "expired", func() bool { _, ok, err := admin.Exists(n.Path()); must(t, err); return !ok })
	if s.Lease().InForce() || !r.has("lapsed") {
		t.Error("the lease outlived the node")
	}
	wires.plug()
	until(t, "a second session", func() bool { return c.Session() != s })
	wg.Wait()
	for _, err := range errs {
		if class := ClassOf(err); class != SessionOver && class != NotSent && class != Unknown {
			t.Errorf("%v is of class %v", err, class)
		}
	}
	if !s.Gone() {
		t.Error("not gone")
	}
	must(t, c.Session().Sync(dir))
	names, _, err := c.Session().Children(dir)
	must(t, err)
	if len(names) != 0 {
		t.Errorf("made in the next session: %v", names)
	}
}

// TestRealSilence: the client is cut off without a sign. Its lease must end
// before the server deletes its node.
func TestRealSilence(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			relay := realzk.NewRelay(t, zk.Addr())
			cfg, _, dir := setUp(t, zk)
			var r recorder
			cfg.SessionTimeout = 2 * time.Second
			cfg.Listener, cfg.Dialer, cfg.Servers = &r, nil, []string{relay.Addr()}
			c := open(t, cfg)
			s := c.Session()
			n := mustCreate(t, s, dir, nil)
			other, _, _ := setUp(t, zk)
			admin := open(t, other)
			var gone recorder
			watchNode(t, admin.Session(), n.Path(), &gone)
			// Each run begins the silence at another point of the ping's cycle.
			select {
			case <-time.After(time.Duration(i) * 300 * time.Millisecond):
			case <-t.Context().Done():
			}
			lease := s.Lease()
			relay.Cut()
			until(t, "the node is gone", func() bool { return len(gone.lines()) > 0 })
			now := time.Now()
			lapses, at := r.lapsed()
			if lease.InForce() || lapses != 1 {
				t.Fatalf("in force %v, lapses told %d", lease.InForce(), lapses)
			}
			t.Logf("the lease ended %v before the node, of %v", now.Sub(at), s.Timeout())
			if margin := now.Sub(at); margin < s.Timeout()/12 {
				t.Errorf("margin %v", margin)
			}
			relay.Mend()
		})
	}
}

// TestRealRestart: a server that crashes and comes back keeps the session and
// its nodes; the client resumes it, and the watches with it. Directories are
// containers, which the server removes when they have become empty.
func TestRealRestart(t *testing.T) {
	t.Parallel()
	zk := realzk.Start(t, realzk.JavaOption("-Dznode.container.checkIntervalMs=200"))
	cfg, _, dir := setUp(t, zk)
	cfg.SessionTimeout = 30 * time.Second
	c := open(t, cfg)
	s := c.Session()
	var r recorder
	n := mustCreate(t, s, dir, &r)
	zk.Kill()
	wantErr(t, settle(s, dir), ErrNotSent, NotSent)
	until(t, "the reason is known", func() bool { return strings.HasSuffix(c.hosts.why(), ": connection refused") })
	zk.Restart()
	until(t, "reconnected", func() bool { return c.Stats().Reconnects > 0 })
	if s.Err() != nil {
		t.Fatalf("the session was lost: %v", s.Err())
	}
	must(t, s.Prove(n.Path()))
	must(t, s.Delete(n.Path(), -1))
	until(t, "told", func() bool { return r.has(n.Path() + " deleted") })
	must(t, n.Delete(s))
	until(t, "the directory is gone", func() bool { _, ok, err := s.Exists(dir); must(t, err); return !ok })
	wantErr(t, n.Create(s), ErrNoNode, Definite)
}

// settle syncs until the outcome is known.
func settle(s *Session, path string) error {
	err := s.Sync(path)
	for ClassOf(err) == Unknown && err != nil {
		err = s.Sync(path)
	}
	return err
}

// TestRealRestoredEnsemble: a server that has seen less than the client closes
// the connection unanswered. In the end the client begins a new session.
func TestRealRestoredEnsemble(t *testing.T) {
	t.Parallel()
	shared, fresh := realzk.Shared(t), realzk.Start(t)
	cfg, wires, dir := setUp(t, shared)
	cfg.SessionTimeout = time.Second
	c := open(t, cfg)
	s := c.Session()
	must(t, s.EnsureDir(dir, nil))
	for range 100 {
		if _, err := s.Set(dir, nil, -1); err != nil && ClassOf(err) != Unknown { // the machine may be slow
			t.Fatal(err)
		}
	}
	began := time.Now()
	addr := fresh.Addr()
	wires.to.Store(&addr)
	wires.cut()
	until(t, "a second session", func() bool { return c.Session() != s })
	if took := time.Since(began); took < 2*s.Timeout() {
		t.Errorf("gave up after %v", took)
	}
	if s.Gone() {
		t.Error("Gone, though no server has said so")
	}
	until(t, "made anew", func() bool { return c.Session().EnsureDir(dir, nil) == nil })
}

// TestRealClose: the nodes of a client that was closed are gone at once.
func TestRealClose(t *testing.T) {
	t.Parallel()
	cfg, _, dir := setUp(t, realzk.Shared(t))
	c := open(t, cfg)
	mustKeep(t, c.Session(), dir)
	n := mustCreate(t, c.Session(), dir, nil)
	began := time.Now()
	mustClose(t, c)
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("Close took %v", took)
	}
	names, _, err := open(t, cfg).Session().Children(dir)
	must(t, err)
	if slices.Contains(names, n.Name()) {
		t.Error("the node is there still")
	}
}
