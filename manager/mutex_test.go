// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// mutex opens a manager and returns its mutex "jobs".
func (c *cluster) mutex(label string, with ...func(*Config)) *Mutex {
	c.t.Helper()
	return openMutex(c.t, c.open(label, with...), "jobs")
}

// openMutex returns the mutex called name.
func openMutex(t testing.TB, m *Manager, name string) *Mutex {
	t.Helper()
	x, err := m.Mutex(name)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// line acquires x n times without waiting, and returns the holds when nothing moves any
// more.
func (c *cluster) line(x *Mutex, n int) []Hold {
	holds := make([]Hold, n)
	for i := range holds {
		holds[i] = x.Acquire(c.t.Context())
	}
	synctest.Wait()
	return holds
}

// waitingOnly checks that none of the holds is granted, and none has failed.
func (c *cluster) waitingOnly(holds ...Hold) {
	c.t.Helper()
	synctest.Wait()
	for i, h := range holds {
		pending(c.t, fmt.Sprintf("hold %d of %d that wait", i, len(holds)), h.Granted())
	}
}

// holder checks that h holds the lock, and returns its grant.
func (c *cluster) holder(h Hold) Grant {
	c.t.Helper()
	synctest.Wait()
	g, err := h.Grant()
	expect(c.t, err == nil, "grant: %v, want it held", err)
	return g
}

// wantTurn checks the turn of a grant, and that it has the token of first.
func wantTurn(t *testing.T, g, first Grant, turn uint64) {
	t.Helper()
	expect(t, g.Token == first.Token && g.Turn == turn,
		"granted token %d, turn %d; want token %d, turn %d", g.Token, g.Turn, first.Token, turn)
}

// mustLockMutex acquires the mutex.
func mustLockMutex(t *testing.T, x *Mutex) Hold {
	t.Helper()
	h, err := x.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// inside checks that one goroutine at a time is inside, and that the pairs of the grants
// rise. The race detector sees whether a release synchronizes before the next grant.
type inside struct {
	t    *testing.T
	in   int // not atomic: the mutex protects it
	last Grant
	n    int
}

// visit is work that a mutex protects.
func (in *inside) visit(h Hold) {
	g, err := h.Grant()
	if errors.Is(err, ErrLost) {
		return
	}
	wantErr(in.t, "grant", err, nil)
	if in.in++; in.in != 1 {
		in.t.Errorf("%d goroutines are inside", in.in)
	}
	if in.n++; g.Compare(in.last) <= 0 {
		in.t.Errorf("grant %d.%d after %d.%d", g.Token, g.Turn, in.last.Token, in.last.Turn)
	}
	in.last = g
	runtime.Gosched()
	in.in--
}

// Many goroutines of several processes lock and unlock in every way.
func TestMutexExcludes(t *testing.T) {
	for _, processes := range []int{1, 2, 3} {
		subtest(t, fmt.Sprintf("processes=%d", processes), func(c *cluster) {
			in := &inside{t: c.t}
			var all sync.WaitGroup
			for p := range processes {
				x := c.mutex(fmt.Sprint(p))
				for i := range 32 {
					all.Go(func() {
						for j := range 20 {
							visitMutex(c.t, x, in, i+j)
						}
					})
				}
			}
			all.Wait()
			synctest.Wait()
			c.wantNodes(0)
		})
	}
}

// visitMutex locks x in the given way, visits and unlocks.
func visitMutex(t *testing.T, x *Mutex, in *inside, way int) {
	var (
		ctx = t.Context()
		h   Hold
		err error
		may error // what it may end with
	)
	switch way % 5 {
	case 0:
		h = x.Acquire(ctx)
		_, err = h.Ready().Wait(ctx)
	case 1:
		wantErr(t, "do", x.Do(ctx, func(_ context.Context, h Hold) error { in.visit(h); return nil }), nil)
		return
	case 2:
		may = ErrLocked
		h, err = x.TryLock(ctx)
	case 3:
		may = context.DeadlineExceeded
		h, err = x.Lock(withTimeout(t, time.Millisecond))
	default:
		h, err = x.Lock(ctx)
	}
	if may != nil && errors.Is(err, may) {
		return
	}
	wantErr(t, "lock", err, nil)
	in.visit(h)
	if way%2 == 0 {
		h.Release()
	} else {
		wantErr(t, "unlock", h.Unlock(ctx), nil)
	}
}

// The holder leaves as the lease ends. The next in the line is not let in under it.
func TestF120_LostAtTheRelease(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		for range 10 {
			holds := c.line(x, 2)
			first := c.holder(holds[0])
			c.away("a", 6*time.Second)
			// The timer of the lease and this one are due at the same moment: the holder
			// may be told before it leaves, or not.
			time.Sleep(holds[0].share.promises().tenure.lease.Remaining())
			released := holds[0].Release()
			wantErr(c.t, "granted to the next under the lease that is over", holds[1].Err(), ErrNotGranted)
			synctest.Wait()
			wantErr(c.t, "release", settled(c.t, "release", released), ErrLost)
			c.waitingOnly(holds[1])
			later(20 * time.Second)
			g := c.holder(holds[1])
			expect(c.t, g.Token > first.Token && g.Turn == 1, "granted %v after %v", g, first)
			mustRelease(c.t, holds[1])
		}
		c.wantNodes(0)
	})
}

