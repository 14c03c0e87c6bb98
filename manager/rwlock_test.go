// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A directory in which mutexes contend with readers and writers is a mistake:
// other clients grant both. It is logged once.
func TestKindsInOneDirectoryAreReported(t *testing.T) {
	const said = "mutexes and read/write locks contend in one directory"
	type mix struct {
		node string
		take func(c *cluster) *Lock
	}
	each(t, map[string]mix{
		"a mutex among readers":      {"lock-0000000000", func(c *cluster) *Lock { return c.rw("a").Reader() }},
		"kazoo's lock among writers": {hex32 + "__lock__0000000000", func(c *cluster) *Lock { return c.rw("a").Writer() }},
		"a reader among mutexes":     {"__READ__0000000000", func(c *cluster) *Lock { return c.lock("a") }},
		"a writer among mutexes":     {"__WRIT__0000000000", func(c *cluster) *Lock { return c.lock("a") }},
	}, func(c *cluster, test mix) {
		path := c.crowd().node(test.node)
		h := test.take(c).Acquire(c.t.Context())
		c.waiting(h)
		second := c.crowd().node(strings.Replace(test.node, "000", "100", 1)) // it lists again, and again
		c.remove(path)
		later(time.Second)
		lines := c.log.with(said)
		expect(c.t, len(lines) == 1 && strings.Contains(lines[0], path),
			"logged %q, want one line that names %s", lines, path)
		c.held(h)
		c.unlock(h)
		c.remove(second)
	})
}

// A name has one kind in a process for as long as it is in use, however it is
// written.
func TestErrKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, other := c.open("a"), c.open("b")
		rw, lock := readWrite(c.t, m, "one"), exclusive(c.t, m, "two")
		for _, slash := range []string{"", "/"} {
			wantErr(c.t, "exclusive of a read/write lock", errOf(m.Exclusive(slash+"one")), ErrKind)
			wantErr(c.t, "readwrite of an exclusive lock", errOf(m.ReadWrite(slash+"two")), ErrKind)
			expect(c.t, readWrite(c.t, m, slash+"one") == rw, "%q is another pair", slash+"one")
		}
		for _, name := range []string{"one/x", "on", "one1"} {
			exclusive(c.t, m, name)
		}
		exclusive(c.t, other, "one")
		expect(c.t, rw.Reader() != rw.Writer() && rw.Reader().Path() == rw.Writer().Path() && rw.Writer().Name() == "one",
			"the pair is %s and %s", rw.Reader().Path(), rw.Writer().Path())
		wantState(c.t, lock, state.Free, 0)
	})
}

// The error says as what kind of lock the process uses the name.
func TestErrKindSaysWhich(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		open := []any{exclusive(c.t, m, "lock"), readWrite(c.t, m, "rw"), openMutex(c.t, m, "mutex"), latch(c.t, m, "latch")}
		for name, want := range map[string]string{"lock": "an exclusive lock", "rw": "a read/write lock", "mutex": "a mutex", "latch": "a leader latch"} {
			for _, err := range []error{errOf(m.Exclusive(name)), errOf(m.ReadWrite(name)), errOf(m.Mutex(name)), errOf(m.Access().Latch(name))} {
				if err != nil && !strings.HasSuffix(err.Error(), ": name is in use as another kind of lock: "+want) {
					c.t.Errorf("the error says %q, want %q", err, want)
				}
			}
		}
		runtime.KeepAlive(open)
	})
}

// The error of a caller that would wait for itself says what it holds, what it asks for, and what
// to do.
func TestErrUpgradeSaysWhat(t *testing.T) {
	const release = "release that before, or acquire RWLock.Upgradable in its place"
	type test struct {
		held, asked func(*RWLock) *Lock
		want        string
	}
	each(t, map[string]test{
		"a reader writes":      {(*RWLock).Reader, (*RWLock).Writer, "it holds the read lock and asks for the write lock; " + release},
		"a reader may write":   {(*RWLock).Reader, (*RWLock).Upgradable, "it holds the read lock and asks for the upgradable lock; " + release},
		"a writer may write":   {(*RWLock).Writer, (*RWLock).Upgradable, "it holds the write lock and asks for the upgradable lock; " + release},
		"an upgradable writes": {(*RWLock).Upgradable, (*RWLock).Writer, "it holds the upgradable lock and asks for the write lock; call Hold.Upgrade in place of that"},
	}, func(c *cluster, test test) {
		rw := c.rw("a")
		h := mustLock(c.t, test.held(rw))
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		asked := test.asked(rw)
		all := []error{errOf(asked.Lock(ctx)), errOf(asked.TryLock(ctx)), asked.Acquire(ctx).Err()}
		if asked == rw.Writer() {
			all = append(all, errOf(rw.Writer().m.LockAll(ctx, asked, exclusive(c.t, rw.Writer().m, "other"))))
		}
		for _, err := range all {
			wantErr(c.t, "the call", err, ErrUpgrade)
			expect(c.t, strings.HasSuffix(err.Error(), "would wait for itself: "+test.want), "the error says %q, want %q", err, test.want)
		}
		c.unlock(h)
	})
}
