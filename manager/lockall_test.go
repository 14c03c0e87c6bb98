// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
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

// A meeting is a process a, which waits for the locks x and y together, and a process b,
// which holds x alone.
type meeting struct {
	*cluster
	a, b *Manager
	hx   Hold
	w    *waitingAll
}

// meet has the two meet, and returns when nothing moves any more.
func (c *cluster) meet(with ...func(*Config)) *meeting {
	c.t.Helper()
	m := &meeting{cluster: c, a: c.open("a", with...), b: c.open("b", with...)}
	m.hx = mustLock(c.t, exclusive(c.t, m.b, "x"))
	m.w = lockAll(c.t.Context(), m.a, several(c.t, m.a, "x", "y")...)
	m.w.wantPending(c.t)
	return m
}

// over checks that a gets both locks soon, and that nothing is left when it has released
// them.
func (m *meeting) over() {
	m.t.Helper()
	wantErr(m.t, "unlock", m.w.wantHeld(m.t, 5*time.Second).Unlock(m.t.Context()), nil)
	m.wantQueues(map[string]int{"x": 0, "y": 0})
}

// queueOf returns the names of the nodes in the queue of a lock.
func (c *cluster) queueOf(name string) []string { return c.srv.Children("/holdfast/" + name) }

// places are the nodes in the queues of x and y.
func (c *cluster) places() string { return fmt.Sprint(c.queueOf("x"), c.queueOf("y")) }

// removeFirst deletes the first node in the queue of a lock.
func (c *cluster) removeFirst(name string) { c.remove("/holdfast/" + name + "/" + c.queueOf(name)[0]) }

// wantQueues checks how many nodes are in each queue once nothing moves any more.
func (c *cluster) wantQueues(want map[string]int) {
	c.t.Helper()
	synctest.Wait()
	for name, n := range want {
		got := c.queueOf(name)
		expect(c.t, len(got) == n, "%d nodes in the queue of %s, want %d: %v", len(got), name, n, got)
	}
}

// An uncontended LockAll of known locks takes one request, and its release another.
func TestLockAllRequests(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y", "z")
		wantErr(c.t, "first", mustLockAll(c.t, m, locks...).Unlock(c.t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
		c.takeCounts()
		hs := mustLockAll(c.t, m, locks...)
		got := c.takeCounts()
		expect(c.t, total(got) == 1 && got[createNode] == 1, "LockAll took %v", got)
		for i, h := range hs {
			expect(c.t, h.Lock() == locks[i], "hold %d is of %s", i, h.Lock().Name())
			g := grantOf(c.t, h)
			expect(c.t, g.Token != 0 && strings.HasPrefix(g.Path, locks[i].Path()+"/"), "grant %d: %+v", i, g)
		}
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		got = c.takeCounts()
		expect(c.t, total(got) == 1, "Unlock took %v", got)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
		wantErr(c.t, "after that", hs.Err(), ErrReleased)
	})
}

// total returns how many requests were counted.
func total[T comparable](counts map[T]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// LockAll excludes other processes from each lock, and waits for each.
func TestLockAllExcludes(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		y := c.acquire(exclusive(c.t, m.b, "y"))
		c.waiting(y)
		c.unlock(m.hx)
		hs := m.w.wantHeld(c.t, time.Second)
		c.waiting(y)
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		c.held(y)
		c.unlock(y)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// A goroutine's own process is no exception: its shared rounds and its groups wait for
// each other, and the shared rounds make way.
func TestLockAllBesideItsProcess(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y")
		h := mustLock(c.t, locks[0])
		w := lockAll(c.t.Context(), m, locks...)
		w.wantPending(c.t)
		later(time.Second)
		// The gate is closed by now: newcomers come after the group.
		newcomer := c.acquire(locks[0])
		c.waiting(newcomer)
		c.unlock(h)
		hs := w.wantHeld(c.t, time.Second)
		c.waiting(newcomer)
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		c.held(newcomer)
		c.unlock(newcomer)
	})
}

