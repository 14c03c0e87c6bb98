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

// premises are a server to run a test on that does not know which: the embedded
// one, in virtual time, or a real one.
type premises struct {
	t    *testing.T
	root string
	addr string
	via  func(ctx context.Context, network, address string) (net.Conn, error)
	log  *records
}

// everywhere runs test on the embedded server and on a real one.
func everywhere(t *testing.T, test func(p *premises)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			test(&premises{t: c.t, root: defaultRoot, addr: "zk1:2181", via: c.srv.Dial, log: c.log})
		})
	})
	t.Run("real", func(t *testing.T) {
		zk := realzk.Shared(t)
		test(&premises{t: t, root: ownRoot(t), addr: zk.Addr(), via: new(net.Dialer).DialContext, log: new(records)})
	})
}

// config is what a manager called label is opened with.
func (p *premises) config(label string, with ...func(*Config)) Config {
	cfg := Config{Servers: []string{p.addr}, Dialer: p.via, Root: p.root, Label: label, Logger: slog.New(p.log)}
	for _, f := range with {
		f(&cfg)
	}
	return cfg
}

// open opens a manager, and has it closed when the test ends.
func (p *premises) open(label string, with ...func(*Config)) *Manager {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	m, err := Open(ctx, p.config(label, with...))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			p.t.Logf("close of %s: %v", label, err)
		}
	})
	return m
}

// refused returns the error of Open, which it has to return soon.
func (p *premises) refused(label string, with ...func(*Config)) error {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	m, err := Open(ctx, p.config(label, with...))
	if err == nil {
		p.t.Errorf("%s is not refused", label)
		_ = m.Close() // it should not be there
		return nil
	}
	if d := time.Since(start); d > 10*time.Second {
		p.t.Errorf("%s is refused after %v", label, d)
	}
	return err
}

// session opens a ZooKeeper session that has nothing to do with locks.
func (p *premises) session(users ...string) *zkio.Session {
	p.t.Helper()
	cfg := zkio.Config{Servers: []string{p.addr}, Dialer: p.via, Logger: slog.New(slog.DiscardHandler)}
	for _, user := range users {
		cfg.Auth = append(cfg.Auth, zkio.Auth{Scheme: "digest", Data: []byte(user)})
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	c, err := zkio.Open(ctx, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx) // the server may have gone before
	})
	return c.Session()
}

// digest returns the id that ZooKeeper's digest scheme has for user, which is
// written name:password.
func digest(user string) string {
	name, _, _ := strings.Cut(user, ":")
	sum := sha1.Sum([]byte(user)) // as the scheme prescribes
	return name + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

// setACL changes a node's ACL as the owner (see owned), by a connection of its
// own: locks need no such thing.
func (p *premises) setACL(path string, acl ...zkio.ACL) {
	p.t.Helper()
	conn, err := p.via(p.t.Context(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	ask := func(b []byte) *jute.Reader {
		if _, err := conn.Write(jute.Frame(b)); err != nil {
			p.t.Fatal(err)
		}
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			p.t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, answer); err != nil {
			p.t.Fatal(err)
		}
		return jute.NewReader(answer)
	}
	call := func(what string, xid, op int32, body []byte) {
		b := jute.AppendInt32(jute.AppendInt32(make([]byte, 4), xid), op)
		r := ask(append(b, body...))
		r.Int32()
		r.Int64()
		if code := r.Int32(); code != jute.ErrOK || r.Err() != nil {
			p.t.Fatalf("%s: code %d, %v", what, code, r.Err())
		}
	}

	b := jute.AppendInt64(jute.AppendInt32(make([]byte, 4), 0), 0) // the protocol's version, the newest transaction seen
	b = jute.AppendInt64(jute.AppendInt32(b, 10_000), 0)           // the timeout, no session yet
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
