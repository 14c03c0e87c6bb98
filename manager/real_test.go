// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
)

// These tests run on a real ZooKeeper, in real time.

// wires is a Dialer whose connections can be cut.
type wires struct {
	via   func(ctx context.Context, network, address string) (net.Conn, error) // nil: TCP
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	via := w.via
	if via == nil {
		via = new(net.Dialer).DialContext
	}
	c, err := via(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = make(map[net.Conn]struct{})
	}
	w.conns[c] = struct{}{}
	return c, nil
}

// cut closes all connections.
func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

var (
	roots    sync.Map // *testing.T -> its root
	rootsGot atomic.Int64
)

// ownRoot returns a path on the shared server for this run of the test: with
// -count, a test runs again on the same server.
func ownRoot(t *testing.T) string {
	root, known := roots.LoadOrStore(t, fmt.Sprintf("/%s-%d", Escape(t.Name()), rootsGot.Add(1)))
	if !known {
		t.Cleanup(func() { roots.Delete(t) })
	}
	return root.(string)
}

// openReal opens a manager on a real server, with the test's own root.
func openReal(t *testing.T, server, label string, with ...func(*Config)) *Manager {
	t.Helper()
	cfg := Config{
		Servers: []string{server}, Root: ownRoot(t), Label: label,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range with {
		f(&cfg)
	}
	ctx := withTimeout(t, time.Minute)
	m, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Logf("close of %s: %v", label, err)
		}
	})
	return m
}