// If the process holds all the locks, LockAll enters them without a request.
func TestLockAllEnters(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y", "z")
		var own []Hold
		for _, l := range locks {
			own = append(own, mustLock(c.t, l))
		}
		holders := func(x, y, z int) {
			c.t.Helper()
			for i, n := range []int{x, y, z} {
				_, got := locks[i].State()
				wantEq(c.t, "holders of "+locks[i].Name(), got, n)
			}
		}
		c.takeCounts()
		hs := mustLockAll(c.t, m, locks...)
		again := mustLockAll(c.t, m, locks[:2]...)
		holders(3, 3, 2)
		again.Release()
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		c.wantNothingSent()
		c.held(own...)

		// It counts itself into none if one is not held.
		c.unlock(own[2])
		w := lockAll(c.t.Context(), m, locks...)
		w.wantPending(c.t)
		holders(1, 1, 1)
		c.unlock(own[0], own[1])
		wantErr(c.t, "unlock", w.wantHeld(c.t, time.Second).Unlock(c.t.Context()), nil)
	})
}

// Bad input is refused before anything is sent.
func TestLockAllRefuses(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, other := c.open("a"), c.open("b")
		x, y := exclusive(c.t, m, "x"), exclusive(c.t, m, "y")
		rw, marked := readWrite(c.t, m, "rw"), reports(c.t, exclusive(c.t, m, "marked"), 0)
		hx, hr := mustLock(c.t, x), mustLock(c.t, rw.Reader())
		inX, cancelX := hx.Context(c.t.Context())
		defer cancelX()
		inR, cancelR := hr.Context(c.t.Context())
		defer cancelR()
		ended, cancel := context.WithCancel(c.t.Context())
		cancel()
		c.takeCounts()
		for _, test := range []struct {
			what  string
			ctx   context.Context
			locks []*Lock
			want  error
			says  string
		}{
			{"none", c.t.Context(), nil, ErrBadGroup, "none is given"},
			{"nil", c.t.Context(), []*Lock{x, nil}, ErrBadGroup, "lock 2 of 2 is nil"},
			{"another manager's", c.t.Context(), []*Lock{x, exclusive(c.t, other, "z")}, ErrBadGroup, `lock 2 of 2, "z", belongs to another Manager`},
			{"an upgradable", c.t.Context(), []*Lock{y, rw.Upgradable()}, ErrBadGroup, `lock 2 of 2, "rw", is an upgradable read lock, which can only be acquired alone`},
			{"one that reports abandonment", c.t.Context(), []*Lock{marked, y}, ErrBadGroup, `lock 1 of 2, "marked", reports abandonment, and can only be acquired alone`},
			{"one is held", inX, []*Lock{y, x}, ErrPartlyHeld, "release x first"},
			{"an upgrade", inR, []*Lock{y, rw.Writer()}, ErrUpgrade, ""},
			{"ended", ended, []*Lock{x, y}, context.Canceled, "x, y"},
		} {
			hs, err := m.LockAll(test.ctx, test.locks...)
			wantErr(c.t, test.what, err, test.want)
			expect(c.t, hs == nil && strings.Contains(fmt.Sprint(err), test.says),
				"%s: %v, %v", test.what, hs, err)
		}
		c.wantNothingSent()
		c.unlock(hx, hr)
		wantErr(c.t, "close", m.Close(), nil)
		wantErr(c.t, "closed", errOf(m.LockAll(c.t.Context(), x, y)), ErrClosed)
	})
}