// A name is of one kind.
func TestMutexKind(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		x := openMutex(c.t, m, "mutex")
		l := exclusive(c.t, m, "lock")
		rw := readWrite(c.t, m, "rw")
		expect(c.t, openMutex(c.t, m, "/mutex") == x, "the same name gave two mutexes")
		wantErr(c.t, "exclusive", errOf(m.Exclusive("mutex")), ErrKind)
		wantErr(c.t, "readwrite", errOf(m.ReadWrite("mutex")), ErrKind)
		for _, name := range []string{"lock", "rw"} {
			wantErr(c.t, "mutex", errOf(m.Mutex(name)), ErrKind)
		}
		wantErr(c.t, "mutex", errOf(m.Mutex("bad//name")), ErrBadName)
		expect(c.t, x.Name() == "mutex" && x.Path() == "/holdfast/mutex",
			"it is called %q, at %q", x.Name(), x.Path())
		runtime.KeepAlive(l)
		runtime.KeepAlive(rw)
		expect(c.t, mustLockMutex(c.t, x).Lock() == nil, "the private lock leaks out of a Hold")
		m.Close()
		expect(c.t, x.Acquire(c.t.Context()).Lock() == nil, "the private lock leaks out of a refused Hold")
		wantErr(c.t, "mutex", errOf(m.Mutex("another")), ErrClosed)
	})
}

// The holder leaves as the first in the line gives up: the lock goes to the next, and to
// one goroutine only.
func TestF121_GivingUpAtTheHandOver(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		holder := mustLockMutex(c.t, x)
		var granted, withdrawn int
		for range 500 {
			ctx, cancel := context.WithCancel(c.t.Context())
			first, second := x.Acquire(ctx), x.Acquire(c.t.Context())
			var both sync.WaitGroup
			both.Go(cancel)
			both.Go(func() { holder.Release() })
			both.Wait()
			synctest.Wait()
			if first.Err() == nil {
				granted++
				pending(c.t, "the second, while the first holds", second.Granted())
				mustRelease(c.t, first)
			} else {
				withdrawn++
				wantErr(c.t, "the first", first.Err(), ErrReleased)
			}
			c.holder(second)
			holder = second
		}
		c.t.Logf("the first in the line was granted the lock %d times, and gave up %d times", granted, withdrawn)
		mustRelease(c.t, holder)
		c.wantNodes(0)
	})
}

// The same, where the grant finds that the waiter has just left, and before that has told.
func TestF121_GivenUpAndStillInTheLine(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		holds := c.line(x, 3)
		first := c.holder(holds[0])
		w, e, _ := holds[1].share.word.Apply(state.Word.Leave) // as giveUp begins
		if w.Phase() != state.Fetching || e != state.Withdrawn {
			c.t.Fatalf("the second was %v, leaving: %v", w, e)
		}
		mustRelease(c.t, holds[0])
		wantTurn(c.t, c.holder(holds[2]), first, 2)
		holds[1].share.left(e, 0) // as it ends
		wantErr(c.t, "granted", settled(c.t, "granted", holds[1].Granted()), ErrNotGranted)
		wantErr(c.t, "released", settled(c.t, "released", holds[1].Released()), ErrNotGranted)
		wantTurn(c.t, c.holder(holds[2]), first, 2)
		mustRelease(c.t, holds[2])
		holds[1].slot.release(holds[1].gen)
	})
}

