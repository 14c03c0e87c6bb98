// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/zkio"
)

// latch returns the lock called name in the queue of a LeaderLatch.
func latch(t testing.TB, m *Manager, name string) *Lock {
	t.Helper()
	l, err := m.Access().Latch(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Latches queue with each other and with those of Curator, whose nodes are called alike, and
// hand the lock over in that order.
func TestLatch(t *testing.T) {
	bubble(t, func(c *cluster) {
		curator := c.crowd()
		theirs := curator.node("_c_01234567-89ab-cdef-0123-456789abcdef-latch-0000000000")
		a, b := latch(c.t, c.open("a"), "jobs"), latch(c.t, c.open("b"), "jobs")
		first, second := c.acquire(a), c.acquire(b)
		c.waiting(first, second)
		for _, name := range c.nodes() {
			expect(c.t, strings.Contains(name, "-latch-"), "node %s", name)
		}
		told := &scribe{t: c.t}
		defer b.Listen(told.listener())()
		c.remove(theirs)
		c.held(first)
		c.waiting(second)
		holder, err := b.Holder(c.t.Context())
		wantErr(c.t, "holder", err, nil)
		expect(c.t, holder != nil && holder.Label == "a" && holder.Kind == KindExclusive,
			"the holder is %v", holder)
		c.unlock(first)
		c.held(second)
		again := c.acquire(a)
		c.unlock(second)
		c.held(again)
		c.unlock(again)
		told.want("queued 1 behind a", "acquired", "released")
		c.wantNodes(0)
		expect(c.t, len(c.log.with("WARN")) == 0, "logged %q", c.log.with("WARN"))
	})
}

// F203: a latch and another lock ignore each other's nodes, and say so loudly.
func TestF203_LatchBesideALock(t *testing.T) {
	bubble(t, func(c *cluster) {
		lock := mustLock(c.t, c.lock("a"))
		h := mustLock(c.t, latch(c.t, c.open("b"), "jobs"))
		lines := c.log.with("WARN holdfast: another kind of lock")
		expect(c.t, len(lines) == 1 && strings.Contains(lines[0], "recipe=a lock"), "logged %q", lines)
		c.unlock(lock, h)
	})
}

// A process uses a name for one kind of lock.
func TestLatchKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l := latch(c.t, m, "jobs")
		expect(c.t, latch(c.t, m, "jobs") == l, "two locks of one name")
		wantErr(c.t, "exclusive", errOf(m.Exclusive("jobs")), ErrKind)
		wantErr(c.t, "read/write", errOf(m.ReadWrite("jobs")), ErrKind)
		wantErr(c.t, "mutex", errOf(m.Mutex("jobs")), ErrKind)
		lock, rw, mutex := exclusive(c.t, m, "lock"), readWrite(c.t, m, "rw"), openMutex(c.t, m, "mutex")
		for _, name := range []string{"lock", "rw", "mutex"} {
			wantErr(c.t, name, errOf(m.Access().Latch(name)), ErrKind)
		}
		runtime.KeepAlive([]any{lock, rw, mutex})
		wantErr(c.t, "bad name", errOf(m.Access().Latch("jobs//x")), ErrBadName)
		h := mustLock(c.t, l)
		guarded := errOf(h.Guard(c.t.Context(), zkio.DeleteOp(l.Path()+"/latch-0000000001", -1)))
		wantErr(c.t, "guard", guarded, zkio.ErrBadArguments)
		c.unlock(h)
	})
}