// A context that carries all the locks reenters; a lock that is named twice, and a read
// lock beside its write lock, are acquired once.
func TestLockAllReenters(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		x, rw := exclusive(c.t, m, "x"), readWrite(c.t, m, "rw")
		hs := mustLockAll(c.t, m, x, rw.Reader(), x, rw.Writer())
		c.wantQueues(map[string]int{"x": 1, "rw": 1})
		for i, want := range []*Lock{x, rw.Writer(), x, rw.Writer()} {
			expect(c.t, hs[i].Lock() == want && hs[i].Depth() == 2,
				"hold %d: %v, depth %d", i, hs[i].Lock().Path(), hs[i].Depth())
		}
		ctx, cancel := hs.Context(c.t.Context())
		defer cancel()
		c.takeCounts()
		again, err := m.LockAll(ctx, rw.Writer(), x)
		wantErr(c.t, "again", err, nil)
		single, err := x.Lock(ctx)
		wantErr(c.t, "single", err, nil)
		read, err := rw.Reader().Lock(ctx)
		wantErr(c.t, "read", err, nil)
		all, err := m.LockAll(ctx, rw.Reader(), x)
		wantErr(c.t, "read and x", err, nil)
		c.wantNothingSent()
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		expect(c.t, context.Cause(ctx) != nil, "the context has not ended")
		wantErr(c.t, "again", again.Err(), nil)
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
		a, b := c.open("a"), c.open("b")
		arw, brw := readWrite(c.t, a, "rw"), readWrite(c.t, b, "rw")
		one := mustLockAll(c.t, a, arw.Reader(), exclusive(c.t, a, "x"))
		two := mustLockAll(c.t, b, brw.Reader(), exclusive(c.t, b, "y"))
		three := mustLockAll(c.t, a, arw.Reader(), exclusive(c.t, a, "z"))
		w := lockAll(c.t.Context(), b, brw.Writer(), exclusive(c.t, b, "u"))
		w.wantPending(c.t)
		for _, hs := range []Holds{one, two, three} {
			w.wantPending(c.t)
			wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		}
		wantErr(c.t, "unlock", w.wantHeld(c.t, time.Second).Unlock(c.t.Context()), nil)
	})
}

// A group that is first for one lock, and waits for the other, gives way to a caller that
// nests the two.
func TestLockAllGivesWay(t *testing.T) {
	eachOf(t, []time.Duration{0, 20 * time.Millisecond, -1}, func(c *cluster, tenure time.Duration) {
		m := c.meet(withTenure(tenure))
		first := c.queueOf("x")
		hy := mustLock(c.t, exclusive(c.t, m.b, "y")) // with hx held
		m.w.wantPending(c.t)
		got := c.queueOf("x")
		expect(c.t, len(got) == 2 && got[1] == first[1], "the group has left its place for x: %v, then %v", first, got)
		c.unlock(hy, m.hx)
		m.over()
	})
}

// A group that keeps nothing waiting keeps its places, and asks no more.
func TestLockAllKeepsItsPlaces(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		later(2 * time.Second)
		places := c.places()
		c.takeCounts()
		later(8 * time.Second)
		got := c.takeCounts()
		expect(c.t, got[createNode] == 0 && got[list] <= 2, "requests while it waits: %v", got)
		later(time.Minute)
		wantEq(c.t, "its places", c.places(), places)
		c.unlock(m.hx)
		m.over()
	})
}

// Where the directories may not be written, the nodes are created all the same.
func TestLockAllWithoutCounting(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		for _, path := range []string{"/holdfast/x", "/holdfast/y"} {
			wantErr(c.t, "data", c.srv.CreateAll(path, []byte("another client's")), nil)
		}
		for range 3 {
			hs := mustLockAll(c.t, m, several(c.t, m, "x", "y")...)
			g := grantOf(c.t, hs[0])
			wantEq(c.t, "the token", g.Token, c.czxid(g.Path))
			wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		}
		data, _, _ := c.srv.Get("/holdfast/x")
		wantEq(c.t, "the directory's data", string(data), "another client's")
	})
}

