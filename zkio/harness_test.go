// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Most tests here run in a bubble: a server in the process, in-memory
// connections to it, and virtual time.

// bubble runs fn in a bubble with a server whose tick is half a second.
func bubble(t *testing.T, fn func(t *testing.T, z *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z := zktest.NewServer(zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet})
		t.Cleanup(func() { z.Close() })
		fn(t, z)
	})
}

var quiet = slog.New(slog.DiscardHandler)

// configure returns the Config of a client of z with a session timeout of 4 s.
func configure(z *zktest.Server) Config {
	return Config{Servers: []string{"zk"}, SessionTimeout: 4 * time.Second, Dialer: z.Dial, Logger: quiet}
}

// open opens a client, which the end of the test closes.
func open(t *testing.T, cfg Config) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx) // may have been closed, or have nobody to confirm
	})
	return c
}

// mustClose closes a client, and fails the test if the server does not confirm.
func mustClose(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr fails the test unless err is target, of the given class.
func wantErr(t *testing.T, err, target error, class Class) {
	t.Helper()
	if !is(err, target) || ClassOf(err) != class {
		t.Fatalf("error %q of class %v, want %q of class %v", fmt.Sprint(err), ClassOf(err), target, class)
	}
}

// eventually lets time pass until ok, for a minute at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond) // virtual
	}
	t.Fatalf("a minute later, still not: %s", what)
}

// recorder is a Listener and a Watcher that writes everything down.
type recorder struct {
	mu       sync.Mutex
	log      []string
	lapses   int
	lapsedAt time.Time // the last of them
	inForce  bool      // a lease was in force when it was told to be over
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) SessionStarted(s *Session) { r.add("started %d", s.Epoch()) }

func (r *recorder) LeaseLapsed(l *Lease) {
	r.add("lapsed")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lapses++
	r.lapsedAt = time.Now()
	r.inForce = r.inForce || l.InForce() || !l.Lapsed()
}

func (r *recorder) SessionOver(s *Session, cause error) {
	r.add("over %d: %v", s.Epoch(), cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inForce = r.inForce || s.Lease().InForce()
}

func (r *recorder) PathChanged(path string, ev Event) { r.add("%s %v", path, ev) }

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log)
}

// lapsed returns how often the end of a lease was told, and when last.
func (r *recorder) lapsed() (n int, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lapses, r.lapsedAt
}

// sawForce reports whether a lease was in force when its end was told.
func (r *recorder) sawForce() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inForce
}

// has reports whether a line begins with prefix.
func (r *recorder) has(prefix string) bool {
	return slices.ContainsFunc(r.lines(), func(s string) bool { return strings.HasPrefix(s, prefix) })
}

// task is a Task made of a function.
type task func(s *Session)

func (f task) Run(s *Session) { f(s) }

var guids atomic.Uint64

// newNode describes a node with a guid of its own.
func newNode(dir string, w Watcher) *Node {
	return NewNode(dir, "lock-", fmt.Sprintf("%016x", guids.Add(1)), []byte("data"), nil, w)
}

// mustCreate creates a node in dir, which it makes too.
func mustCreate(t *testing.T, s *Session, dir string, w Watcher) *Node {
	t.Helper()
	must(t, s.EnsureDir(dir, nil))
	n := newNode(dir, w)
	must(t, n.Create(s))
	return n
}
