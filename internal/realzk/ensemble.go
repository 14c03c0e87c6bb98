// SPDX-License-Identifier: Apache-2.0

package realzk

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk/child"
)

// An Ensemble is a [Cluster] for one test. Its methods block, fail the test on error, and
// must be called by the test's goroutine.
//
// Its servers can be paused, killed and restarted like any [Server].
type Ensemble struct {
	tb      testing.TB
	c       *Cluster
	servers []*Server // server i has the number i+1
}

// StartEnsemble starts an ensemble of n servers for this test and returns when a
// leader and its followers serve. The end of the test kills them and, if it failed,
// logs the end of each server's log. The options are those of [RunEnsemble].
//
// Without ZooKeeper, and with -short, StartEnsemble skips the test; see the package
// documentation.
func StartEnsemble(tb testing.TB, n int, opts ...Option) *Ensemble {
	tb.Helper()
	Require(tb)
	cfg := newConfig(opts)
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	began := time.Now()
	c, err := runEnsemble(tb.Context(), cfg, n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
		if tb.Failed() {
			for _, p := range c.members {
				tb.Logf("the log of server %d, ZooKeeper at %s, ends with:\n%s", p.ID(), p.Addr(), child.LogSince(p.LogFile(), 0, 100))
			}
		}
	})
	e := &Ensemble{tb: tb, c: c}
	for _, p := range c.members {
		e.servers = append(e.servers, &Server{p: p, tb: tb})
	}
	leader := e.Leader()
	tb.Logf("an ensemble of %d servers started in %v; server %d leads", n, time.Since(began).Round(time.Millisecond), leader.p.ID())
	return e
}

// Servers returns all servers in the order of their numbers.
func (e *Ensemble) Servers() []*Server { return slices.Clone(e.servers) }

// Others returns all servers except s.
func (e *Ensemble) Others(s *Server) []*Server {
	return slices.DeleteFunc(e.Servers(), func(other *Server) bool { return other == s })
}

// Addrs returns the addresses of servers, as host:port.
func Addrs(servers ...*Server) []string {
	addrs := make([]string, 0, len(servers))
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader waits until a server leads, and returns it. It ignores isolated servers.
func (e *Ensemble) Leader() *Server {
	e.tb.Helper()
	return e.await(e.c.Leader)
}

// Follower waits until a server that is not isolated follows, and returns it.
func (e *Ensemble) Follower() *Server {
	e.tb.Helper()
	return e.await(func(ctx context.Context) (int, error) {
		followers, err := e.c.Followers(ctx)
		if err != nil {
			return 0, err
		}
		return followers[0], nil
	})
}

// Settled waits until all servers that are not isolated serve, and returns the leader.
func (e *Ensemble) Settled() *Server {
	e.tb.Helper()
	return e.await(e.c.Settled)
}

// await returns the server for which wait waits, and for at most a minute.
func (e *Ensemble) await(wait func(context.Context) (id int, err error)) *Server {
	e.tb.Helper()
	ctx, cancel := context.WithTimeout(e.tb.Context(), time.Minute)
	defer cancel()
	id, err := wait(ctx)
	if err != nil {
		e.tb.Fatal(err)
	}
	return e.servers[id-1]
}

// Isolate cuts a server off from the others: see [Cluster.Isolate].
func (e *Ensemble) Isolate(s *Server) {
	e.tb.Helper()
	if !slices.Contains(e.servers, s) {
		e.tb.Fatalf("realzk: the server at %s does not belong to this ensemble", s.Addr())
	}
	if err := e.c.Isolate(s.p.ID()); err != nil {
		e.tb.Fatal(err)
	}
}

// Heal ends all isolation.
func (e *Ensemble) Heal() { e.c.Heal() }
