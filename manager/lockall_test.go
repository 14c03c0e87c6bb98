// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// several returns m's exclusive locks with these names.
func several(t testing.TB, m *Manager, names ...string) []*Lock {
	t.Helper()
	var locks []*Lock
	for _, name := range names {
		locks = append(locks, exclusive(t, m, name))
	}
	return locks
}

// mustLockAll acquires the locks together.
func mustLockAll(t *testing.T, m *Manager, locks ...*Lock) Holds {
	t.Helper()
	hs, err := m.LockAll(t.Context(), locks...)
	if err != nil {
		t.Fatal(err)
	}
	if len(hs) != len(locks) || hs.Err() != nil {
		t.Fatalf("%d holds of %d locks: %v", len(hs), len(locks), hs.Err())
	}
	return hs
}

// A waitingAll is a call of LockAll under way.
type waitingAll struct {
	done  chan struct{}
	holds Holds
	err   error
}

// lockAll calls LockAll on a goroutine of its own, and returns when nothing moves any more.
func lockAll(ctx context.Context, m *Manager, locks ...*Lock) *waitingAll {
	w := &waitingAll{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.holds, w.err = m.LockAll(ctx, locks...)
	}()
	synctest.Wait()
	return w
}

// wantPending checks that the call has not returned once nothing moves any more.
func (w *waitingAll) wantPending(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if isClosed(w.done) {
		t.Fatalf("LockAll has returned: %v", w.err)
	}
}

// wantHeld checks that the call returns holds within d, and returns them.
func (w *waitingAll) wantHeld(t *testing.T, d time.Duration) Holds {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(d):
		t.Fatalf("LockAll has not returned after %v", d)
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	if err := w.holds.Err(); err != nil {
		t.Fatal(err)
	}
	return w.holds
}

// queueOf returns the names of the nodes in the queue of a lock.
func (c *cluster) queueOf(name string) []string { return c.srv.Children("/holdfast/" + name) }

// wantQueues checks how many nodes are in each queue.
func (c *cluster) wantQueues(want map[string]int) {
	c.t.Helper()
	for name, n := range want {
		if got := c.queueOf(name); len(got) != n {
			c.t.Errorf("%d nodes in the queue of %s, want %d: %v", len(got), name, n, got)
		}
	}
}

// An uncontended LockAll of known locks takes one request, and its release another.
func TestLockAllRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		locks := several(t, m, "x", "y", "z")
		wantErr(t, "first", mustLockAll(t, m, locks...).Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
		c.takeCounts()
		hs := mustLockAll(t, m, locks...)
		if got := c.takeCounts(); total(got) != 1 || got[createNode] != 1 {
			t.Errorf("LockAll took %v", got)
		}
		for i, h := range hs {
			if h.Lock() != locks[i] {
				t.Errorf("hold %d is of %s", i, h.Lock().Name())
			}
			if g, err := h.Grant(); err != nil || g.Token == 0 || !strings.HasPrefix(g.Path, locks[i].Path()+"/") {
				t.Errorf("grant %d: %+v, %v", i, g, err)
			}
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		if got := c.takeCounts(); total(got) != 1 {
			t.Errorf("Unlock took %v", got)
		}
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
		wantErr(t, "after that", hs.Err(), ErrReleased)
	})
}

func total(counts map[verb]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// LockAll excludes other processes from each lock, and waits for each.
func TestLockAllExcludes(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		as, bs := several(t, a, "x", "y"), several(t, b, "x", "y")
		x := mustLock(t, bs[0])
		w := lockAll(t.Context(), a, as...)
		w.wantPending(t)
		y := c.acquire(bs[1])
		c.waiting(y)
		c.unlock(x)
		hs := w.wantHeld(t, time.Second)
		c.waiting(y)
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		c.held(y)
		c.unlock(y)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// A goroutine's own process is no exception: its shared rounds and its groups wait for
// each other, and the shared rounds make way.
func TestLockAllBesideItsProcess(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		locks := several(t, m, "x", "y")
		h := mustLock(t, locks[0])
		w := lockAll(t.Context(), m, locks...)
		w.wantPending(t)
		later(time.Second)
		// The gate is closed by now: newcomers come after the group.
		newcomer := c.acquire(locks[0])
		c.waiting(newcomer)
		c.unlock(h)
		hs := w.wantHeld(t, time.Second)
		c.waiting(newcomer)
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		c.held(newcomer)
		c.unlock(newcomer)
	})
}

