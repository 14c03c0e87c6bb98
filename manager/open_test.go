// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// dialed makes a manager reach the server at zk1, and no other: each address has an
// error to fail with, or takes the connection and stays silent.
func (c *cluster) dialed(answers map[string]error) func(*Config) {
	return func(cfg *Config) {
		cfg.Servers = []string{"zk2:2182", "zk3:2183", "zk4"}
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "zk1:2181" {
				return c.srv.Dial(ctx, network, address)
			}
			if err := answers[address]; err != nil {
				return nil, err
			}
			conn, _ := net.Pipe()
			return conn, nil
		}
	}
}

// Where no server answers, Open ends with its context, and says which addresses were
// tried and why each of them failed.
func TestOpenWithoutServers(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := c.config("a")
		c.dialed(map[string]error{
			"zk4:2181": errors.New("connect: connection refused"),
			"zk2:2182": &net.DNSError{Err: "no such host", Name: "zk2", IsNotFound: true},
		})(&cfg)
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errGaveUp)
		defer cancel()
		start := time.Now()
		_, err := Open(ctx, cfg)
		wantErr(c.t, "open", err, context.DeadlineExceeded)
		wantErr(c.t, "open", err, errGaveUp)
		wantSays(c.t, err, "holdfast: open: ", "zk4:2181", "connection refused", "zk2:2182", "no such host", "zk3:2183")
		wantTook(c.t, start, time.Minute, time.Minute+moment)
	})
}

// The server comes up while Open waits.
func TestOpenWaitsForTheServer(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.srv.Faults().RefuseFor(30 * time.Second)
		start := time.Now()
		l := c.lock("a")
		wantTook(c.t, start, 30*time.Second, 40*time.Second)
		c.cycle(l)
	})
}

// One server of several answers.
func TestOpenFindsTheOneThatAnswers(t *testing.T) {
	bubble(t, func(c *cluster) {
		refused := errors.New("connection refused")
		for range 5 { // the order is random
			start := time.Now()
			m := c.open("a", c.dialed(map[string]error{"zk2:2182": refused, "zk3:2183": refused}), func(cfg *Config) { cfg.Servers = append(cfg.Servers, "zk1") })
			wantTook(c.t, start, 0, 15*time.Second)
			wantErr(c.t, "close", m.Close(), nil)
		}
	})
}

// Open whose context has ended, or ends before any of its requests, leaves nothing
// behind.
func TestOpenGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		ctx, cancel := context.WithCancelCause(c.t.Context())
		cancel(errGaveUp)
		wantErr(c.t, "open with a context that has ended", errOf(Open(ctx, c.config("a"))), errGaveUp)
	})
	for _, before := range []verb{connect, lookAtDir, makeDir, list, deleteNode} {
		subtest(t, "before "+string(before), func(c *cluster) {
			stop := c.stopBefore(nil, before)
			ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				m, err := Open(ctx, c.config("a"))
				if err == nil {
					err = m.Close()
				}
				done <- err
			}()
			synctest.Wait()
			if !isClosed(stop.arrived) {
				wantErr(c.t, "open, which sends no such request", <-done, nil)
				return
			}
			start := time.Now()
			later(5 * time.Second)
			close(stop.resume)
			if err := <-done; err != nil {
				wantErr(c.t, "open", err, errGaveUp)
			}
			wantTook(c.t, start, 0, 15*time.Second)
			later(time.Minute)
			wantEq(c.t, "sessions are left", len(c.srv.Sessions()), 0)
		})
	}
}

// Open that is given up while its request is not answered closes its session: the node that the
// server has made goes at once, and not when the session times out.
func TestF371_OpenGivenUpWithoutAnAnswer(t *testing.T) {
	bubble(t, func(c *cluster) {
		swallowed := c.srv.Faults().SwallowReply(zktest.Match{Path: "/holdfast/_c_", Times: 1})
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		start := time.Now()
		wantErr(c.t, "open", errOf(Open(ctx, c.config("a"))), errGaveUp)
		wantEq(c.t, "answers were swallowed", swallowed.Hits(), 1)
		wantTook(c.t, start, time.Second, time.Second+moment)
		wantEq(c.t, "sessions are left", len(c.srv.Sessions()), 0)
	})
}