// granted waits for the grant of h.
func granted(t *testing.T, what string, h Hold, within time.Duration) {
	t.Helper()
	ctx := withTimeout(t, within)
	if _, err := h.Granted().Wait(ctx); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// A real server accepts every name that Escape makes, and Exclusive refuses every
// name that the server refuses.
func TestRealNames(t *testing.T) {
	zk := realzk.Shared(t)
	m := openReal(t, zk.Addr(), "a")
	ids := []string{
		"", ".", "..", "/", "%", "zookeeper", "lock-0000000001", "_c_" + hex32 + "-lock-0000000001",
		"größe", "日本", "\U0001f512", "\U00010000", "\ufffd", "\u2028", "\xff\xfe", "a\x00b", "\x1f", "\x7f", "\u009f", "\u00a0", "\ud7ff",
		"\ue000", "\uf8ff", "\uf900", "\uffef", "\ufff0", "\uffff", " ", "a b",
	}
	for range 20 {
		id := make([]byte, rand.IntN(300))
		for i := range id {
			id[i] = byte(rand.Uint32())
		}
		ids = append(ids, string(id))
	}
	for _, id := range ids {
		h, err := exclusive(t, m, Escape(id)).Lock(t.Context())
		if err != nil {
			t.Errorf("Escape(%q): %v", id, err)
			continue
		}
		mustRelease(t, h)
		// Unescaped, either Exclusive refuses the name or the server accepts it.
		if l, err := m.Exclusive("as it is/" + id); err == nil {
			h, err := l.Lock(t.Context())
			if err != nil {
				t.Errorf("%q: %v", id, err)
				continue
			}
			mustRelease(t, h)
		}
	}
}

// Several processes contend with many goroutines while their connections are cut
// again and again. Watches survive the reconnects, exclusion holds, and no lock is
// lost, because no outage is longer than the lease. Run it under the race
// detector.
func TestRealReconnects(t *testing.T) {
	zk := realzk.Shared(t)
	const processes, goroutines, enough = 3, 4, 25
	r := newReferee(t)
	var locks []*Lock
	var ws []*wires
	for p := range processes {
		w := new(wires)
		ws = append(ws, w)
		m := openReal(t, zk.Addr(), fmt.Sprint(p), func(cfg *Config) { cfg.Dialer, cfg.SessionTimeout = w.dial, 30*time.Second })
		locks = append(locks, exclusive(t, m, "jobs"))
	}
	done := make(chan struct{}) // closed after enough reconnects
	var wg sync.WaitGroup
	for _, l := range locks {
		for range goroutines {
			wg.Go(func() {
				for !isClosed(done) {
					h, err := l.Lock(t.Context())
					if err != nil {
						t.Errorf("lock: %v", err)
						return
					}
					r.enter(l.m, h)
					<-time.After(rand.N(3 * time.Millisecond)) // work under the lock
					r.leave(h)
					mustRelease(t, h)
				}
			})
		}
	}
	var reconnects uint64
	for i := 0; reconnects < enough; i++ {
		<-time.After(rand.N(60 * time.Millisecond))
		ws[i%processes].cut()
		reconnects = 0
		for _, l := range locks {
			reconnects += l.m.client.Stats().Reconnects
		}
	}
	close(done)
	wg.Wait()
	for _, l := range locks {
		s := l.m.client.Stats()
		expect(t, s.Sessions == 1, "%d sessions", s.Sessions)
		wantState(t, l, state.Free, 0)
	}
	t.Logf("%d entries in %d rounds with %d reconnects", r.Entries(), r.Tokens(), reconnects)
}

// A waiter whose connection is cut again and again is woken when its turn comes,
// by the watch that was set again.
func TestRealWatchSurvivesReconnects(t *testing.T) {
	zk := realzk.Shared(t)
	b := exclusive(t, openReal(t, zk.Addr(), "b"), "jobs")
	for range 5 {
		// A client whose connections keep breaking backs off: use a new one.
		w := new(wires)
		a := exclusive(t, openReal(t, zk.Addr(), "a", func(cfg *Config) { cfg.Dialer, cfg.SessionTimeout = w.dial, 30*time.Second }), "jobs")
		h := mustLock(t, b)
		waiting := a.Acquire(t.Context())
		<-ioOf(waiting).whereabouts().known().Done()
		for range 3 {
			before := a.m.client.Stats().Reconnects
			w.cut()
			for a.m.client.Stats().Reconnects == before {
				<-time.After(time.Millisecond)
			}
		}
		w.cut() // once more, just before the release
		mustRelease(t, h)
		granted(t, "after the reconnects", waiting, 9*time.Second) // before the waiter would look by itself
		mustRelease(t, waiting)
	}
}

// The server restarts within the lease: no lock is lost.
func TestF053_RealServerRestart(t *testing.T) {
	zk := realzk.Start(t)
	with := func(cfg *Config) { cfg.SessionTimeout = 60 * time.Second }
	a, b := exclusive(t, openReal(t, zk.Addr(), "a", with), "jobs"), exclusive(t, openReal(t, zk.Addr(), "b", with), "jobs")
	h := mustLock(t, a)
	w := b.Acquire(t.Context())
	<-ioOf(w).whereabouts().known().Done()
	zk.Kill()
	inside := mustLock(t, a) // a newcomer enters while the server is away
	zk.Restart()
	wantErr(t, "the holder", h.Err(), nil)
	mustRelease(t, inside)
	mustRelease(t, h)
	granted(t, "the waiter", w, time.Minute)
	mustRelease(t, w)
}

// The process that holds the lock is killed. The next one gets the lock when the
// session has timed out, with a higher token.
func TestF087_RealHolderIsKilled(t *testing.T) {
	zk := realzk.Shared(t)
	root := func(cfg *Config) { cfg.Root = defaultRoot }
	l := exclusive(t, openReal(t, zk.Addr(), "waiter", root), "jobs")
	p := startHolder(t, zk.Addr(), "jobs")
	h := l.Acquire(t.Context())
	<-ioOf(h).whereabouts().known().Done()
	pl := ioOf(h).position.Load()
	expect(t, pl.contender().Label == "holder" && pl.contender().PID == p.cmd.Process.Pid,
		"ahead is %v, want the process %d", pl.ahead, p.cmd.Process.Pid)
	p.kill()
	start := time.Now()
	granted(t, "after the holder's death", h, 3*holderTimeout)
	t.Logf("the lock was free %v after its holder was killed", time.Since(start).Round(time.Millisecond))
	g := grantOf(t, h)
	expect(t, g.Token > p.token, "token %d after %d", g.Token, p.token)
	mustRelease(t, h)
}