// If the process holds all the locks, LockAll enters them without a request.
func TestLockAllEnters(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		locks := several(t, m, "x", "y", "z")
		var own []Hold
		for _, l := range locks {
			own = append(own, mustLock(t, l))
		}
		c.takeCounts()
		hs := mustLockAll(t, m, locks...)
		again := mustLockAll(t, m, locks[:2]...)
		for i, l := range locks {
			if _, n := l.State(); n != 3 && i < 2 || n != 2 && i == 2 {
				t.Errorf("%s has %d holders", l.Name(), n)
			}
		}
		again.Release()
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		if got := c.takeCounts(); total(got) != 0 {
			t.Errorf("requests: %v", got)
		}
		c.held(own...)

		// It counts itself into none if one is not held.
		c.unlock(own[2])
		hs = mustLockAllLater(t, c, m, locks, func() { c.unlock(own[0], own[1]) })
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
	})
}

// mustLockAllLater checks that LockAll waits for what do does.
func mustLockAllLater(t *testing.T, c *cluster, m *Manager, locks []*Lock, do func()) Holds {
	t.Helper()
	w := lockAll(t.Context(), m, locks...)
	w.wantPending(t)
	for _, l := range locks {
		if _, n := l.State(); n > 1 {
			t.Errorf("%s has %d holders", l.Name(), n)
		}
	}
	do()
	return w.wantHeld(t, time.Second)
}

// Bad input is refused before anything is sent.
func TestLockAllRefuses(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m, other := c.open("a"), c.open("b")
		x, y := exclusive(t, m, "x"), exclusive(t, m, "y")
		rw := readWrite(t, m, "rw")
		hx, hr := mustLock(t, x), mustLock(t, rw.Reader())
		inX, cancelX := hx.Context(t.Context())
		defer cancelX()
		inR, cancelR := hr.Context(t.Context())
		defer cancelR()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		c.takeCounts()
		for _, test := range []struct {
			what  string
			ctx   context.Context
			locks []*Lock
			want  error
			says  string
		}{
			{"none", t.Context(), nil, ErrBadGroup, "none is given"},
			{"nil", t.Context(), []*Lock{x, nil}, ErrBadGroup, "lock 1 is nil"},
			{"another manager's", t.Context(), []*Lock{x, exclusive(t, other, "z")}, ErrBadGroup, `lock 1, "z", belongs to another Manager`},
			{"one is held", inX, []*Lock{y, x}, ErrPartlyHeld, "release x first"},
			{"an upgrade", inR, []*Lock{y, rw.Writer()}, ErrUpgrade, ""},
			{"ended", ended, []*Lock{x, y}, context.Canceled, "x, y"},
		} {
			hs, err := m.LockAll(test.ctx, test.locks...)
			wantErr(t, test.what, err, test.want)
			if hs != nil || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%s: %v, %v", test.what, hs, err)
			}
		}
		if got := c.takeCounts(); total(got) != 0 {
			t.Errorf("requests: %v", got)
		}
		c.unlock(hx, hr)
		wantErr(t, "close", m.Close(), nil)
		_, err := m.LockAll(t.Context(), x, y)
		wantErr(t, "closed", err, ErrClosed)
	})
}

