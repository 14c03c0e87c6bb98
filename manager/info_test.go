// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// infos returns what m tells of its locks, by name and kind.
func infos(t *testing.T, m *Manager, all bool) map[string]LockInfo {
	t.Helper()
	found := make(map[string]LockInfo)
	for info := range m.Locks(all) {
		key := info.Name + " " + info.Kind.String()
		_, twice := found[key]
		expect(t, !twice, "%s comes twice", key)
		found[key] = info
	}
	return found
}

// wantLocks checks which locks m tells of.
func wantLocks(t *testing.T, what string, infos map[string]LockInfo, want ...string) {
	t.Helper()
	expect(t, slices.Equal(slices.Sorted(maps.Keys(infos)), want),
		"%s: got %q, want %q", what, slices.Sorted(maps.Keys(infos)), want)
}

// Locks tells of each lock what an operator asks.
func TestLocks(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		start := time.Now()
		held := exclusive(c.t, a, "held")
		h := mustLock(c.t, held)
		g := grantOf(c.t, h)
		mustRelease(c.t, mustLock(c.t, held)) // a newcomer
		other := mustLock(c.t, exclusive(c.t, b, "wanted"))
		later(time.Second)
		wanted := c.acquire(exclusive(c.t, a, "wanted"))
		pair := readWrite(c.t, a, "pair")
		read := mustLock(c.t, pair.Reader())
		x := openMutex(c.t, a, "mutex")
		line := c.line(x, 3)
		unused := exclusive(c.t, a, "unused")
		behind := c.acquire(exclusive(c.t, b, "held"))
		later(2 * time.Second)

		got := infos(c.t, a, false)
		wantLocks(c.t, "busy", got, "held exclusive", "mutex mutex", "pair read", "wanted exclusive")
		wantLocks(c.t, "all", infos(c.t, a, true), "held exclusive", "mutex mutex", "pair read", "pair write", "unused exclusive", "wanted exclusive")

		i := got["held exclusive"]
		if i.Stats.Phase != state.Retained || i.Stats.Holders != 1 || i.Stats.Grants != 1 || !i.Since.Equal(start) || i.Node != g.Path || i.Token != g.Token || i.Path != "/holdfast/held" {
			c.t.Errorf("held: %+v", i)
		}
		if i.Lease <= 0 || i.Lease > 5*time.Second || !i.Contended || !i.Yielding || i.Kind == KindMutex || i.Ahead != nil || i.Holder != nil || i.LastLoss != nil || i.Revocation != nil {
			c.t.Errorf("held: %+v", i)
		}
		i = got["wanted exclusive"]
		expect(c.t, i.Stats.Phase == state.Fetching && i.Stats.Holders == 1 && i.Token == 0 &&
			i.Lease == 0 && i.Position == 1 && i.Since.Equal(start.Add(time.Second)), "wanted: %+v", i)
		if !strings.HasPrefix(i.Node, "/holdfast/wanted/_c_") || i.Holder == nil || i.Holder.Label != "b" || !i.Holder.Holds || i.Ahead == nil || i.Ahead.Path != i.Holder.Path {
			c.t.Errorf("wanted: %+v, held by %v, behind %v", i, i.Holder, i.Ahead)
		}
		i = got["mutex mutex"]
		expect(c.t, i.Stats.Phase == state.Retained && i.Stats.Holders == 3, "mutex: %+v", i)

		given := c.revoking(readWrite(c.t, b, "pair").Writer(), "make room", time.Minute)
		if i = infos(c.t, a, false)["pair read"]; i.Revocation == nil || i.Revocation.Reason != "make room" || i.Revocation.From.Label != "b" || !i.Yielding {
			c.t.Errorf("pair: %+v", i)
		}
		mustRelease(c.t, read)
		wantErr(c.t, "revoke", <-given, nil)

		later(time.Second)
		c.remove(g.Path)
		synctest.Wait()
		if i = infos(c.t, a, true)["held exclusive"]; i.LastLoss == nil || i.LastLoss.Held != 4*time.Second || !i.LastLoss.Time.Equal(time.Now()) {
			c.t.Errorf("held: %+v, last loss %+v", i, i.LastLoss)
		} else {
			wantErr(c.t, "the last loss", i.LastLoss.Err, errNodeDeleted)
		}

		h.Release()
		c.unlock(other, behind)
		for _, h := range append(line, wanted) {
			h.Release()
		}
		later(time.Second)
		wantLocks(c.t, "in the end", infos(c.t, a, false))
		_ = unused.Name()
	})
}

