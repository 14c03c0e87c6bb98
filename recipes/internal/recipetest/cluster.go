// SPDX-License-Identifier: Apache-2.0

// Package recipetest has what the tests of the recipes share: a cluster of processes on the
// embedded server in virtual time, one on a real server, and seeded simulations with faults.
package recipetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A Cluster is a server and the managers that are its clients. Each manager stands for a
// process: it has its own session.
type Cluster struct {
	T    *testing.T
	Srv  *zktest.Server   // the first server of Ens, by which all data can be seen
	Ens  *zktest.Ensemble // nil on a real server, as is Srv
	Real *realzk.Server   // nil on the embedded server
	Root string           // of the managers

	addresses []string
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
}

// Bubble runs test on an embedded server in a synctest bubble. It fails if goroutines are
// left when the test returns.
func Bubble(t *testing.T, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, embedded(t, zktest.EnsembleConfig{Servers: 1})) })
}

// OnLike is Bubble with a server that has quirks.
func OnLike(t *testing.T, quirks zktest.Quirks, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, embedded(t, zktest.EnsembleConfig{Servers: 1, Config: zktest.Config{Quirks: quirks}}))
	})
}

// Bubbles runs test for each of the cases, in a bubble of its own.
func Bubbles[K comparable, V any](t *testing.T, cases map[K]V, test func(t *testing.T, c *Cluster, v V)) {
	t.Helper()
	for name, v := range cases {
		t.Run(fmt.Sprint(name), func(t *testing.T) {
			Bubble(t, func(t *testing.T, c *Cluster) { test(t, c, v) })
		})
	}
}

func embedded(t *testing.T, cfg zktest.EnsembleConfig) *Cluster {
	cfg.Logger = slog.New(slog.DiscardHandler)
	e := zktest.NewEnsemble(cfg)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Cluster{T: t, Srv: e.Server(1), Ens: e, Root: "/holdfast", addresses: e.Addresses(), dial: e.Dial}
}

// OnReal runs test on a real server, with a root of its own.
func OnReal(t *testing.T, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	zk := realzk.Shared(t)
	root := "/" + strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()) + "-" + time.Now().Format("150405.000000")
	test(t, &Cluster{T: t, Real: zk, Root: root, addresses: []string{zk.Addr()}, dial: new(net.Dialer).DialContext})
}

// Everywhere runs test on the embedded server and on a real one, beside other such tests: on
// a real server they wait most of the time.
func Everywhere(t *testing.T, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { Bubble(t, test) })
	t.Run("real", func(t *testing.T) { OnReal(t, test) })
}

// Open opens a manager, and closes it at the end of the test.
func (c *Cluster) Open(label string, with ...func(*manager.Config)) *manager.Manager {
	c.T.Helper()
	cfg := manager.Config{
		Servers: c.addresses, Dialer: c.dial, Root: c.Root, Label: label,
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range with {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := manager.Open(ctx, cfg)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		if err := m.Close(); err != nil && !errors.Is(err, manager.ErrClosed) {
			c.T.Logf("close of %s: %v", label, err)
		}
	})
	return m
}

// SessionOf returns the id of m's session.
func SessionOf(m *manager.Manager) int64 { return m.Access().Session().ID() }

// Expire ends m's session on the embedded server, and returns when m has a new one and
// nothing moves any more.
func (c *Cluster) Expire(m *manager.Manager) {
	c.T.Helper()
	old := m.Access().Session()
	if !c.Srv.ExpireSession(old.ID()) {
		c.T.Errorf("there is no session %#x", old.ID())
	}
	c.Until("there is a new session", func() bool { return m.Access().Session() != old })
	if c.Srv != nil {
		synctest.Wait()
	}
}

