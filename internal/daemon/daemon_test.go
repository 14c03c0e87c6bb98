// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/realzk"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// start starts a cluster for this test.
func start(t *testing.T, k Kind, n int) *Cluster {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	c, err := RunCluster(t.Context(), k, n)
	if errors.Is(err, foreign.ErrNotInstalled) {
		realzk.NotRun(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, error %v", left, err)
		}
	})
	return c
}

// The servers of etcd elect another leader when theirs is killed or stopped, and take it back.
func TestEtcdElects(t *testing.T) {
	c, ctx := start(t, Etcd, 3), t.Context()
	first, err := c.Settled(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, hurt := range map[string]func(id int) (heal func() error, err error){
		"killed": func(id int) (func() error, error) { return func() error { return c.Restart(ctx, id) }, c.Kill(id) },
		"paused": func(id int) (func() error, error) { return func() error { return c.Resume(id) }, c.Pause(id) },
	} {
		heal, err := hurt(first)
		if err != nil {
			t.Fatal(name, err)
		}
		next, err := c.Leader(ctx)
		if err != nil || next == first {
			t.Errorf("%s: server %d leads after server %d, %v", name, next, first, err)
		}
		if err := heal(); err != nil {
			t.Fatal(name, err)
		}
		if first, err = c.Settled(ctx); err != nil {
			t.Fatal(name, err)
		}
		if followers, err := c.Followers(ctx); err != nil || len(followers) != 2 {
			t.Errorf("%s: followers %v, %v", name, followers, err)
		}
	}
}

// The servers of Redis serve each by itself, and one that was killed has its data again.
func TestRedisIsRestarted(t *testing.T) {
	c, ctx := start(t, RedisDurable, 3), t.Context()
	if leader, err := c.Settled(ctx); leader != 0 || err != nil {
		t.Errorf("leader %d, %v", leader, err)
	}
	if _, err := c.Leader(ctx); err == nil {
		t.Error("a server leads")
	}
	tell := func(command, answer string) {
		t.Helper()
		if err := c.servers[1].answers(ctx, command+"\r\n", answer); err != nil {
			t.Error(command, err)
		}
	}
	tell("SET key value", "+OK")
	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Followers(ctx); err != nil || len(all) != 2 {
		t.Errorf("serving: %v, %v", all, err)
	}
	if err := c.Restart(ctx, 2); err != nil {
		t.Fatal(err)
	}
	tell("GET key", "value")
}

// The error of a server that fails to start has its log, and nothing is left behind.
func TestServerThatEnds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	broken := Redis
	broken.args = func(string, int, []ports) []string { return []string{"--no-such-option", "1"} }
	s, err := Run(t.Context(), broken)
	if errors.Is(err, foreign.ErrNotInstalled) {
		realzk.NotRun(t, err.Error())
	}
	if err == nil {
		_ = s.Stop()
		t.Fatal("it started")
	}
	if !strings.Contains(err.Error(), "no-such-option") || !strings.Contains(err.Error(), "it exited") {
		t.Errorf("%v; want that it exited, and its log", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}