// Without permission for one of the locks nothing is created, and the error names it.
func TestLockAllWithoutPermission(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		for _, name := range []string{"x", "z"} {
			wantErr(c.t, "warm", mustLockAll(c.t, m, exclusive(c.t, m, name)).Unlock(c.t.Context()), nil)
		}
		acl := []zkio.ACL{{Perms: zkio.PermRead, Scheme: "world", ID: "anyone"}}
		wantErr(c.t, "create", m.client.Session().Create("/holdfast/y", nil, acl), nil)
		err := errOf(m.LockAll(c.t.Context(), several(c.t, m, "x", "y", "z")...))
		wantErr(c.t, "lock all", err, zkio.ErrNoAuth)
		wantSays(c.t, err, `lockall "y"`)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// The Holds of a group are like any others: they tell of waiters and of revocations, they
// guard, and each can be released alone.
func TestLockAllHolds(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		hs := mustLockAll(c.t, a, several(c.t, a, "x", "y")...)
		bx := exclusive(c.t, b, "x")
		contended := hs[0].Contended()
		waiter := c.acquire(bx)
		later(200 * time.Millisecond)
		expect(c.t, isClosed(contended) && !isClosed(hs[1].Contended()),
			"Contended tells nothing, or too much")
		c.revoking(bx, "please", time.Hour)
		later(200 * time.Millisecond)
		wantEq(c.t, "the reason", c.wantRevoked(hs[0]).Reason, "please")
		guard := errOf(hs[1].Guard(c.t.Context(), zkio.CreateOp("/guarded", nil, nil)))
		wantErr(c.t, "guard", guard, nil)
		shared, err := hs[0].Share()
		wantErr(c.t, "share", err, nil)
		wantEq(c.t, "the holder of x", holderOf(c.t, bx), "a:eh")
		c.unlock(hs[1])
		wantErr(c.t, "one is released", hs.Err(), ErrReleased)
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
		a, b := c.open("a"), c.open("b")
		hs := mustLockAll(c.t, a, several(c.t, a, "x", "y")...)
		w := lockAll(c.t.Context(), a, several(c.t, a, "y", "z")...)
		shut := make(chan error, 1)
		go func() { shut <- a.Shutdown(c.t.Context()) }()
		<-w.done
		wantErr(c.t, "waiter", w.err, ErrClosed)
		wantErr(c.t, "holder", hs.Err(), nil)
		hs.Release()
		wantErr(c.t, "shutdown", <-shut, nil)

		bh := mustLockAll(c.t, b, several(c.t, b, "x", "y")...)
		ctx, cancel := bh.Context(c.t.Context())
		defer cancel()
		lost := bh.Lost()
		w = lockAll(c.t.Context(), b, several(c.t, b, "y", "z")...)
		wantErr(c.t, "close", b.Close(), nil)
		wantErr(c.t, "holder", bh.Err(), ErrClosed)
		wantErr(c.t, "context", context.Cause(ctx), ErrClosed)
		expect(c.t, isClosed(lost), "Lost is open")
		<-w.done
		wantErr(c.t, "waiter", w.err, ErrClosed)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// The manager forgets a group when its last lock is given up, however its Holds are
// released.
func TestLockAllIsForgotten(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y", "z")
		wantErr(c.t, "unlock", mustLockAll(c.t, m, locks...).Unlock(c.t.Context()), nil)
		c.unlock(mustLockAll(c.t, m, locks...)...)
		mustLockAll(c.t, m, locks...)[:2].Release()
		synctest.Wait()
		wantEq(c.t, "places of a group that holds one lock", len(m.groups.places), 3)
		c.expire(m)
		wantEq(c.t, "places that are over", len(m.groups.places), 0)
		for _, l := range locks {
			expect(c.t, !l.noted.Load().Has(state.Together), "%s passes for one with places", l.Name())
		}
	})
}

