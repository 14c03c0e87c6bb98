// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// Open without a server that answers ends with its context, and says which
// addresses were tried and why each of them failed.
func TestOpenWithoutServers(t *testing.T) {
	bubble(t, func(c *cluster) {
		answers := map[string]error{
			"zk1:2181": errors.New("connect: connection refused"),
			"zk2:2182": &net.DNSError{Err: "no such host", Name: "zk2", IsNotFound: true},
		}
		cfg := c.config("a")
		cfg.Servers = []string{"zk1", "zk2:2182", "zk3:2183"}
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := answers[address]; err != nil {
				return nil, err
			}
			conn, _ := net.Pipe() // takes the connection and says nothing
			return conn, nil
		}
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errGaveUp)
		defer cancel()
		start := time.Now()
		m, err := Open(ctx, cfg)
		var e *Error
		if m != nil || !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errGaveUp) {
			c.t.Errorf("got %v, want both errors of the context", err)
		}
		for _, part := range []string{"zk1:2181", "connection refused", "zk2:2182", "no such host", "zk3:2183"} {
			if !strings.Contains(err.Error(), part) {
				c.t.Errorf("the error does not say %q:\n%v", part, err)
			}
		}
		if d := time.Since(start); d < time.Minute || d > time.Minute+moment {
			c.t.Errorf("it took %v", d)
		}
	})
}

// The server comes while Open waits: it succeeds.
func TestOpenWaitsForTheServer(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.srv.Faults().RefuseFor(30 * time.Second)
		start := time.Now()
		l := c.lock("a")
		if d := time.Since(start); d < 30*time.Second || d > 40*time.Second {
			c.t.Errorf("it took %v", d)
		}
		mustRelease(c.t, mustLock(c.t, l))
	})
}

// One server of several answers.
func TestOpenFindsTheOneThatAnswers(t *testing.T) {
	bubble(t, func(c *cluster) {
		for i := range 5 { // the order is random
			cfg := c.config("a")
			cfg.Servers = []string{"dead1", "hung", "zk1", "dead2"}
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				switch address {
				case "zk1:2181":
					return c.srv.Dial(ctx, network, address)
				case "hung:2181":
					conn, _ := net.Pipe()
					return conn, nil
				}
				return nil, errors.New("connection refused")
			}
			start := time.Now()
			m, err := Open(c.t.Context(), cfg)
			wantErr(c.t, "open", err, nil)
			if d := time.Since(start); d > 15*time.Second {
				c.t.Errorf("%d: it took %v", i, d)
			}
			wantErr(c.t, "close", m.Close(), nil)
		}
	})
}

// Open whose context has ended, or ends at any moment, leaves nothing behind.
func TestOpenGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		ctx, cancel := context.WithCancelCause(c.t.Context())
		cancel(errGaveUp)
		_, err := Open(ctx, c.config("a"))
		wantErr(c.t, "open with a context that has ended", err, errGaveUp)
	})
	for _, before := range []verb{connect, lookAtDir, makeDir, list, deleteNode} {
		bubble(t, func(c *cluster) {
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
			select {
			case <-stop.arrived:
			default:
				wantErr(c.t, "open", <-done, nil) // which makes no such request
				return
			}
			start := time.Now()
			later(5 * time.Second)
			close(stop.resume)
			if err := <-done; err != nil {
				wantErr(c.t, "open given up before it could "+string(before), err, errGaveUp)
			}
			if d := time.Since(start); d > 15*time.Second {
				c.t.Errorf("before %s: it took %v", before, d)
			}
			later(time.Minute)
			if n := len(c.srv.Sessions()); n != 0 {
				c.t.Errorf("%d sessions are left", n)
			}
		})
	}
}

// What the server refuses for good, Open says at once.
func TestOpenRefused(t *testing.T) {
	for _, test := range []struct {
		what string
		with func(*Config)
		want error
		says string
	}{
		{"an ACL that nobody could use", func(cfg *Config) {
			cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: "nosuchscheme", ID: "x"}}
		}, zkio.ErrInvalidACL, "Config.ACL"},
		{"the ACL of the credentials, without any", func(cfg *Config) {
			cfg.ACL = []zkio.ACL{{Perms: zkio.PermAll, Scheme: "auth"}}
		}, zkio.ErrInvalidACL, "Config.ACL"},
		{"credentials of an unknown kind", func(cfg *Config) {
			cfg.Auth = []zkio.Auth{{Scheme: "nosuchscheme", Data: []byte("x")}}
		}, zkio.ErrAuthFailed, ""},
		{"a root below an ephemeral node", func(cfg *Config) { cfg.Root = "/ephemeral/root" }, zkio.ErrNoChildrenForEphemerals, "Config.Root"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				if err := c.srv.CreateEphemeral(session(c.open("other")), "/ephemeral", nil); err != nil {
					c.t.Fatal(err)
				}
				cfg := c.config("a")
				test.with(&cfg)
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := Open(ctx, cfg)
				var e *Error
				if !errors.As(err, &e) || e.Op != "open" || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
					c.t.Errorf("got %v, want %v and %q", err, test.want, test.says)
				}
				if d := time.Since(start); d > 10*time.Second {
					c.t.Errorf("it took %v", d)
				}
				// A server that refuses credentials closes the connection: the
				// session cannot be closed, and has to time out.
				later(time.Minute)
				if n := len(c.srv.Sessions()); n != 1 {
					c.t.Errorf("%d sessions, want the other's only", n)
				}
			})
		})
	}
}

// The server changes the session timeout to fit its bounds: a margin that does
// not fit it is refused, with what to do.
func TestOpenMarginThatDoesNotFit(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := c.config("a")
		cfg.SessionTimeout, cfg.LostMargin = 4*time.Minute, 50*time.Second // the server grants 40 s
		_, err := Open(c.t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "LostMargin") || !strings.Contains(err.Error(), "40s") {
			c.t.Errorf("got %v", err)
		}
	})
}

// Other roots, other places.
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
			if n := len(c.srv.Children(node)); n != 1 || l.Path() != node || l.Name() != "jobs" {
				c.t.Errorf("root %q: %d nodes below %s; the lock is %q at %q", root, n, node, l.Name(), l.Path())
			}
			mustRelease(c.t, h)
		}
	})
}