// A context that carries all the locks reenters; a lock that is named twice, and a read
// lock beside its write lock, are acquired once.
func TestLockAllReenters(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		x, rw := exclusive(t, m, "x"), readWrite(t, m, "rw")
		hs := mustLockAll(t, m, x, rw.Reader(), x, rw.Writer())
		c.wantQueues(map[string]int{"x": 1, "rw": 1})
		for i, want := range []*Lock{x, rw.Writer(), x, rw.Writer()} {
			if hs[i].Lock() != want || hs[i].Depth() != 2 {
				t.Errorf("hold %d: %v, depth %d", i, hs[i].Lock().Path(), hs[i].Depth())
			}
		}
		ctx, cancel := hs.Context(t.Context())
		defer cancel()
		c.takeCounts()
		again, err := m.LockAll(ctx, rw.Writer(), x)
		wantErr(t, "again", err, nil)
		single, err := x.Lock(ctx)
		wantErr(t, "single", err, nil)
		read, err := rw.Reader().Lock(ctx)
		wantErr(t, "read", err, nil)
		all, err := m.LockAll(ctx, rw.Reader(), x)
		wantErr(t, "read and x", err, nil)
		if got := c.takeCounts(); total(got) != 0 {
			t.Errorf("requests: %v", got)
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		if err := context.Cause(ctx); err == nil {
			t.Error("the context has not ended")
		}
		wantErr(t, "again", again.Err(), nil)
		c.wantQueues(map[string]int{"x": 1, "rw": 1})
		again.Release()
		all.Release()
		c.unlock(single)
		c.wantQueues(map[string]int{"x": 0, "rw": 1})
		c.unlock(read)
		c.wantQueues(map[string]int{"rw": 0})
	})
}

// Readers of several processes hold a lock together, also in groups.
func TestLockAllReaders(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		arw, brw := readWrite(t, a, "rw"), readWrite(t, b, "rw")
		one := mustLockAll(t, a, arw.Reader(), exclusive(t, a, "x"))
		two := mustLockAll(t, b, brw.Reader(), exclusive(t, b, "y"))
		three := mustLockAll(t, a, arw.Reader(), exclusive(t, a, "z"))
		w := lockAll(t.Context(), b, brw.Writer(), exclusive(t, b, "u"))
		w.wantPending(t)
		for _, hs := range []Holds{one, two, three} {
			w.wantPending(t)
			wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		}
		wantErr(t, "unlock", w.wantHeld(t, time.Second).Unlock(t.Context()), nil)
	})
}

// If ctx ends, LockAll says which lock was in the way, and leaves nothing behind.
func TestLockAllCancelled(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		h := mustLock(t, exclusive(t, b, "y"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := a.LockAll(ctx, several(t, a, "x", "y", "z")...)
		wantErr(t, "lock all", err, context.DeadlineExceeded)
		if s := fmt.Sprint(err); !strings.Contains(s, `lockall "y"`) || !strings.Contains(s, "held by b@") {
			t.Errorf("the error is %q", s)
		}
		synctest.Wait()
		c.wantQueues(map[string]int{"x": 0, "y": 1, "z": 0})
		c.unlock(h)
	})
}

// A group that is first for one lock, and waits for the other, gives way to a caller that
// nests the two.
func TestLockAllGivesWay(t *testing.T) {
	for _, tenure := range []time.Duration{0, 20 * time.Millisecond, -1} {
		bubble(t, func(c *cluster) {
			t := c.t
			set := func(cfg *Config) { cfg.Tenure = tenure }
			a, b := c.open("a", set), c.open("b", set)
			x, y := exclusive(t, b, "x"), exclusive(t, b, "y")
			hx := mustLock(t, x)
			w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
			w.wantPending(t)
			first := c.queueOf("x")
			hy, err := y.Lock(t.Context()) // with hx held
			wantErr(t, "nested", err, nil)
			w.wantPending(t)
			if got := c.queueOf("x"); len(got) != 2 || got[1] != first[1] {
				t.Errorf("the group has left its place for x: %v, then %v", first, got)
			}
			c.unlock(hy, hx)
			wantErr(t, "unlock", w.wantHeld(t, time.Second).Unlock(t.Context()), nil)
		})
	}
}