// The error of a LockAll that has waited too long names a lock that it waits for, and the
// process that holds it: whichever of the locks that is, and whether its holder has it alone
// or with others. It leaves nothing behind.
func TestLockAllNamesTheHolder(t *testing.T) {
	for _, together := range []bool{false, true} {
		each(t, map[string]string{"the first": "x", "one in the middle": "y", "the last": "z"}, func(c *cluster, busy string) {
			b, a := c.open("b"), c.open("a")
			held := several(c.t, b, busy)
			if together {
				mustLockAll(c.t, b, append(held, exclusive(c.t, b, "of b alone"))...)
			} else {
				mustLock(c.t, held[0])
			}
			err := errOf(a.LockAll(withTimeout(c.t, 2*time.Second), several(c.t, a, "x", "y", "z")...))
			wantErr(c.t, "lock all", err, context.DeadlineExceeded)
			wantSays(c.t, err, "lockall "+strconv.Quote(busy), "held by b@")
			var e *Error
			expect(c.t, errors.As(err, &e) && e.Holder != nil && e.Holder.Label == "b" && e.Name == busy,
				"the error does not name the holder: %v", err)
			want := map[string]int{"x": 0, "y": 0, "z": 0}
			want[busy] = 1
			c.wantQueues(want)
		})
	}
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
		expect(c.t, len(names) == 1002, "%d names of 1002 nodes", len(names))
	})
}

