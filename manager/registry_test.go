// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/holdfast-go/holdfast/state"
)

// The same name is the same lock, however it is written.
func TestSameNameSameLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		l := exclusive(c.t, m, "jobs/nightly")
		for _, name := range []string{"jobs/nightly", "/jobs/nightly"} {
			expect(c.t, exclusive(c.t, m, name) == l, "%q is another lock", name)
		}
		for _, name := range []string{"jobs", "jobs/nightly/eu", "jobs/Nightly", "nightly"} {
			expect(c.t, exclusive(c.t, m, name) != l, "%q is the same lock", name)
		}
		expect(c.t, exclusive(c.t, c.open("b"), "jobs/nightly") != l, "two managers share a lock")
		var wg sync.WaitGroup
		locks := make([]*Lock, 50)
		for i := range locks {
			wg.Go(func() { locks[i] = exclusive(c.t, m, "at once") })
		}
		wg.Wait()
		for _, l := range locks {
			if l != locks[0] {
				c.t.Fatal("the same name gave two locks")
			}
		}
	})
}

// disconnected returns a manager without a client, for locks that stay idle.
func disconnected() *Manager {
	return &Manager{
		cfg:      Config{Root: "/holdfast", Logger: slog.New(slog.DiscardHandler)},
		registry: registry{locks: make(map[string]entry), sweepAt: minSweep},
	}
}

// Idle locks without references are collected, with their entries in the manager;
// those with references are not.
func TestF076_ForgottenLocksAreCollected(t *testing.T) {
	m := disconnected()
	kept := make(map[string]*Lock)
	for i := range 20_000 {
		name := fmt.Sprintf("lock-%d", i)
		l := exclusive(t, m, name)
		if i%1000 == 0 {
			kept[name] = l
		}
		if i%1000 == 999 {
			runtime.GC()
		}
	}
	n := len(m.locks)
	expect(t, n <= 10_000, "%d entries are left of 20000 locks, %d of which have references", n, len(kept))
	runtime.GC()
	for name, l := range kept {
		expect(t, exclusive(t, m, name) == l, "%s, which has a reference, was made anew", name)
	}
}

// A lock that is not free is never collected, in no phase, even if nothing refers to
// it or to its hold.
func TestBusyLocksAreNotCollected(t *testing.T) {
	for _, phase := range phases {
		if phase.name == "free" {
			continue
		}
		subtest(t, phase.name, func(c *cluster) {
			s := &scene{cluster: c, a: c.lock("a"), b: c.lock("b")}
			m, p := s.a.m, weak.Make(s.a)
			phase.enter(s)
			s.h.Granted()
			s.h.Released()
			s.a, s.h = nil, Hold{}
			for range 5 {
				runtime.GC()
			}
			synctest.Wait()
			l := p.Value()
			if l == nil {
				c.t.Fatal("the lock was collected")
			}
			expect(c.t, exclusive(c.t, m, "jobs") == l, "the name has another lock now")
			now, _ := l.State()
			expect(c.t, now != state.Free, "the lock is free")
			if s.stop != nil {
				s.stop.goOn()
			}
		})
	}
}

// A lock that was busy, and is idle without references now, is collected.
func TestUsedLocksAreCollected(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, b := c.open("a"), c.lock("b")
		p := func() weak.Pointer[Lock] {
			l := exclusive(c.t, m, "jobs")
			for range 3 {
				c.cycle(l) // used in the ordinary way,
				h := mustLock(c.t, b)
				c.acquire(l).Release() // given up,
				mustRelease(c.t, h)
				h = mustLock(c.t, l) // and lost
				c.expire(m)
				h.Release()
			}
			return weak.Make(l)
		}()
		for range 10 {
			runtime.GC()
			if p.Value() == nil {
				return
			}
		}
		c.t.Error("the lock was not collected")
	})
}