// The questions that a Lock answers are answered by the private lock.
func TestMutexAnswers(t *testing.T) {
	bubble(t, func(c *cluster) {
		questions := make(chan Question, 2)
		x := c.mutex("a", func(cfg *Config) {
			cfg.OnAsk = func(_ context.Context, q Question) ([]byte, error) {
				questions <- q
				return []byte("yes"), nil
			}
		})
		y := c.mutex("b")
		holds := c.line(x, 3)
		g := c.holder(holds[0])
		for _, asker := range []*Mutex{x, y} {
			a, err := asker.Ask(c.t.Context(), []byte("?"))
			wantErr(c.t, "ask", err, nil)
			expect(c.t, string(a.Reply) == "yes" && a.Holders == 1 && a.Waiting == 2 && a.Phase == state.Retained,
				"the answer is %+v", a)
			asked := <-questions
			expect(c.t, asked.Lock == nil && asked.Mutex == x && asked.Grant.Token == g.Token, "the question is %+v", asked)
			h, err := asker.Holder(c.t.Context())
			wantErr(c.t, "holder", err, nil)
			cached, err := asker.CachedHolder(c.t.Context())
			wantErr(c.t, "cached holder", err, nil)
			q, err := asker.Queue(c.t.Context(), -1)
			wantErr(c.t, "queue", err, nil)
			expect(c.t, len(q) == 1 && h.Path == g.Path && cached.Path == g.Path && q[0].Path == g.Path,
				"holder %v, cached %v, queue %v; want %s", h, cached, q, g.Path)
			for seen, err := range asker.WatchHolder(c.t.Context()) {
				if wantErr(c.t, "watch", err, nil); seen.Path != g.Path {
					c.t.Errorf("watched: %v", seen)
				}
				break
			}
		}
		c.unlock(holds...)
	})
}

// A Locker excludes, and panics where its interface leaves no other way.
func TestMutexLocker(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		n := 0 // protected by the locker
		one := x.Locker(c.t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l := one
				if i%2 == 0 {
					l = x.Locker(c.t.Context())
				}
				for range 10 {
					l.Lock()
					n++
					l.Unlock()
				}
			})
		}
		all.Wait()
		expect(c.t, n == 200, "counted to %d, want 200", n)
		wantPanic(c.t, "Unlock of a Locker that is not locked", one.Unlock)
		func() {
			defer func() {
				wantEq(c.t, "it panics with", fmt.Sprint(recover()), `holdfast: unlock "jobs": hold was released: this Locker is not locked`)
			}()
			one.Unlock()
		}()
		one.Lock()
		x.lock.m.Close()
		one.Unlock() // the lock is lost
		wantPanic(c.t, "Lock after Close", one.Lock)
	})
}

// wantPanic checks that do panics.
func wantPanic(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() { expect(t, recover() != nil, "%s did not panic", what) }()
	do()
}

// Idle mutexes without references are collected, and busy ones are not.
func TestMutexCollected(t *testing.T) {
	m := disconnected()
	var kept *Mutex
	for i := range 5000 {
		if kept = openMutex(t, m, fmt.Sprint(i)); i%500 == 0 {
			runtime.GC()
		}
	}
	runtime.GC()
	n := len(m.mutexes.at)
	expect(t, n <= 3000, "%d entries are left of 5000 mutexes", n)
	expect(t, openMutex(t, m, kept.Name()) == kept, "a mutex with a reference was made anew")
	l := exclusive(t, m, "0") // free for another kind
	runtime.KeepAlive(l)

	bubble(t, func(c *cluster) {
		m := c.open("a")
		p := func() weak.Pointer[Mutex] {
			x := openMutex(c.t, m, "jobs")
			mustLockMutex(c.t, x)
			return weak.Make(x)
		}()
		for range 5 {
			runtime.GC()
		}
		x := p.Value()
		expect(c.t, x != nil && openMutex(c.t, m, "jobs") == x, "a mutex that is held was collected")
	})
}

// A Hold that is dropped is logged, also if its lock was lost: the others of its process
// wait for it.
func TestMutexDropped(t *testing.T) {
	drops := map[string]struct {
		drop func(c *cluster, x *Mutex)
		says string
	}{
		"held": {func(c *cluster, x *Mutex) { mustLockMutex(c.t, x) }, "a Hold was dropped"},
		"lost": {func(c *cluster, x *Mutex) {
			h := mustLockMutex(c.t, x)
			c.srv.ExpireSession(session(x.lock.m))
			<-h.Lost()
			runtime.KeepAlive(h) // a collection during the wait would find it dropped while it holds
		}, "was lost, and its Hold was dropped"},
	}
	for name, test := range drops {
		t.Run(name, func(t *testing.T) {
			// Not in a bubble: the runtime runs cleanups outside.
			c := newCluster(t, zktest.Config{})
			x := c.mutex("a")
			test.drop(c, x)
			waitForDropped(t, x.lock.m, c.log, 1)
			expect(t, len(c.log.with(test.says)) == 1,
				"the log has no line with %q:\n%s", test.says, strings.Join(c.log.with(""), "\n"))
			runtime.KeepAlive(x)
		})
	}
}