// A group that keeps nothing waiting keeps its places, and asks no more.
func TestLockAllKeepsItsPlaces(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		h := mustLock(t, exclusive(t, b, "x"))
		w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
		later(2 * time.Second)
		places := fmt.Sprint(c.queueOf("x"), c.queueOf("y"))
		c.takeCounts()
		later(8 * time.Second)
		if got := c.takeCounts(); got[createNode] > 0 || got[list] > 2 {
			t.Errorf("requests while it waits: %v", got)
		}
		later(time.Minute)
		if now := fmt.Sprint(c.queueOf("x"), c.queueOf("y")); now != places {
			t.Errorf("its places were %s, and are %s", places, now)
		}
		c.unlock(h)
		w.wantHeld(t, time.Second).Release()
	})
}

// Where the directories may not be written, the nodes are created all the same.
func TestLockAllWithoutCounting(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		wantErr(t, "data", c.srv.CreateAll("/holdfast/x", []byte("another client's")), nil)
		wantErr(t, "data", c.srv.CreateAll("/holdfast/y", []byte("another client's")), nil)
		locks := several(t, m, "x", "y")
		for range 3 {
			hs := mustLockAll(t, m, locks...)
			g, _ := hs[0].Grant()
			if _, stat, ok := c.srv.Get(g.Path); !ok || stat.Czxid != int64(g.Token) {
				t.Errorf("token %d, and the node is %+v, %t", g.Token, stat, ok)
			}
			wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		}
		c.takeCounts()
		hs := mustLockAll(t, m, locks...)
		t.Logf("without counting: %v", c.takeCounts())
		hs.Release()
		if data, _, _ := c.srv.Get("/holdfast/x"); string(data) != "another client's" {
			t.Errorf("the directory's data: %q", data)
		}
	})
}

// Without permission for one of the locks nothing is created, and the error names it.
func TestLockAllWithoutPermission(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		for _, name := range []string{"x", "z"} {
			wantErr(t, "warm", mustLockAll(t, m, exclusive(t, m, name)).Unlock(t.Context()), nil)
		}
		acl := []zkio.ACL{{Perms: zkio.PermRead, Scheme: "world", ID: "anyone"}}
		wantErr(t, "create", m.client.Session().Create("/holdfast/y", nil, acl), nil)
		_, err := m.LockAll(t.Context(), several(t, m, "x", "y", "z")...)
		wantErr(t, "lock all", err, zkio.ErrNoAuth)
		if !strings.Contains(fmt.Sprint(err), `lockall "y"`) {
			t.Errorf("the error is %v", err)
		}
		synctest.Wait()
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// The Holds of a group are like any others: they tell of waiters and of revocations, they
// guard, and each can be released alone.
func TestLockAllHolds(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hs := mustLockAll(t, a, several(t, a, "x", "y")...)
		contended := hs[0].Contended()
		waiter := c.acquire(exclusive(t, b, "x"))
		later(200 * time.Millisecond)
		if !isClosed(contended) || isClosed(hs[1].Contended()) {
			t.Error("Contended tells nothing, or too much")
		}
		go func() { _ = exclusive(t, b, "x").Revoke(t.Context(), "please") }()
		later(200 * time.Millisecond)
		if r, ok := hs[0].Revocation(); !ok || r.Reason != "please" {
			t.Errorf("revocation: %+v, %t", r, ok)
		}
		_, err := hs[1].Guard(t.Context(), zkio.CreateOp("/guarded", nil, nil))
		wantErr(t, "guard", err, nil)
		shared, err := hs[0].Share()
		wantErr(t, "share", err, nil)
		holder, err := exclusive(t, b, "x").Holder(t.Context())
		if err != nil || holder.Label != "a" || !holder.Holds {
			t.Errorf("the holder of x: %v, %v", holder, err)
		}
		c.unlock(hs[1])
		wantErr(t, "one is released", hs.Err(), ErrReleased)
		c.held(hs[0], shared)
		c.wantQueues(map[string]int{"x": 2, "y": 0})
		c.unlock(hs[0])
		c.held(shared)
		c.waiting(waiter)
		c.unlock(shared)
		c.held(waiter)
		c.unlock(waiter)
	})
}

