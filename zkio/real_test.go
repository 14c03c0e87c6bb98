// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

// These tests need a real ZooKeeper, because only it, or only real sockets,
// can show what they are about.

// cut closes the connection of a session.
func cut(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link.wire != nil {
		s.link.wire.raw.Close()
	}
}

// setUp returns the Config of a client of a real server, with a session timeout
// of 4 s, and the path of a directory that is the test's own.
func setUp(t *testing.T, zk *realzk.Server) (Config, string) {
	t.Helper()
	cfg := Config{Servers: []string{zk.Addr()}, SessionTimeout: 4 * time.Second, Logger: quiet}
	return cfg, fmt.Sprintf("/zkio/%s-%d", strings.ReplaceAll(t.Name(), "/", "_"), guids.Add(1))
}

// isOld reports whether the server is older than ZooKeeper 3.6, and has the client find that out:
// such a server ends the connection on which it is first asked to read several nodes at once.
func isOld(t *testing.T, s *Session) bool {
	t.Helper()
	s.GetAll("/", "/zookeeper")
	eventually(t, "connected", func() bool { return s.Sync("/") == nil })
	return s.noMultiRead.Load()
}

// TestRealCalls: a real server understands what is asked of it.
func TestRealCalls(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	checkCalls(t, cfg, dir)
}

// TestRealAuth is TestAuth with a real server.
func TestRealAuth(t *testing.T) {
	t.Parallel()
	cfg, dir := setUp(t, realzk.Shared(t))
	checkAuth(t, cfg, dir, realzk.Before(t, "3.8"), cut)
}

// TestRealReconnects reconnects fifty times with live watches and writers, which
// is where go-zookeeper has a data race if it owns the watches. No event is lost.
func TestRealReconnects(t *testing.T) {
	t.Parallel()
	const reconnects, watched, writers = 50, 2 * 50, 16
	cfg, dir := setUp(t, realzk.Shared(t))
	c, admin := open(t, cfg), open(t, cfg).Session()
	s := c.Session()
	must(t, s.EnsureDir(parent(dir), nil))
	must(t, s.Create(dir, nil, nil)) // the server would remove an empty container

	recorders := make([]recorder, watched)
	paths := make([]string, watched)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/n%03d", dir, i)
		must(t, admin.Create(paths[i], nil, nil))
		watchNode(t, s, paths[i], &recorders[i])
	}

	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := s.Set(dir, fmt.Appendf(nil, "%d", i), -1); err != nil && ClassOf(err) != Unknown && ClassOf(err) != NotSent {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range uint64(reconnects) {
		// A node goes while there is a connection, or while there is none.
		first, second := 2*i, 2*i+1
		cut(s)
		must(t, admin.Delete(paths[first], -1))
		must(t, admin.Delete(paths[second], -1))
		eventually(t, "reconnected", func() bool { return c.Stats().Reconnects > i })
		// A connection that is lost at once is not replaced at once.
		lasted := time.Now().Add(shortLived)
		eventually(t, "told", func() bool {
			return recorders[first].has(paths[first]+" deleted") && recorders[second].has(paths[second]+" deleted") && time.Now().After(lasted)
		})
	}
	stop.Store(true)
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

// TestRealSilence: the client is cut off without a sign. Its lease ends before the
// server deletes its node; when it comes back, its session is over.
func TestRealSilence(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			relay := realzk.NewRelay(t, zk.Addr())
			cfg, dir := setUp(t, zk)
			admin := open(t, cfg).Session()
			var r, gone recorder
			cfg.SessionTimeout = 2 * time.Second
			cfg.Listener, cfg.Servers = &r, []string{relay.Addr()}
			c := open(t, cfg)
			s := c.Session()
			n := mustCreate(t, s, dir, nil)
			watchNode(t, admin, n.Path(), &gone)
			// Each run begins the silence at another point of the ping's cycle.
			select {
			case <-time.After(time.Duration(i) * 300 * time.Millisecond):
			case <-t.Context().Done():
			}
			lease := s.Lease()
			relay.Cut()
			eventually(t, "the node is gone", func() bool { return len(gone.lines()) > 0 })
			now := time.Now()
			lapses, at := r.lapsed()
			if margin := now.Sub(at); lease.InForce() || lapses != 1 || margin < s.Timeout()/12 {
				t.Errorf("in force %v, lapses told %d, the last one %v before the node was gone", lease.InForce(), lapses, margin)
			}
			relay.Mend()
			eventually(t, "a second session", func() bool { return c.Session() != s })
			if !s.Gone() {
				t.Error("the first session is not gone")
			}
		})
	}
}

// TestRealRestart: a server that crashes and comes back keeps the session and its
// nodes; the client resumes it, with its watches. The server removes directories
// that have become empty, since they are containers.
func TestRealRestart(t *testing.T) {
	t.Parallel()
	zk := realzk.Start(t, realzk.JavaOption("-Dznode.container.checkIntervalMs=200"))
	cfg, dir := setUp(t, zk)
	cfg.SessionTimeout = 30 * time.Second
	c := open(t, cfg)
	s := c.Session()
	var r recorder
	n := mustCreate(t, s, dir, &r)
	zk.Kill()
	wantErr(t, settle(s, dir), ErrNotSent, NotSent)
	eventually(t, "the reason is known", func() bool { return strings.HasSuffix(c.hosts.why(), ": connection refused") })
	zk.Restart()
	eventually(t, "reconnected", func() bool { return c.Stats().Reconnects > 0 })
	if s.Err() != nil {
		t.Fatalf("the session was lost: %v", s.Err())
	}
	must(t, s.Prove(n.Path()))
	must(t, s.Delete(n.Path(), -1))
	eventually(t, "told", func() bool { return r.has(n.Path() + " deleted") })
	must(t, n.Delete(s))
	eventually(t, "the directory is gone", func() bool { _, ok, err := s.Exists(dir); must(t, err); return !ok })
	wantErr(t, n.Create(s), ErrNoNode, Definite)
}

// TestRealRestoredEnsemble is TestRestoredEnsemble with real servers.
func TestRealRestoredEnsemble(t *testing.T) {
	t.Parallel()
	shared, fresh := realzk.Shared(t), realzk.Start(t)
	cfg, dir := setUp(t, shared)
	var to atomic.Pointer[realzk.Server]
	to.Store(shared)
	cfg.SessionTimeout = time.Second
	cfg.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, to.Load().Addr())
	}
	c := open(t, cfg)
	s := c.Session()
	must(t, s.EnsureDir(dir, nil))
	for range 100 {
		if _, err := s.Set(dir, nil, -1); err != nil && ClassOf(err) != Unknown { // the machine may be slow
			t.Fatal(err)
		}
	}
	checkRestored(t, c, func() { to.Store(fresh); cut(s) })
	eventually(t, "made anew", func() bool { return c.Session().EnsureDir(dir, nil) == nil })
}