// Callers that wait for the lock's next grant are told of, while it is held, and while it cannot
// be released in an outage.
func TestLocksOfTheNextGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		wantWaits := func(what string, m *Manager, phase state.Phase, since time.Time) {
			c.t.Helper()
			all := slices.Collect(m.Locks(false))
			expect(c.t, len(all) == 2 && all[0].Stats.Phase == phase && all[1].Stats.Phase == state.Fetching &&
				all[1].Stats.Holders == 1 && all[1].Since.Equal(since), "%s: %+v", what, all)
		}
		a, b := c.open("a"), c.open("b")
		l := exclusive(c.t, a, "x")
		h := mustLock(c.t, l)
		behind := c.acquire(exclusive(c.t, b, "x"))
		later(time.Second)
		newcomer, since := c.acquire(l), time.Now()
		later(time.Second)
		wantWaits("yielding", a, state.Retained, since)

		c.unlock(h)
		later(time.Second)
		c.unlock(behind)
		h = newcomer
		later(time.Second)
		silent := c.srv.Faults().BlackholeAll()
		<-h.Lost()
		h.Release()
		newcomer, since = c.acquire(l), time.Now()
		later(time.Minute)
		wantWaits("in an outage", a, state.Releasing, since)
		silent.Remove()
		later(time.Minute)
		c.unlock(newcomer)
	})
}

// The places of LockAll are locks of their own.
func TestLocksOfLockAll(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		later(time.Second)
		got := infos(c.t, m.a, false)
		wantLocks(c.t, "waiting", got, "x exclusive", "y exclusive")
		i := got["x exclusive"]
		expect(c.t, i.Stats.Phase == state.Fetching && i.Position == 1 && i.Holder != nil && i.Holder.Label == "b", "x: %+v", i)
		c.unlock(m.hx)
		for name, i := range infos(c.t, m.a, false) {
			expect(c.t, i.Stats.Phase == state.Retained && i.Stats.Holders == 1 && i.Token != 0 && !i.Yielding,
				"%s: %+v", name, i)
		}
		m.over()
		wantLocks(c.t, "in the end", infos(c.t, m.a, false))
	})
}

// The loop over the locks may do anything, and may stop.
func TestLocksLoop(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		for i := range 10 {
			h := mustLock(c.t, exclusive(c.t, m, fmt.Sprintf("jobs/%d", i)))
			defer h.Release()
		}
		n := 0
		for info := range m.Locks(false) {
			h := mustLock(c.t, exclusive(c.t, m, info.Name)) // takes the manager's mutex
			h.Release()
			if n++; n == 5 {
				break
			}
		}
		expect(c.t, n == 5, "%d locks, want 5", n)
	})
}