// Shutdown waits for the holders of a group, and Close ends them.
func TestLockAllClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hs := mustLockAll(t, a, several(t, a, "x", "y")...)
		w := lockAll(t.Context(), a, several(t, a, "y", "z")...)
		shut := make(chan error, 1)
		go func() { shut <- a.Shutdown(t.Context()) }()
		synctest.Wait()
		<-w.done
		wantErr(t, "waiter", w.err, ErrClosed)
		wantErr(t, "holder", hs.Err(), nil)
		hs.Release()
		wantErr(t, "shutdown", <-shut, nil)

		bh := mustLockAll(t, b, several(t, b, "x", "y")...)
		ctx, cancel := bh.Context(t.Context())
		defer cancel()
		lost := bh.Lost()
		w = lockAll(t.Context(), b, several(t, b, "y", "z")...)
		wantErr(t, "close", b.Close(), nil)
		wantErr(t, "holder", bh.Err(), ErrClosed)
		wantErr(t, "context", context.Cause(ctx), ErrClosed)
		if !isClosed(lost) {
			t.Error("Lost is open")
		}
		<-w.done
		wantErr(t, "waiter", w.err, ErrClosed)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// The manager forgets a group when its last lock is given up, however its Holds are
// released.
func TestLockAllIsForgotten(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		locks := several(t, m, "x", "y", "z")
		wantErr(t, "unlock", mustLockAll(t, m, locks...).Unlock(t.Context()), nil)
		for _, h := range mustLockAll(t, m, locks...) {
			c.unlock(h)
		}
		mustLockAll(t, m, locks...)[:2].Release()
		synctest.Wait()
		if n := len(m.groups.places); n != 3 {
			t.Errorf("the manager knows of places in %d queues, want those of the one that holds a lock", n)
		}
		c.expire(m)
		if n := len(m.groups.places); n != 0 {
			t.Errorf("the manager knows of places in %d queues that are over", n)
		}
		for _, l := range locks {
			if l.noted.Load().Has(state.Together) {
				t.Errorf("%s passes for one with places", l.Name())
			}
		}
	})
}

// The error of a LockAll that has waited too long names a lock that it waits for, and the
// process that holds it: whichever of the locks that is, and whether its holder has it alone
// or with others.
func TestLockAllNamesTheHolder(t *testing.T) {
	each(t, map[string]int{"the first": 0, "one in the middle": 1, "the last": 2}, func(c *cluster, busy int) {
		t := c.t
		names := []string{"x", "y", "z"}
		b, a := c.open("b"), c.open("a")
		for _, together := range []bool{false, true} {
			var release func()
			if held := several(t, b, names[busy], "of b alone"); together {
				release = mustLockAll(t, b, held...).Release
			} else {
				h := mustLock(t, held[0])
				release = func() { h.Release() }
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := a.LockAll(ctx, several(t, a, names...)...)
			cancel()
			wantErr(t, "lock all", err, context.DeadlineExceeded)
			var e *Error
			if !errors.As(err, &e) || e.Holder == nil || e.Holder.Label != "b" || !strings.Contains(e.Name, names[busy]) {
				t.Errorf("together %t: the error does not name the holder: %v", together, err)
			}
			if says := err.Error(); !strings.Contains(says, strconv.Quote(names[busy])) || !strings.Contains(says, "b@") {
				t.Errorf("together %t: the error says %q", together, says)
			}
			release()
			later(time.Second)
		}
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// While LockAll waits, its process makes 65,536 other nodes. The next node of a lock has
// another name than the one before: else it could be taken for it when an answer is lost.
func TestF331_NameComesAgain(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		g := &group{m: m, rank: m.rankAfter(m.client.Session().Zxid())}
		names := make(map[string]bool)
		for range 2 {
			names[g.guid()] = true
			for range 1<<16 - 1 {
				m.guid()
			}
		}
		for range 1000 {
			names[g.guid()] = true
		}
		if len(names) != 1002 {
			c.t.Errorf("%d names of 1002 nodes", len(names))
		}
	})
}
