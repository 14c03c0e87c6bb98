// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/jute"
	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
)

// A backend is a server for a test that does not care which: the embedded one in
// virtual time, or a real one.
type backend struct {
	t    *testing.T
	zk   *realzk.Server // nil for the embedded server
	root string
	addr string
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	log  *records
}

// everywhere runs test on the embedded server and on a real one.
func everywhere(t *testing.T, test func(s *backend)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			test(&backend{t: c.t, root: defaultRoot, addr: "zk1:2181", dial: c.srv.Dial, log: c.log})
		})
	})
	t.Run("real", func(t *testing.T) { test(realBackend(t, realzk.Shared(t))) })
}

// realBackend returns a backend on a real server, with a root of its own.
func realBackend(t *testing.T, zk *realzk.Server) *backend {
	return &backend{t: t, zk: zk, root: ownRoot(t), addr: zk.Addr(), dial: new(net.Dialer).DialContext, log: new(records)}
}

// config returns the configuration of a manager called label.
func (s *backend) config(label string, with ...func(*Config)) Config {
	cfg := Config{Servers: []string{s.addr}, Dialer: s.dial, Root: s.root, Label: label, Logger: slog.New(s.log)}
	for _, f := range with {
		f(&cfg)
	}
	return cfg
}

// open opens a manager. The test closes it when it ends.
func (s *backend) open(label string, with ...func(*Config)) *Manager {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	m, err := Open(ctx, s.config(label, with...))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			s.t.Logf("close of %s: %v", label, err)
		}
	})
	return m
}

// lock opens a manager and returns its lock "jobs".
func (s *backend) lock(label string, with ...func(*Config)) *Lock {
	s.t.Helper()
	return exclusive(s.t, s.open(label, with...), "jobs")
}

// rw opens a manager and returns its read/write lock "jobs".
func (s *backend) rw(label string) *RWLock {
	s.t.Helper()
	return readWrite(s.t, s.open(label), "jobs")
}

// granted waits for the grant of h.
func (s *backend) granted(h Hold) Grant {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	g, err := h.Granted().Wait(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

// until polls ok, for up to a minute.
func (s *backend) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("still not after a minute: %s", what)
		}
	}
}

// queue returns the names of the nodes in the queue of l.
func (s *backend) queue(l *Lock) []string {
	s.t.Helper()
	names, _, err := l.m.client.Session().Children(l.path)
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

// untilQueued waits until n contenders are in the queue of l.
func (s *backend) untilQueued(l *Lock, n int) {
	s.t.Helper()
	s.until("all are queued", func() bool { return len(s.queue(l)) == n })
}

// watchers returns how many sessions watch the node at path.
func (s *backend) watchers(path string) int {
	n, at := 0, false
	for line := range strings.Lines(s.zk.FourLetterWord("wchp")) {
		switch {
		case strings.HasPrefix(line, "/"):
			at = strings.TrimSpace(line) == path
		case at && strings.TrimSpace(line) != "":
			n++
		}
	}
	return n
}

// refused returns the error of Open, which must not take long.
func (s *backend) refused(label string, with ...func(*Config)) error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	m, err := Open(ctx, s.config(label, with...))
	if err == nil {
		_ = m.Close()
		s.t.Fatalf("%s is not refused", label)
	}
	if d := time.Since(start); d > 10*time.Second {
		s.t.Errorf("%s is refused after %v", label, d)
	}
	return err
}

// session opens a ZooKeeper session with the given credentials, each written
// name:password.
func (s *backend) session(users ...string) *zkio.Session {
	s.t.Helper()
	cfg := zkio.Config{Servers: []string{s.addr}, Dialer: s.dial, Logger: slog.New(slog.DiscardHandler)}
	for _, user := range users {
		cfg.Auth = append(cfg.Auth, zkio.Auth{Scheme: "digest", Data: []byte(user)})
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	c, err := zkio.Open(ctx, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the server may be gone already
	})
	return c.Session()
}

// digest returns the id of a user, written name:password, in ZooKeeper's digest
// scheme.
func digest(user string) string {
	name, _, _ := strings.Cut(user, ":")
	sum := sha1.Sum([]byte(user)) // prescribed by the scheme
	return name + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// setACL changes the ACL of a node that belongs to owner. It speaks the protocol
// itself, because zkio has no such request.
func (s *backend) setACL(path string, acl ...zkio.ACL) {
	s.t.Helper()
	conn, err := s.dial(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	ask := func(b []byte) *jute.Reader {
		if _, err := conn.Write(jute.Frame(b)); err != nil {
			s.t.Fatal(err)
		}
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			s.t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, answer); err != nil {
			s.t.Fatal(err)
		}
		return jute.NewReader(answer)
	}
	call := func(what string, xid, op int32, body []byte) {
		b := jute.AppendInt32(jute.AppendInt32(make([]byte, 4), xid), op)
		r := ask(append(b, body...))
		r.Int32()
		r.Int64()
		if code := r.Int32(); code != jute.ErrOK || r.Err() != nil {
			s.t.Fatalf("%s: code %d, %v", what, code, r.Err())
		}
	}

	b := jute.AppendInt64(jute.AppendInt32(make([]byte, 4), 0), 0) // protocol version, last zxid seen
	b = jute.AppendInt64(jute.AppendInt32(b, 10_000), 0)           // timeout, no session yet
	ask(jute.AppendBuffer(b, make([]byte, 16)))
	b = jute.AppendString(jute.AppendInt32(nil, 0), "digest")
	call("auth", jute.XidAuth, jute.OpAuth, jute.AppendBuffer(b, []byte(owner)))
	b = jute.AppendInt32(jute.AppendString(nil, path), int32(len(acl)))
	for _, a := range acl {
		b = jute.AppendString(jute.AppendString(jute.AppendInt32(b, a.Perms), a.Scheme), a.ID)
	}
	call("set the ACL of "+path, 1, jute.OpSetACL, jute.AppendInt32(b, -1))
	call("close", 2, jute.OpClose, nil)
}
