// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An upgrading is a call of Hold.Upgrade under way.
type upgrading struct {
	c      *cluster
	cancel context.CancelFunc
	result *futures.Future[struct{}]
}

// upgrade begins an upgrade, and returns when it is done or waits.
func (c *cluster) upgrade(h Hold) upgrading {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	var p futures.Promise[struct{}]
	go func() { p.Settle(struct{}{}, h.Upgrade(ctx)) }()
	synctest.Wait()
	return upgrading{c, cancel, p.Future()}
}

// waits checks that the upgrade is not done once nothing moves any more.
func (u upgrading) waits() {
	u.c.t.Helper()
	synctest.Wait()
	pending(u.c.t, "the upgrade", u.result)
}

// done checks that the upgrade has succeeded.
func (u upgrading) done() {
	u.c.t.Helper()
	synctest.Wait()
	wantErr(u.c.t, "upgrade", settled(u.c.t, "the upgrade", u.result), nil)
}

// mustUpgrade upgrades h.
func (c *cluster) mustUpgrade(h Hold) {
	c.t.Helper()
	c.upgrade(h).done()
}

// mustDowngrade downgrades h, and returns when the server knows.
func (c *cluster) mustDowngrade(h Hold) {
	c.t.Helper()
	wantErr(c.t, "downgrade", h.Downgrade(), nil)
	synctest.Wait()
}

// queue returns the queue of the lock "jobs" in the order of turns, each contender as the
// first letter of its kind and its number.
func (c *cluster) queue(l *Lock) string {
	c.t.Helper()
	all, err := l.Queue(c.t.Context(), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	var marks []string
	for _, q := range all {
		marks = append(marks, fmt.Sprintf("%c%d", q.Kind.String()[0], q.Sequence))
	}
	return strings.Join(marks, " ")
}

// wantQueue checks the queue of the lock "jobs".
func (c *cluster) wantQueue(l *Lock, want string) {
	c.t.Helper()
	synctest.Wait()
	if got := c.queue(l); got != want {
		c.t.Errorf("the queue is %s, want %s", got, want)
	}
}

// An upgradable read is held beside readers, and excludes writers and other upgradables.
// Upgraded, it excludes all other processes.
func TestUpgrade(t *testing.T) {
	bubble(t, func(c *cluster) {
		p, other := c.rw("p"), c.rw("other")
		reader := c.acquire(other.Reader())
		up := c.acquire(p.Upgradable())
		c.held(reader, up)
		u2, w := c.acquire(other.Upgradable()), c.acquire(other.Writer())
		c.waiting(u2, w)
		c.wantQueue(p.Reader(), "r0 u1 u2 w3")

		upgrade := c.upgrade(up)
		upgrade.waits() // for the reader
		c.unlock(reader)
		upgrade.done()
		c.wantQueue(p.Reader(), "u1 u2 w3 w4")
		late := c.acquire(other.Reader())
		c.waiting(u2, w, late)
		if g, err := up.Grant(); err != nil || g.Token != c.czxid(g.Path) {
			t.Errorf("the grant is %+v, %v", g, err)
		}

		c.mustDowngrade(up)
		c.held(up)
		c.waiting(u2, w, late) // behind the writer
		w.Release()
		synctest.Wait()
		c.held(up, late)
		c.mustUpgradeAfter(up, func() { c.unlock(late) })
		c.unlock(up)
		c.held(u2)
		c.unlock(u2)
		c.wantNodes(0)
		for _, rw := range []*RWLock{p, other} {
			for l := range rw.locks() {
				wantState(t, l, state.Free, 0)
			}
		}
	})
}

// mustUpgradeAfter upgrades h, which waits until way makes way.
func (c *cluster) mustUpgradeAfter(h Hold, way func()) {
	c.t.Helper()
	u := c.upgrade(h)
	u.waits()
	way()
	u.done()
}

// A pair costs no more memory than two locks and two pointers, as long as it is not used
// for upgrades.
func TestUpgradableCostsNothingUnused(t *testing.T) {
	const classes = 16 // both sizes are ones that Go's allocator has
	if pair, lock := unsafe.Sizeof(RWLock{}), unsafe.Sizeof(Lock{}); pair > lock+classes {
		t.Errorf("a pair, which includes its reader, has %d bytes, a lock %d", pair, lock)
	}
	if s := unsafe.Sizeof(tenure{}); s > 80 {
		t.Errorf("a tenure has %d bytes", s)
	}
}

// requestsOf returns how many requests m sends while do runs, apart from those that keep
// its session alive.
func requestsOf(m *Manager, do func()) (n uint64) {
	count := func() (n uint64) {
		for op, sent := range m.client.Stats().Sent {
			if op != "ping" && op != "connect" {
				n += sent
			}
		}
		return n
	}
	before := count()
	do()
	synctest.Wait()
	return count() - before
}

// An upgrade takes a transaction and two reads, which are sent together, and the same
// again for a shield. The way back takes one request, and a release from there none more
// than of a read.
func TestUpgradeRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		p := c.rw("p")
		m := p.writer.m
		c.cycle(p.Upgradable()) // the directory is known from now on
		up := c.acquire(p.Upgradable())
		want := func(what string, n uint64, do func()) {
			t.Helper()
			if got := requestsOf(m, do); got != n {
				t.Errorf("%s: %d requests, want %d", what, got, n)
			}
		}
		want("upgrade", 3, func() { c.mustUpgrade(up) })
		want("a second upgrade", 0, func() { c.mustUpgrade(up) })
		want("a guarded write", 1, func() {
			_, err := up.Guard(c.t.Context(), zkio.CreateOp("/data", nil, nil))
			wantErr(c.t, "guard", err, nil)
		})
		want("downgrade", 1, func() { c.mustDowngrade(up) })
		w, r := c.acquire(c.rw("w").Writer()), c.acquire(c.rw("r").Reader())
		want("with a shield", 6, func() { c.mustUpgrade(up) })
		want("release of both nodes", 1, func() { c.unlock(up) })
		c.held(w)
		c.unlock(w)
		c.held(r)
		c.unlock(r)
		want("upgradable", 1, func() { up = c.acquire(p.Upgradable()) })
		want("release", 1, func() { c.unlock(up) })
		c.wantNodes(0)
	})
}

