// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A cluster is an embedded server and the managers that are its clients. Each
// manager stands for a process: it has its own session and excludes the others.
type cluster struct {
	t   *testing.T
	srv *zktest.Server
	log *records // what the managers log
	watch
	told    map[string]*chronicle   // by label: what the manager's observer was told
	refused map[string]*atomic.Bool // by label: whether the manager's dials fail
	ids     map[string]func() int64 // by label: the manager's session
}

// bubble runs a test on a cluster in a synctest bubble. The test fails if
// goroutines are left when it returns.
func bubble(t *testing.T, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newCluster(t, zktest.Config{})) })
}

// onServers is bubble with so many servers. The cluster's is the leader, and follower is another.
func onServers(t *testing.T, servers int, test func(c *cluster, follower *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := zktest.NewEnsemble(zktest.EnsembleConfig{Servers: servers, Config: zktest.Config{Logger: slog.New(slog.DiscardHandler)}})
		test(clusterOn(t, e.Server(e.Leader())), e.Server(1))
	})
}

// newCluster starts a server, and closes it at the end of the test, after the
// managers.
func newCluster(t *testing.T, cfg zktest.Config) *cluster {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	return clusterOn(t, zktest.NewServer(cfg))
}

// clusterOn returns a cluster on a server, which it closes at the end of the test.
func clusterOn(t *testing.T, srv *zktest.Server) *cluster {
	t.Helper()
	c := &cluster{t: t, srv: srv, log: new(records)}
	c.counts = make(map[verb]int)
	c.told = make(map[string]*chronicle)
	c.refused, c.ids = make(map[string]*atomic.Bool), make(map[string]func() int64)
	c.srv.OnRequest(c.onRequest)
	t.Cleanup(func() {
		if err := c.srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// config returns the configuration with which open opens a manager.
func (c *cluster) config(label string) Config {
	refused, told := new(atomic.Bool), new(chronicle)
	c.refused[label], c.told[label] = refused, told
	return Config{
		Servers: []string{"zk1"},
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if refused.Load() {
				return nil, errors.New("connection refused")
			}
			return c.srv.Dial(ctx, network, address)
		},
		Label:    label,
		Logger:   slog.New(c.log),
		Observer: told.add,
	}
}

// open opens a manager, and closes it at the end of the test.
func (c *cluster) open(label string, with ...func(*Config)) *Manager {
	c.t.Helper()
	cfg := c.config(label)
	for _, f := range with {
		f(&cfg)
	}
	m, err := Open(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ids[label] = func() int64 { return session(m) }
	told := c.told[label]
	c.t.Cleanup(func() {
		// The server's confirmation is a matter for the tests of Close.
		if err := m.Close(); err != nil && !errors.Is(err, ErrClosed) {
			c.t.Logf("close of %s: %v", label, err)
		}
		told.check(c.t, m)
	})
	return m
}

// lock opens a manager and returns its lock "jobs".
func (c *cluster) lock(label string, with ...func(*Config)) *Lock {
	c.t.Helper()
	return exclusive(c.t, c.open(label, with...), "jobs")
}

// dir is the directory of the lock "jobs".
const dir = "/holdfast/jobs"

// nodes returns the names of the nodes in the queue of the lock "jobs".
func (c *cluster) nodes() []string { return c.srv.Children(dir) }

// away disconnects the manager called label from the server for the time d.
func (c *cluster) away(label string, d time.Duration) {
	refused := c.refused[label]
	refused.Store(true)
	c.srv.Faults().Cut(c.ids[label]())
	time.AfterFunc(d, func() { refused.Store(false) })
}

// wantNodes checks the number of nodes in the queue of the lock "jobs".
func (c *cluster) wantNodes(want int) {
	c.t.Helper()
	if got := c.nodes(); len(got) != want {
		c.t.Errorf("%d nodes in %s, want %d: %v", len(got), dir, want, got)
	}
}

// session returns the id of m's session.
func session(m *Manager) int64 { return m.client.Session().ID() }

// expire ends m's session, and returns when m has a new one.
func (c *cluster) expire(m *Manager) {
	c.t.Helper()
	old := m.client.Session()
	if !c.srv.ExpireSession(old.ID()) {
		c.t.Errorf("there is no session %#x", old.ID())
	}
	for m.client.Session() == old {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// A verb is what a request means to a lock.
type verb string

const (
	connect    verb = "connect"
	makeDir    verb = "make a directory"
	lookAtDir  verb = "look at the directory"
	createNode verb = "create"
	list       verb = "list"
	lookAtNode verb = "look"
	deleteNode verb = "delete"
	prove      verb = "prove"
	other      verb = "other"
)

// verbOf returns what a request means to a lock; "" for a ping.
func verbOf(op zktest.Op, path string) verb {
	name := lastSegment(path)
	isNode := strings.HasPrefix(name, "_c_")
	isNew := isNode && strings.HasSuffix(name, "-"+queue.Exclusive.Mark()) // the server appends its number
	switch op {
	case zktest.OpConnect:
		return connect
	case zktest.OpPing:
		return ""
	case zktest.OpCreateContainer:
		return makeDir
	case zktest.OpCreate, zktest.OpCreate2, zktest.OpMulti:
		switch {
		case isNew:
			return createNode
		case isNode:
			return prove
		}
	case zktest.OpGetChildren, zktest.OpGetChildren2:
		return list
	case zktest.OpGetData:
		if isNode {
			return lookAtNode
		}
		return lookAtDir
	case zktest.OpDelete:
		if isNode {
			return deleteNode
		}
	}
	return other
}

// watch counts the requests that reach the server, and can stop the server before
// one.
type watch struct {
	mu     sync.Mutex
	counts map[verb]int
	stops  []*stop
}

// A stop keeps the server from executing one request.
type stop struct {
	session int64 // 0 is any
	verb    verb
	skip    int // how many such requests pass first

	arrived chan struct{} // closed when the request has arrived
	resume  chan struct{} // closed to have it executed
}

func (w *watch) onRequest(session int64, op zktest.Op, path string) {
	v := verbOf(op, path)
	if v == "" {
		return
	}
	w.mu.Lock()
	w.counts[v]++
	var hit *stop
	for i, s := range w.stops {
		if s.verb == v && (s.session == 0 || s.session == session) {
			if s.skip--; s.skip < 0 {
				hit = s
				w.stops = slices.Delete(w.stops, i, i+1)
				break
			}
		}
	}
	w.mu.Unlock()
	if hit != nil {
		close(hit.arrived)
		<-hit.resume
	}
}

// takeCounts waits until nothing moves, and returns the requests since the last call, counted
// by verb.
func (c *cluster) takeCounts() map[verb]int {
	synctest.Wait() // what was called before may have left something to do
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = make(map[verb]int)
	return counts
}

// wantCounts takes the counts, and checks some of them.
func (c *cluster) wantCounts(what string, want map[verb]int) {
	c.t.Helper()
	got := c.takeCounts()
	for v, n := range want {
		if got[v] != n {
			c.t.Errorf("%s: %d requests to %s, want %d (all: %v)", what, got[v], v, n, got)
		}
	}
}

// stopBefore makes the server stop before m's next request of kind v. Nothing else
// is executed on m's connection until the test calls goOn.
func (c *cluster) stopBefore(m *Manager, v verb) *stop {
	s := &stop{verb: v, arrived: make(chan struct{}), resume: make(chan struct{})}
	if m != nil {
		s.session = session(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops = append(c.stops, s)
	return s
}

// reached waits until the request has arrived and all goroutines are blocked.
func (s *stop) reached() {
	<-s.arrived
	synctest.Wait()
}

// goOn lets the server go on, and waits until all goroutines are blocked.
func (s *stop) goOn() {
	close(s.resume)
	synctest.Wait()
}

// exclusive returns the lock called name.
func exclusive(t testing.TB, m *Manager, name string) *Lock {
	t.Helper()
	l, err := m.Exclusive(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustLock acquires the lock.
func mustLock(t *testing.T, l *Lock) Hold {
	t.Helper()
	h, err := l.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// mustRelease releases h, and checks that the round ended well.
func mustRelease(t *testing.T, h Hold) {
	t.Helper()
	if err := h.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// settled returns the error with which f has settled, and fails the test if it has
// not.
func settled[T any](t *testing.T, what string, f *futures.Future[T]) error {
	t.Helper()
	_, err, ok := f.Poll()
	if !ok {
		t.Fatalf("%s is pending", what)
	}
	return err
}

// pending checks that f has not settled yet.
func pending[T any](t *testing.T, what string, f *futures.Future[T]) {
	t.Helper()
	if _, err, ok := f.Poll(); ok {
		t.Errorf("%s has settled with %v, want it pending", what, err)
	}
}

// wantErr checks that errors.Is(err, want).
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// wantState checks the phase and the count of the lock's present round.
func wantState(t *testing.T, l *Lock, phase state.Phase, holders int) {
	t.Helper()
	if p, n := l.State(); p != phase || n != holders {
		t.Errorf("%s is %v/%d, want %v/%d", l.Name(), p, n, phase, holders)
	}
}

// later lets virtual time pass, and waits until all goroutines are blocked.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// records is a log handler that keeps what was logged.
type records struct {
	mu    sync.Mutex
	lines []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	line := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

// clear discards what was logged.
func (r *records) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = nil
}

// with returns the lines that contain s.
func (r *records) with(s string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, line := range r.lines {
		if strings.Contains(line, s) {
			found = append(found, line)
		}
	}
	return found
}

// liveHeap returns the number of heap bytes in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // frees what the first one took out of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