// Stats counts what happened, and tells how the session is.
func TestManagerStats(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		l := exclusive(c.t, a, "jobs")
		for range 3 {
			mustRelease(c.t, mustLock(c.t, l))
		}
		other := mustLock(c.t, exclusive(c.t, b, "other"))
		wantErr(c.t, "trylock", errOf(exclusive(c.t, a, "other").TryLock(c.t.Context())), ErrLocked)
		h := mustLock(c.t, l)
		later(time.Second) // its node is watched
		c.remove(c.nodeOf(a))
		synctest.Wait()
		h.Release()
		readWrite(c.t, a, "pair").Upgradable()

		st := a.Stats()
		expect(c.t, st.Grants == 4 && st.Losses == 1 && st.Failures == 1,
			"%d grants, %d losses, %d failures; want 4, 1, 1", st.Grants, st.Losses, st.Failures)
		if st.Session != session(a) || st.Timeout != defaultSessionTimeout || !st.Connected || st.Outage != nil || st.Sessions != 1 || st.Reconnects != 0 || st.Workers != defaultWorkers {
			c.t.Errorf("%+v", st)
		}
		expect(c.t, st.Requests["multi"] != 0 && st.Answers != 0 && st.WatchEvents != 0 && st.Busy == 0 && st.Queued == 0,
			"%+v", st)

		h = mustLock(c.t, l)
		if st = a.Stats(); st.Lease <= 0 || st.Lease > defaultSessionTimeout/2 || st.Locks < 1 || st.Locks > 3 { // some may be collected
			c.t.Errorf("lease %v, %d locks", st.Lease, st.Locks)
		}
		refused := c.srv.Faults().Refuse()
		c.srv.Faults().CutAll()
		later(2 * time.Second)
		acquired := c.acquire(l)
		if st = a.Stats(); st.Connected || st.Outage == nil || !strings.Contains(st.Outage.Error(), "connection refused") || st.Session == 0 {
			c.t.Errorf("in an outage: %+v", st)
		}
		refused.Remove()
		later(2 * time.Second)
		st = a.Stats()
		expect(c.t, st.Connected && st.Reconnects == 1, "after an outage: %+v", st)
		acquired.Release()
		c.unlock(h, other)
		wantErr(c.t, "close", a.Close(), nil)
		st = a.Stats()
		expect(c.t, st.Session == 0 && !st.Connected && st.Lease == 0, "closed: %+v", st)
	})
}

// A manager remembers its last losses, and no more.
func TestLossesAreForgotten(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		var locks []*Lock
		lose := func(l *Lock, held time.Duration) {
			m.journal.losses.note(l, Loss{Held: held, Err: &Error{Op: "hold", Name: l.Name(), Err: errLeaseEnded}})
		}
		for i := range lossesKept + 2 {
			locks = append(locks, exclusive(c.t, m, fmt.Sprintf("jobs/%d", i)))
			lose(locks[i], time.Duration(i))
		}
		lose(locks[1], time.Hour)
		for i, want := range map[int]time.Duration{1: time.Hour, 3: 3, lossesKept + 1: lossesKept + 1} {
			got := m.journal.losses.lastOf(locks[i])
			expect(c.t, got != nil && got.Held == want, "lock %d: %+v, want it lost after %v", i, got, want)
		}
		for _, i := range []int{0, 2} {
			wantEq(c.t, fmt.Sprint("lock ", i), m.journal.losses.lastOf(locks[i]), nil)
		}
		wantEq(c.t, "losses", len(m.journal.losses.past), lossesKept)
		wantEq(c.t, "of so many locks", len(m.journal.losses.last), lossesKept)
		later(time.Second)
	})
}

// A look at 100,000 locks takes a fraction of a second.
func BenchmarkLocks(b *testing.B) {
	const n = 100_000
	m := disconnected()
	locks := make([]*Lock, n)
	for i := range locks {
		locks[i] = exclusive(b, m, fmt.Sprintf("jobs/%d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		seen := 0
		for range m.Locks(true) {
			seen++
		}
		if seen != n {
			b.Fatalf("%d locks", seen)
		}
	}
	runtime.KeepAlive(locks) // the manager forgets locks without references
}

// A process that waits knows the session of the process that holds the lock, which is what
// ZooKeeper's logs call it.
func TestSessionOfTheHolder(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("first"))
		l := c.lock("second")
		waits := c.acquire(l)
		want := grantOf(c.t, h).Session
		info := l.cur.Load().info()
		expect(c.t, info.Holder != nil && info.Ahead != nil && info.Holder.Session == want && info.Ahead.Session == want,
			"the holder is %+v, ahead is %+v; want session %#x", info.Holder, info.Ahead, want)
		var e *Error
		expect(c.t, errors.As(waits.Err(), &e) && e.Ahead.Session == want,
			"the error of the waiter: %v", waits.Err())
		c.unlock(h)
		c.held(waits)
		c.unlock(waits)
	})
}