// Open returns at once what the server refuses for good.
func TestOpenRefused(t *testing.T) {
	type refusal struct {
		with func(*Config)
		want error
		says string
	}
	acl := func(scheme, id string) func(*Config) {
		return func(cfg *Config) { cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: scheme, ID: id}} }
	}
	each(t, map[string]refusal{
		"an ACL for an unknown scheme":      {acl("nosuchscheme", "x"), zkio.ErrInvalidACL, "Config.ACL"},
		"the credentials' ACL, without any": {acl("auth", ""), zkio.ErrInvalidACL, "Config.ACL"},
		"credentials of an unknown scheme":  {func(cfg *Config) { cfg.Auth = []zkio.Auth{{Scheme: "nosuchscheme", Data: []byte("x")}} }, zkio.ErrAuthFailed, ""},
		"a root below an ephemeral node":    {func(cfg *Config) { cfg.Root = "/ephemeral/root" }, zkio.ErrNoChildrenForEphemerals, "Config.Root"},
	}, func(c *cluster, test refusal) {
		wantErr(c.t, "create", c.srv.CreateEphemeral(session(c.open("other")), "/ephemeral", nil), nil)
		cfg := c.config("a")
		test.with(&cfg)
		ctx := withTimeout(c.t, 10*time.Second)
		_, err := Open(ctx, cfg)
		wantErr(c.t, "open", err, test.want)
		wantSays(c.t, err, "holdfast: open: ", test.says)
		// A server that refuses credentials closes the connection: the session
		// cannot be closed, and has to time out.
		later(time.Minute)
		wantEq(c.t, "sessions, with the other's", len(c.srv.Sessions()), 1)
	})
}

// The server grants another session timeout than was asked for. Open refuses a margin
// that does not fit it, and says what to do.
func TestOpenMarginThatDoesNotFit(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := c.config("a")
		cfg.SessionTimeout, cfg.LostMargin = 4*time.Minute, 50*time.Second // the server grants 40 s
		_, err := Open(c.t.Context(), cfg)
		wantSays(c.t, err, "LostMargin", "40s")
	})
}

// The root decides where a lock's directory is.
func TestRoots(t *testing.T) {
	bubble(t, func(c *cluster) {
		for root, node := range map[string]string{
			"/":           "/jobs",
			"/a/b/c":      "/a/b/c/jobs",
			"/holdfast":   "/holdfast/jobs",
			"/grüße/日本 x": "/grüße/日本 x/jobs",
		} {
			l := c.lock(root, func(cfg *Config) { cfg.Root = root })
			h := mustLock(c.t, l)
			n := len(c.srv.Children(node))
			expect(c.t, n == 1 && l.Path() == node && l.Name() == "jobs",
				"root %q: %d nodes below %s; the lock is %q at %q", root, n, node, l.Name(), l.Path())
			c.unlock(h)
		}
	})
}

// A chroot that does not exist is refused, and not made: a process that mistypes it would
// have locks of its own, beside those that the others share. If it exists, the root below
// it is made.
func TestF321_ChrootIsMissing(t *testing.T) {
	everywhere(t, func(s *backend) {
		below := func(chroot string) func(*Config) {
			return func(cfg *Config) { cfg.Chroot, cfg.Root = chroot, "/holdfast" }
		}
		root := s.open("maker").cfg.Root
		err := s.refused("a", below(root+"/prdo"))
		wantErr(s.t, "open", err, ErrNoChroot)
		wantSays(s.t, err, "there is no "+root+"/prdo: is it mistyped?")
		session := s.open("looker").client.Session()
		_, there, err := session.Exists(root + "/prdo")
		expect(s.t, !there && err == nil, "it was made, or %v", err)
		wantErr(s.t, "create", session.Create(root+"/prod", nil, nil), nil)
		m := s.open("b", below(root+"/prod"))
		got := m.cfg.Root
		expect(s.t, got == root+"/prod/holdfast", "the root is %s", got)
	})
}