// The locks that LockAll has acquired do not linger, whatever the locks do that callers acquire
// alone. A lock that is idle is given up for the call.
func TestLockAllDoesNotLinger(t *testing.T) {
	either(t, func(c *cluster, idle bool) {
		m := c.open("a", withLinger(always))
		locks := several(c.t, m, "x", "y")
		if idle {
			defer c.wantGone(locks[0], c.idle(locks[0]))
		}
		lockAll(c.t.Context(), m, locks...).wantHeld(c.t, time.Second).Release()
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// Groups meet locks of the same processes that linger, and an upgradable that is held, and
// upgraded: each gets its turn.
func TestLockAllMeetsItsPair(t *testing.T) {
	eachOf(t, []time.Duration{0, -1}, func(c *cluster, tenure time.Duration) {
		m, o := c.open("a", func(cfg *Config) { cfg.Linger = time.Hour; cfg.Tenure = tenure }), c.open("b", func(cfg *Config) { cfg.Linger = time.Hour })
		rw, x := readWrite(c.t, m, "jobs"), exclusive(c.t, m, "x")
		orw := readWrite(c.t, o, "jobs")
		c.cycle(rw.Reader())
		c.cycle(x)
		hs := lockAll(c.t.Context(), m, rw.Writer(), x).wantHeld(c.t, time.Second)
		hs.Release()
		synctest.Wait()
		c.cycle(rw.Writer())
		c.cycle(x)
		hs = lockAll(c.t.Context(), m, rw.Reader(), x).wantHeld(c.t, time.Second)
		hs.Release()
		c.cycle(orw.Reader())
		c.cycle(rw.Reader())
		c.cycle(x)
		ox := exclusive(c.t, o, "x")
		hs = lockAll(c.t.Context(), o, orw.Writer(), ox).wantHeld(c.t, time.Second)
		up := c.acquire(rw.Upgradable())
		c.waiting(up)
		hs.Release()
		c.held(up)
		c.mustUpgrade(up)
		w := lockAll(c.t.Context(), o, orw.Reader(), ox)
		w2 := lockAll(c.t.Context(), m, rw.Writer(), x)
		w.wantPending(c.t)
		w2.wantPending(c.t)
		own := c.acquire(rw.Reader())
		c.held(own)
		c.mustDowngrade(up)
		u := c.upgrade(up)
		u.waits()
		c.unlock(own)
		u.waits()
		w.wantHeld(c.t, 5*time.Second).Release()
		u.done()
		later(5 * time.Second)
		c.unlock(up)
		w2.wantHeld(c.t, 5*time.Second).Release()
		// LockAll holds a reserved read place which an upgrade waits for, and
		// the upgrader holds what the group waits for.
		hx := mustLock(c.t, x)
		w = lockAll(c.t.Context(), o, orw.Reader(), ox)
		up = c.acquire(rw.Upgradable())
		c.held(up)
		u = c.upgrade(up)
		later(20 * time.Second)
		u.done()
		c.unlock(up, hx)
		w.wantHeld(c.t, 5*time.Second).Release()
		synctest.Wait()
		expect(c.t, len(m.groups.places)+len(o.groups.places) == 0, "groups")
	})
}

// Close and Shutdown end groups and upgrades, in whichever state they are.
func TestCloseGroupsAndUpgrades(t *testing.T) {
	// What process a has begun, and whether process b has a node.
	begin := map[string]func(c *cluster, a, b *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int){
		"a group holds": func(c *cluster, a, _ *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			mustLockAll(c.t, x.m, a.Writer(), x)
			return w, u, 0
		},
		"a group waits": func(c *cluster, a, b *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			mustLock(c.t, b.Writer())
			return lockAll(c.t.Context(), x.m, a.Writer(), x), u, 1
		},
		"a group waits for an upgrade that waits": func(c *cluster, a, b *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			mustLock(c.t, b.Reader())
			u = c.upgrade(c.acquire(a.Upgradable()))
			return lockAll(c.t.Context(), x.m, a.Reader(), x), u, 1
		},
		"a group waits for an upgraded hold": func(c *cluster, a, _ *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			c.mustUpgrade(c.acquire(a.Upgradable()))
			return lockAll(c.t.Context(), x.m, a.Reader(), x), u, 0
		},
		// Close may end the group first: its reader was in the way of the upgrade, which
		// succeeds then for as long as Close takes to come to it.
		"an upgrade waits for a group": func(c *cluster, a, _ *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			mustLockAll(c.t, x.m, a.Reader(), x)
			return w, c.upgrade(c.acquire(a.Upgradable())), 0
		},
		"upgraded beside the rest of a group": func(c *cluster, a, _ *RWLock, x *Lock) (w *waitingAll, u upgrading, beside int) {
			mustLockAll(c.t, x.m, a.Reader(), x)[0].Release()
			c.mustUpgrade(c.acquire(a.Upgradable()))
			return w, u, 0
		},
	}
	for _, shutdown := range []bool{false, true} {
		each(t, begin, func(c *cluster, begin func(c *cluster, a, b *RWLock, x *Lock) (*waitingAll, upgrading, int)) {
			m := c.open("a")
			w, u, beside := begin(c, readWrite(c.t, m, "jobs"), c.rw("b"), exclusive(c.t, m, "x"))
			if shutdown {
				_ = m.Shutdown(withTimeout(c.t, time.Second)) // holders may be there
			} else {
				wantErr(c.t, "close", m.Close(), nil)
			}
			synctest.Wait()
			if w != nil {
				expect(c.t, isClosed(w.done) && w.err != nil, "still waiting")
			}
			if u.result != nil {
				if err := settled(c.t, "upgrade", u.result); err != nil {
					wantErr(c.t, "upgrade", err, ErrClosed)
				}
				wantErr(c.t, "the upgradable Hold", u.h.Err(), ErrClosed)
				c.wantUpgraded(u.h, false)
			}
			expect(c.t, len(m.groups.places) == 0 && len(m.active.list()) == 0,
				"groups %v %v", len(m.groups.places), len(m.active.list()))
			c.wantNodes(beside)
		})
	}
}

// The lock begins to report abandonment after LockAll has looked. The group's grant is of
// the old kind, and hides no death from the next holder.
func TestLockAllMeetsReportAbandoned(t *testing.T) {
	bubble(t, func(c *cluster) {
		m, o := c.open("a"), c.open("b")
		x, ox := exclusive(c.t, m, "x"), exclusive(c.t, o, "x")
		y := exclusive(c.t, m, "y")
		wantErr(c.t, "report", ox.ReportAbandoned(0), nil)
		mustLock(c.t, ox)
		w := lockAll(c.t.Context(), m, x, y)
		wantErr(c.t, "report", x.ReportAbandoned(0), nil)
		own := c.acquire(x)
		c.expire(o)
		hs := w.wantHeld(c.t, 5*time.Second)
		g, err := hs[0].Grant()
		c.t.Log(g, err)
		hs.Release()
		c.held(own)
		g, err = own.Grant()
		c.t.Log(g, err)
		expect(c.t, g.Abandoned, "hidden death")
		wantErr(c.t, "recovered", own.Recovered(), nil)
		again := waitBehind(c.t, own)
		own.Release()
		c.held(again)
		g, _ = again.Grant()
		expect(c.t, !g.Abandoned, "abandoned")
		again.Release()
		synctest.Wait()
		h2 := mustLock(c.t, ox)
		g, _ = h2.Grant()
		expect(c.t, !g.Abandoned, "abandoned")
	})
}

var lockAllFor = flag.Duration("lockall", 3*time.Second, "how long TestRealLockAll keeps its processes busy")

// insiders counts who is inside the locks, by the processes' own words.
type insiders struct {
	mu sync.Mutex
	in map[string]map[string]int // holders, by lock and process
}

// enter notes that a holder of the process is inside the locks. It returns the first lock
// in which another process is.
func (i *insiders) enter(process string, locks []string) (conflict string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range locks {
		if i.in[l] == nil {
			i.in[l] = make(map[string]int)
		}
		i.in[l][process]++
		if len(i.in[l]) > 1 {
			conflict = fmt.Sprintf("%s: %v", l, i.in[l])
		}
	}
	return conflict
}

func (i *insiders) leave(process string, locks []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range locks {
		if i.in[l][process]--; i.in[l][process] == 0 {
			delete(i.in[l], process)
		}
	}
}

// Four processes acquire random subsets of ten locks together, on a real server, beside
// callers in each of them that nest two single locks. No call waits for ever, and when a
// process has a subset, no other is inside one of its locks.
func TestRealLockAll(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	const processes, names = 4, 10
	var (
		inside  = &insiders{in: make(map[string]map[string]int)}
		stop    atomic.Bool
		workers sync.WaitGroup
		groups  atomic.Int64
		nested  atomic.Int64
		longest atomic.Int64
	)
	root := fmt.Sprintf("/lockall-%d", time.Now().UnixNano())
	work := func(process string, began time.Time, count *atomic.Int64, names []string, hs Holds) {
		if wait := int64(time.Since(began)); count == &groups {
			for old := longest.Load(); wait > old && !longest.CompareAndSwap(old, wait); old = longest.Load() {
			}
		}
		if err := hs.Err(); err != nil {
			if !errors.Is(err, ErrLost) { // the machine may be slow
				t.Errorf("%s: %v", process, err)
			}
			hs.Release()
			return
		}
		conflict := inside.enter(process, names)
		expect(t, conflict == "" || hs.Err() != nil,
			"%s has %v, and others are inside: %s", process, names, conflict)
		<-time.After(time.Millisecond) // its work
		inside.leave(process, names)
		count.Add(1)
		err := hs.Unlock(t.Context())
		expect(t, err == nil || errors.Is(err, ErrLost), "%s: unlock: %v", process, err)
	}
	for p := range processes {
		m, err := Open(t.Context(), Config{Servers: []string{zk.Addr()}, Root: root, Label: fmt.Sprint("p", p), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		for w := range 4 {
			workers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(w)))
				for !stop.Load() {
					var chosen []string
					for _, i := range rng.Perm(names)[:2+rng.IntN(3)] {
						chosen = append(chosen, fmt.Sprint("l", i))
					}
					began := time.Now()
					if w > 1 {
						hs, err := m.LockAll(t.Context(), several(t, m, chosen...)...)
						if err != nil {
							t.Errorf("p%d: %v", p, err)
							return
						}
						work(m.cfg.Label, began, &groups, chosen, hs)
						continue
					}
					// Single locks are nested in one order, or they would deadlock by
					// themselves.
					chosen = []string{min(chosen[0], chosen[1]), max(chosen[0], chosen[1])}
					var hs Holds
					for _, l := range several(t, m, chosen...) {
						h, err := l.Lock(t.Context())
						if err != nil {
							t.Errorf("p%d: %v", p, err)
							return
						}
						hs = append(hs, h)
					}
					work(m.cfg.Label, began, &nested, chosen, hs)
				}
			})
		}
	}
	select {
	case <-time.After(*lockAllFor):
	case <-t.Context().Done():
	}
	stop.Store(true)
	all := make(chan struct{})
	go func() { workers.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatal("a minute after the last call began, some have not returned: deadlock")
	}
	t.Logf("%d groups, %d nested calls; the longest wait of a group was %v", groups.Load(), nested.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	expect(t, groups.Load() != 0 && nested.Load() != 0, "nothing was done")
}

// lossesTold returns how many functions the round of h would call at its loss.
func lossesTold(h Hold) int {
	return h.promises().signals().losses.open().len()
}

// LockAll enters locks that the process holds, or keeps, for as long as the program runs, any
// number of times, and each caller listens for a loss, most of them in a loop. Nothing of it
// is left when a caller has released its Holds.
func TestF292_LostOfHoldsLeavesNothing(t *testing.T) {
	each(t, map[string]func(c *cluster, locks []*Lock){
		"all are held": func(c *cluster, locks []*Lock) {
			for _, l := range locks {
				h := mustLock(c.t, l)
				c.t.Cleanup(func() { h.Release() })
			}
		},
		"all linger": func(c *cluster, locks []*Lock) {
			for _, l := range locks {
				wantErr(c.t, "set", l.SetLinger(always), nil)
				c.cycle(l)
			}
		},
	}, func(c *cluster, keep func(*cluster, []*Lock)) {
		m := c.open("a")
		locks := several(c.t, m, "one", "two")
		keep(c, locks)
		for range 1000 {
			hs := mustLockAll(c.t, m, locks...)
			lost := hs.Lost()
			for range 3 {
				if hs.Lost() != lost {
					c.t.Fatal("the second call made another channel")
				}
			}
			if isClosed(lost) {
				c.t.Fatal("it is closed")
			}
			wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		}
		hs := mustLockAll(c.t, m, locks...)
		for i, h := range hs {
			expect(c.t, lossesTold(h) == 0,
				"%d callers that have left would be told of a loss of lock %d", lossesTold(h), i)
		}
		hs.Release()
	})
}

// Each of the Holds counts until it is released: of what is left, a loss is told, to each
// caller.
func TestHoldsLostAfterARelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "one", "two", "three")
		var mine []Hold
		for _, l := range locks {
			mine = append(mine, mustLock(c.t, l))
		}
		hs, others := mustLockAll(c.t, m, locks...), mustLockAll(c.t, m, locks...)
		lost, othersLost, two := hs.Lost(), others.Lost(), hs[1:].Lost()
		hs[0].Release()
		c.remove(grantOf(c.t, mine[0]).Path)
		later(time.Second)
		if isClosed(lost) || isClosed(two) || !isClosed(othersLost) {
			c.t.Errorf("the loss of a lock whose Hold was released was told %t and %t; to another caller, %t",
				isClosed(lost), isClosed(two), isClosed(othersLost))
		}
		c.remove(grantOf(c.t, mine[2]).Path)
		later(time.Second)
		expect(c.t, isClosed(lost) && isClosed(two),
			"the loss of a lock that is held was told %t and %t", isClosed(lost), isClosed(two))
		wantErr(c.t, "the one that is left", hs[1].Err(), nil)
		for _, h := range append(mine, append(hs, others...)...) {
			h.Release()
		}
	})
}