// Other processes see what holds the lock, and can ask for it back.
func TestUpgradableIsSeen(t *testing.T) {
	bubble(t, func(c *cluster) {
		p, other := c.rw("p"), c.rw("other")
		up := c.acquire(p.Upgradable())
		_, err := other.Writer().TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		if e, ok := errors.AsType[*Error](err); !ok || e.Holder == nil || e.Holder.Kind != KindUpgradable || e.Holder.Label != "p" {
			c.t.Errorf("trylock: %+v", e)
		}
		for _, upgraded := range []bool{false, true} {
			if upgraded {
				c.mustUpgrade(up)
			}
			for rw, own := range map[*RWLock]bool{p: true, other: false} {
				for l := range rw.locks() {
					h, err := l.Holder(c.t.Context())
					if err != nil || h == nil || h.Kind != KindUpgradable || h.Own != own || h.Label != "p" || !h.Holds {
						c.t.Errorf("the holder is %+v, %v", h, err)
					}
				}
			}
		}
		w := c.acquire(other.Writer())
		gone := make(chan error, 1)
		go func() { gone <- other.Writer().Revoke(c.t.Context(), "please") }()
		synctest.Wait()
		if r, revoked := up.Revocation(); !revoked || r.Reason != "please" {
			c.t.Errorf("the revocation is %+v, %t", r, revoked)
		}
		c.unlock(up)
		wantErr(c.t, "revoke", <-gone, nil)
		c.held(w)
		c.unlock(w)
		c.wantNodes(0)
	})
}

// Of the writers and the upgradables of one process, which exclude each other, neither
// keeps the other out by new holders that keep coming.
func TestUpgradableMakesWay(t *testing.T) {
	for what, locks := range map[string]func(*RWLock) (holds, waits *Lock){
		"a writer waits":     func(rw *RWLock) (holds, waits *Lock) { return rw.Upgradable(), rw.Writer() },
		"an upgradable does": func(rw *RWLock) (holds, waits *Lock) { return rw.Writer(), rw.Upgradable() },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				holds, waits := locks(c.rw("p"))
				h := c.acquire(holds)
				waiting := c.acquire(waits)
				for range 5 {
					later(30 * time.Millisecond)
					next := holds.Acquire(c.t.Context())
					h.Release()
					h = next
				}
				later(time.Second)
				c.held(waiting)
				c.unlock(waiting)
				c.held(h)
				c.unlock(h)
				c.wantNodes(0)
			})
		})
	}
}

// A reader in the way may have a node that this process may not read.
func TestUpgradeBehindUnreadableReader(t *testing.T) {
	bubble(t, func(c *cluster) {
		reader := c.acquire(c.rw("other").Reader())
		p := c.rw("p")
		up := c.acquire(p.Upgradable())
		c.srv.Faults().FailRequest(zktest.Match{Op: zktest.OpGetData, Path: grantOf(c.t, reader).Path, Session: session(p.writer.m), Times: zktest.Every}, zktest.CodeNoAuth)
		c.mustUpgradeAfter(up, func() { c.unlock(reader) })
		c.unlock(up)
		c.wantNodes(0)
	})
}

// A reader can ask an upgraded holder to make way, though it would share the lock with one
// that only reads.
func TestRevokeUpgraded(t *testing.T) {
	bubble(t, func(c *cluster) {
		p, other := c.rw("p"), c.rw("other")
		up := c.acquire(p.Upgradable())
		wantErr(c.t, "revoke of a reader", other.Reader().Revoke(c.t.Context(), "please"), nil)
		c.mustUpgrade(up)
		reader := c.acquire(other.Reader())
		c.waiting(reader)
		var p2 futures.Promise[struct{}]
		go func() { p2.Settle(struct{}{}, other.Reader().Revoke(c.t.Context(), "please")) }()
		synctest.Wait()
		if !isClosed(up.Revoked()) {
			c.t.Fatal("the upgraded hold was not revoked")
		}
		c.unlock(up)
		c.held(reader)
		wantErr(c.t, "revoke", settled(c.t, "the revocation", p2.Future()), nil)
	})
}