// Silence silences m's session on the embedded server, as if its process were killed or cut off,
// and refuses new connections, until end is called.
func (c *Cluster) Silence(m *manager.Manager) (end func()) {
	silent, refused := c.Srv.Faults().Blackhole(SessionOf(m)), c.Srv.Faults().Refuse()
	return func() {
		silent.Remove()
		refused.Remove()
	}
}

// Until polls ok, for up to a minute. In a bubble it waits until nothing moves first.
func (c *Cluster) Until(what string, ok func() bool) {
	c.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		if c.Srv != nil {
			synctest.Wait()
		}
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			c.T.Fatalf("still not after a minute: %s", what)
		}
	}
}

// Rest returns after d, at once if that is nothing: goroutines of a bubble that receive from
// timers that are due already crash Go's race detector (golang/go#78156).
func Rest(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// Later returns after d, when nothing moves any more. It is for bubbles.
func Later(d time.Duration) {
	Rest(d)
	synctest.Wait()
}

// Remove deletes a node of the embedded server, as an administrator does.
func (c *Cluster) Remove(path string) {
	c.T.Helper()
	if err := c.Srv.Delete(path); err != nil {
		c.T.Errorf("delete %s: %v", path, err)
	}
}

// RemovedBefore has an administrator delete the node at path, and all below it, right before the
// nth request of m. It returns a function that reports whether there was such a request.
func (c *Cluster) RemovedBefore(m *manager.Manager, nth int, path string) (struck func() bool) {
	session := SessionOf(m)
	var n atomic.Int64
	c.Srv.OnRequest(func(of int64, op zktest.Op, _ string) {
		if of != session || op == zktest.OpPing || n.Add(1) != int64(nth) {
			return
		}
		for _, below := range slices.Backward(slices.Sorted(slices.Values(c.Srv.Nodes()))) {
			if below == path || strings.HasPrefix(below, path+"/") {
				c.Remove(below)
			}
		}
	})
	return func() bool { return n.Load() >= int64(nth) }
}

// WantNoWatches checks that no watch is left at the embedded server. A real one does not tell.
func (c *Cluster) WantNoWatches() {
	c.T.Helper()
	if c.Srv == nil {
		return
	}
	for i := range c.addresses {
		if w := c.Ens.Server(i + 1).AllWatches(); w != (zktest.WatchCount{}) {
			c.T.Errorf("watches are left: %+v", w)
		}
	}
}

// Shutdown shuts m down, which must succeed within a minute.
func (c *Cluster) Shutdown(m *manager.Manager) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), time.Minute)
	defer cancel()
	WantErr(c.T, "shutdown", m.Shutdown(ctx), nil)
}

// WantErr checks that err wraps want; a nil want, that there is none.
func WantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// ErrOf returns the error of a call that has another result, which does not matter.
func ErrOf[T any](_ T, err error) error { return err }

// Count counts the requests by kind that the embedded server gets while fn runs.
func (c *Cluster) Count(fn func()) map[zktest.Op]uint64 {
	synctest.Wait()
	before := c.Srv.RequestCounts()
	fn()
	synctest.Wait()
	after := c.Srv.RequestCounts()
	for op, n := range before {
		if after[op] -= n; after[op] == 0 {
			delete(after, op)
		}
	}
	delete(after, zktest.OpPing)
	return after
}

// WantCollected has more make 200 things, each of which is over when it returns, and checks
// that none of them is alive afterwards although the program keeps old, which was made
// before them. It is for bubbles.
func WantCollected[T any](c *Cluster, old any, more func() *T) {
	c.T.Helper()
	const n = 200
	var later []weak.Pointer[T]
	for range n {
		later = append(later, weak.Make(more()))
	}
	more() // so that none of them is the last
	Later(time.Minute)
	for range 3 { // pools give up what they have in two
		runtime.GC()
	}
	alive := 0
	for _, p := range later {
		if p.Value() != nil {
			alive++
		}
	}
	runtime.KeepAlive(old)
	if alive > 0 {
		c.T.Errorf("%d of %d later ones are alive", alive, n)
	}
}
