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

// onServers is bubble with so many servers. The last one leads.
func onServers(t *testing.T, servers int, fn func(t *testing.T, e *zktest.Ensemble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := zktest.NewEnsemble(zktest.EnsembleConfig{Servers: servers, Config: zktest.Config{TickTime: 500 * time.Millisecond, Logger: quiet}})
		t.Cleanup(func() { e.Close() })
		fn(t, e)
	})
}

var quiet = slog.New(slog.DiscardHandler)

// configure returns the Config of a client of z with a session timeout of 4 s.
func configure(z *zktest.Server) Config {
	return Config{Servers: []string{"zk"}, SessionTimeout: 4 * time.Second, Dialer: z.Dial, Logger: quiet}
}

// connected runs fn in a bubble with a server and a client of it.
func connected(t *testing.T, fn func(t *testing.T, z *zktest.Server, c *Client, s *Session)) {
	t.Helper()
	bubble(t, func(t *testing.T, z *zktest.Server) {
		c := open(t, configure(z))
		fn(t, z, c, c.Session())
	})
}

// inDir is connected with the directory /d.
func inDir(t *testing.T, fn func(t *testing.T, z *zktest.Server, s *Session)) {
	t.Helper()
	connected(t, func(t *testing.T, z *zktest.Server, _ *Client, s *Session) {
		must(t, s.EnsureDir("/d", nil))
		fn(t, z, s)
	})
}

// openTold opens a client of z whose events are recorded.
func openTold(t *testing.T, z *zktest.Server) (*Client, *recorder) {
	t.Helper()
	r, cfg := new(recorder), configure(z)
	cfg.Listener = r
	return open(t, cfg), r
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
		_ = c.Close(ctx) // may have been closed before, or get no confirmation
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
func must(t testing.TB, err error) {
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

// eventually waits until ok, for a minute at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("a minute later, still not: %s", what)
		}
	}
}

// settle syncs until the outcome is known.
func settle(s *Session, path string) error {
	err := s.Sync(path)
	for ClassOf(err) == Unknown && err != nil {
		err = s.Sync(path)
	}
	return err
}

// recorder is a Listener and a Watcher that writes everything down.
type recorder struct {
	mu       sync.Mutex
	log      []string
	lapses   int
	lapsedAt time.Time // the last of them
	inForce  bool      // a lease was in force when it was told to be over
	links    []string  // what happened to connections
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) SessionStarted(s *Session) { r.add("started %d", s.Epoch()) }

func (r *recorder) ConnectionLost(s *Session, cause error) {
	r.link("lost %d: %v", s.Epoch(), cause)
}

func (r *recorder) ConnectionResumed(s *Session, after time.Duration) {
	r.link("resumed %d after %v", s.Epoch(), after)
}

func (r *recorder) link(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = append(r.links, fmt.Sprintf(format, args...))
}

func (r *recorder) ProcessPaused(lasted time.Duration) { r.add("paused for %v", lasted) }

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

func newGUID() string { return fmt.Sprintf("%016x", guids.Add(1)) }

// newNode describes a node with a guid of its own.
func newNode(dir string, w Watcher) *Node {
	return NewNode(dir, "lock-", newGUID, []byte("data"), nil, w)
}

// watchNode registers w for path and reads it, which sets the watch.
func watchNode(t *testing.T, s *Session, path string, w Watcher) {
	t.Helper()
	s.client.Watch(path, w)
	_, _, err := s.Get(path)
	must(t, err)
}

// mustList lists a directory, which sets the watch if there is a watcher.
func mustList(t *testing.T, s *Session, dir string) {
	t.Helper()
	_, _, err := s.Children(dir)
	must(t, err)
}

// mustCreate creates a node in dir, which it makes too.
func mustCreate(t *testing.T, s *Session, dir string, w Watcher) *Node {
	t.Helper()
	must(t, s.EnsureDir(dir, nil))
	n := newNode(dir, w)
	must(t, n.Create(s))
	return n
}

// checkACLs compares the ACLs of nodes below dir, which it makes, with what they
// were made with. mine is authenticated as user:secret, theirs is not. The server may be older than
// ZooKeeper 3.8.
func checkACLs(t *testing.T, mine, theirs *Session, dir string, older bool) {
	t.Helper()
	must(t, mine.Create(dir, nil, nil))
	world := ACL{PermAll, "world", "anyone"}
	readers := ACL{PermRead | PermCreate, "world", "anyone"}
	user := ACL{PermAll, "digest", "user:5w9W4eL3797Y4Wq8AcKUPPk8ha4="} // the SHA-1 of user:secret
	for i, tt := range []struct {
		acl          []ACL
		mine, theirs []ACL // as they are shown
		err          error // theirs
	}{
		{nil, []ACL{world}, []ACL{world}, nil},
		{[]ACL{{PermAll, "auth", ""}}, []ACL{user}, nil, ErrNoAuth},
		{[]ACL{user, readers}, []ACL{user, readers}, []ACL{{PermAll, "digest", "user:x"}, readers}, nil},
		{[]ACL{{PermRead, "ip", "192.0.2.0/24"}, world}, []ACL{{PermRead, "ip", "192.0.2.0/24"}, world}, []ACL{{PermRead, "ip", "192.0.2.0/24"}, world}, nil},
	} {
		path := fmt.Sprintf("%s/%d", dir, i)
		must(t, mine.Create(path, nil, tt.acl))
		got, err := mine.ACL(path)
		must(t, err)
		if !slices.Equal(got, tt.mine) {
			t.Errorf("%v: shown as %v, want %v", tt.acl, got, tt.mine)
		}
		got, err = theirs.ACL(path)
		if !is(err, tt.err) || !slices.Equal(got, tt.theirs) {
			t.Errorf("%v: shown to others as %v, %v; want %v, %v", tt.acl, got, err, tt.theirs, tt.err)
		}
	}
	// Theirs are not told of a node that they may not read, but of its going.
	var r recorder
	secret := dir + "/1"
	for _, path := range []string{secret, dir} {
		theirs.client.Watch(path, &r)
		defer theirs.client.Unwatch(path, &r)
	}
	if _, st, readable, err := theirs.Look(secret); readable || err != nil { // newer servers do not tell st
		t.Errorf("a look at a node that may not be read: %+v, %t, %v", st, readable, err)
	}
	mustList(t, theirs, dir)
	must(t, mine.Delete(secret, -1))
	eventually(t, "told", func() bool { return r.has(dir + " children changed") })
	must(t, theirs.Sync(dir))
	// A server before 3.8 tells them of the node's own watch, too.
	if got := slices.DeleteFunc(r.lines(), func(l string) bool { return older && l == secret+" deleted" }); len(got) != 1 {
		t.Errorf("told: %v", got)
	}
	_, err := mine.ACL(dir + "/none")
	wantErr(t, err, ErrNoNode, Definite)
	_, err = mine.ACL("none")
	wantErr(t, err, ErrBadArguments, Definite)
	if got := fmt.Sprint([]ACL{user, readers, {PermDelete | PermWrite | PermAdmin, "ip", "::1"}}); got != "["+user.Scheme+":"+user.ID+":cdrwa world:anyone:cr ip:::1:dwa]" {
		t.Errorf("ACLs are written as %s", got)
	}
}
