// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/futures"
)

// An upgrading is a call of Hold.Upgrade under way.
type upgrading struct {
	c      *cluster
	h      Hold
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
	return upgrading{c, h, cancel, p.Future()}
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

// A pair costs no more memory than two locks and two pointers, as long as it is not used
// for upgrades.
func TestUpgradableCostsNothingUnused(t *testing.T) {
	const classes = 16 // both sizes are ones that Go's allocator has
	pair, lock := unsafe.Sizeof(RWLock{}), unsafe.Sizeof(Lock{})
	expect(t, pair <= lock+classes, "a pair, which includes its reader, has %d bytes, a lock %d", pair, lock)
	s := unsafe.Sizeof(tenure{})
	expect(t, s <= 80, "a tenure has %d bytes", s)
}

// Of the writers and the upgradables of one process, which exclude each other, neither
// keeps the other out by new holders that keep coming.
func TestUpgradableMakesWay(t *testing.T) {
	for what, locks := range map[string]func(*RWLock) (holds, waits *Lock){
		"a writer waits":     func(rw *RWLock) (holds, waits *Lock) { return rw.Upgradable(), rw.Writer() },
		"an upgradable does": func(rw *RWLock) (holds, waits *Lock) { return rw.Writer(), rw.Upgradable() },
	} {
		subtest(t, what, func(c *cluster) {
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
	}
}