// A goroutine that waits costs no goroutine of the package.
func TestMutexWaitersNeedNoGoroutines(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		h := mustLockMutex(c.t, x)
		synctest.Wait()
		before := runtime.NumGoroutine()
		holds := c.line(x, 10_000)
		n := runtime.NumGoroutine()
		expect(c.t, n <= before, "%d goroutines, and %d with 10,000 in the line", before, n)
		mustRelease(c.t, h)
		c.unlock(holds...)
	})
}

// The grants of a mutex are ordered by token, and then by turn. So are the texts that
// docs/fencing.md has services compare.
func TestGrantCompare(t *testing.T) {
	for _, test := range []struct {
		a, b Grant
		want int
	}{
		{Grant{}, Grant{}, 0},
		{Grant{Token: 5, Turn: 2}, Grant{Token: 5, Turn: 2, Path: "/x"}, 0},
		{Grant{Token: 5, Turn: 2}, Grant{Token: 5, Turn: 3}, -1},
		{Grant{Token: 5, Turn: 9}, Grant{Token: 6, Turn: 1}, -1},
		{Grant{Token: 7}, Grant{Token: 6, Turn: 8}, 1},
		{Grant{Token: 9, Turn: 9}, Grant{Token: 9, Turn: 10}, -1},
		{Grant{Token: 10}, Grant{Token: 9, Turn: math.MaxUint64}, 1},
		{Grant{Token: math.MaxInt64}, Grant{Token: 1 << 32}, 1},
	} {
		text := func(g Grant) string { return fmt.Sprintf("%020d.%020d", g.Token, g.Turn) }
		wantEq(t, "the texts compare as", strings.Compare(text(test.a), text(test.b)), test.want)
		got, back := test.a.Compare(test.b), test.b.Compare(test.a)
		expect(t, got == test.want && back == -test.want,
			"%+v and %+v compare as %d and %d, want %d", test.a, test.b, got, back, test.want)
	}
}

// A release that another goroutine's call overtakes settles as any other: at once if the
// lock stays in the process, and well.
func TestMutexReleasesSettle(t *testing.T) {
	bubble(t, func(c *cluster) {
		x := c.mutex("a")
		stays := x.Acquire(c.t.Context()) // so that there is always one in the line, and the round does not end
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 3000 {
					h := x.Acquire(c.t.Context())
					if _, err := h.Granted().Wait(c.t.Context()); err != nil {
						c.t.Errorf("granted: %v", err)
					}
					next := x.Acquire(c.t.Context())
					released := h.Release()
					if _, err, ok := released.Poll(); err != nil || !ok {
						c.t.Errorf("released, with another in the line: %v, settled: %v", err, ok)
						next.Release()
						return
					}
					next.Release()
				}
			})
		}
		stays.Release()
		all.Wait()
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The process loses the lock between the swap that grants it and the moment in which the grant is
// told. Those whose turn had not come wait on, for the next round.
func TestF120_LostBeforeItsGrantIsTold(t *testing.T) {
	bubble(t, func(c *cluster) {
		b := c.lock("b")
		held := mustLock(c.t, b)
		x := c.mutex("a")
		line := c.line(x, 3)
		later(time.Second) // all wait; no step of the round runs
		io := x.host().promises().io
		s := x.lock.m.client.Session()
		// As in roundIO.grant:
		io.tenure = &tenure{token: uint64(io.node.Czxid()), path: io.node.Path(), session: s, since: x.lock.m.now(), lease: s.Lease()}
		if _, e, _ := io.round.word.Apply(state.Word.Grant); e != state.Granted {
			c.t.Fatal(e)
		}
		io.teller().granted()
		// As in roundIO.PathChanged, on the dispatcher:
		io.round.fail(io.round.lost("hold", nodeGone))
		io.settleGrant() // the granter goes on
		later(time.Second)
		c.waitingOnly(line...)
		mustRelease(c.t, held)
		for _, h := range line {
			c.holder(h)
			mustRelease(c.t, h)
		}
		later(time.Second)
		c.wantNodes(0)
	})
}
