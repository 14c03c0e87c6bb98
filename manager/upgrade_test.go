// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
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
	result *futures.Future[struct{}]
}

// upgrade begins an upgrade, and returns when it is done or waits.
func (c *cluster) upgrade(h Hold) upgrading {
	var p futures.Promise[struct{}]
	go func() { p.Settle(struct{}{}, h.Upgrade(c.t.Context())) }()
	synctest.Wait()
	return upgrading{c, h, p.Future()}
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

// What a caller waits for is named, and also if its own process is in the way, which it cannot
// see from a host and a process id.
func TestErrorNamesWhoIsInTheWay(t *testing.T) {
	type test struct {
		holds func(own, other *RWLock) *Lock
		wait  func(c *cluster, own *RWLock) error
		says  []string
	}
	read := func(own, _ *RWLock) *Lock { return own.Reader() }
	otherReads := func(_, other *RWLock) *Lock { return other.Reader() }
	upgrade := func(c *cluster, own *RWLock) error {
		h := mustLock(c.t, own.Upgradable())
		defer h.Release()
		later(time.Second)
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		return h.Upgrade(ctx)
	}
	lock := func(c *cluster, own *RWLock) error {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		return errOf(own.Writer().Lock(ctx))
	}
	try := func(c *cluster, own *RWLock) error { return errOf(own.Writer().TryLock(c.t.Context())) }
	const itself = "this process itself holds the read lock of the pair, and has to release it first"
	each(t, map[string]test{
		"upgrade, another Manager reads": {otherReads, upgrade, []string{"deadline exceeded (held by other@", "which is another Manager of this process)"}},
		"upgrade, this process reads":    {read, upgrade, []string{"deadline exceeded: " + itself + " (held by own@", "which is this process itself)"}},
		"lock, another Manager reads":    {otherReads, lock, []string{"held by other@", "which is another Manager of this process)"}},
		"lock, this process reads":       {read, lock, []string{itself + "; a goroutine that reads before it writes needs RWLock.Upgradable (1 ahead; held by own@", "which is this process itself)"}},
		"trylock, this process reads":    {read, try, []string{itself + "; a goroutine that reads before it writes needs RWLock.Upgradable (1 ahead; held by own@"}},
		"lock, this process may write": {func(own, _ *RWLock) *Lock { return own.Upgradable() }, lock,
			[]string{"this process itself holds the upgradable lock of the pair, and has to release it first (1 ahead"}},
	}, func(c *cluster, test test) {
		own, other := c.rw("own"), c.rw("other")
		h := mustLock(c.t, test.holds(own, other))
		err := test.wait(c, own)
		for _, want := range test.says {
			if !strings.Contains(err.Error(), want) {
				c.t.Errorf("the error says %q, want %q", err, want)
			}
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.Holder == nil || e.Holder.Path != grantOf(c.t, h).Path {
			c.t.Errorf("the error has the holder %v", e.Holder)
		}
		h.Release()
	})
}

// A process that was started again may have the host and the process id of the one that was killed.
func TestErrorTellsManagersFromProcesses(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.open("a")
		own := Contender{Path: dir + "/_c_" + a.guid() + "-lock-0000000000", Host: a.says().Host, PID: a.says().PID}
		e := &Error{Op: "lock", Name: "jobs", Err: ErrLocked, Holder: &own}
		expect(c.t, strings.HasSuffix(e.Error(), ", which is another Manager of this process)"), "open: %v", e)
		wantErr(c.t, "close", a.Close(), nil)
		expect(c.t, !strings.Contains(e.Error(), "which is"), "closed: %v", e)
	})
}
