// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A user is a process with a semaphore.
type user struct {
	*Semaphore
	c     *recipetest.Cluster
	m     *manager.Manager
	asked *[]*Permits // what acquire has returned
}

func open(c *recipetest.Cluster, label string, permits int) user {
	c.T.Helper()
	m := c.Open(label)
	s, err := New(m, "db", Options{Permits: permits})
	if err != nil {
		c.T.Fatal(err)
	}
	return newUser(s, c, m)
}

func newUser(s *Semaphore, c *recipetest.Cluster, m *manager.Manager) user {
	return user{s, c, m, new([]*Permits)}
}

// lock is Lock that must succeed.
func (u user) lock(w int) *Permits {
	u.c.T.Helper()
	ctx, cancel := context.WithTimeout(u.c.T.Context(), time.Minute)
	defer cancel()
	p, err := u.Lock(ctx, w)
	if err != nil {
		u.c.T.Fatal(err)
	}
	return p
}

// acquire asks for permits that have to wait, and returns when they are in line.
func (u user) acquire(ctx context.Context, w int) *Permits {
	u.c.T.Helper()
	before := 0
	for _, p := range *u.asked {
		if !p.granted.Settled() {
			before++
		}
	}
	u.c.Until("those that have their permits are out of the line", func() bool { return u.line() == before })
	p := u.Acquire(ctx, w)
	*u.asked = append(*u.asked, p)
	u.c.Until("it is in line", func() bool { return u.line() > before })
	u.pending(p)
	return p
}

// line returns how many goroutines of the process are in line.
func (u user) line() int {
	_, n := u.locks.State()
	return n
}

func (u user) pending(p *Permits) {
	u.c.T.Helper()
	if p.granted.Settled() {
		u.c.T.Errorf("not pending: %v", p.Err())
	}
}

func (u user) granted(p *Permits) {
	u.c.T.Helper()
	u.c.Until("they are granted", p.granted.Settled)
	recipetest.WantErr(u.c.T, "granted", p.Err(), nil)
}

func unlock(t *testing.T, all ...*Permits) {
	t.Helper()
	for _, p := range all {
		recipetest.WantErr(t, "unlock", p.Unlock(t.Context()), nil)
	}
}

// wantState checks how many leases there are and how many processes are in line.
func (u user) wantState(permits, leases, waiting int) {
	u.c.T.Helper()
	var st State
	defer func() {
		if u.c.T.Failed() {
			u.c.T.Logf("%d permits, %d leases, %d waiting", st.Permits, len(st.Leases), st.Waiting)
		}
	}()
	u.c.Until(fmt.Sprintf("%d permits, %d leases, %d waiting", permits, leases, waiting), func() (same bool) {
		var err error
		if st, err = u.State(u.c.T.Context()); err != nil {
			u.c.T.Fatal(err)
		}
		return st.Permits == permits && len(st.Leases) == leases && st.Waiting == waiting
	})
}

// wantNothing checks that neither nodes nor watches are left.
func (u user) wantNothing(permits int) {
	u.c.T.Helper()
	u.wantState(permits, 0, 0)
	if u.c.Srv == nil {
		return
	}
	for _, path := range []string{u.leases, u.number} {
		u.c.Until("no watch is left of "+path, func() bool { return u.c.Srv.Watches(path) == zktest.WatchCount{} })
	}
}

// A process whose locks linger keeps its place in line when it has its permits. It does not
// wait, and lets the next one have the place at once.
func TestStateOfALingerer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a", func(cfg *manager.Config) { cfg.Linger = time.Hour })
		s, err := New(m, "db", Options{Permits: 3})
		recipetest.WantErr(t, "new", err, nil)
		a, b, d := newUser(s, c, m), open(c, "b", 3), open(c, "d", 3)
		p := a.lock(2)
		a.wantState(3, 2, 0)
		if left := c.Srv.Children(s.dir + "/locks"); len(left) != 1 {
			t.Errorf("in line are %v", left)
		}
		q := b.acquire(t.Context(), 2)
		a.wantState(3, 4, 1)
		r := d.acquire(t.Context(), 1)
		a.wantState(3, 4, 2)
		again := a.acquire(t.Context(), 1)
		a.wantState(3, 4, 3)
		unlock(t, p)
		a.granted(q)
		a.granted(r)
		a.wantState(3, 4, 1)
		unlock(t, q, r)
		a.granted(again)
		a.wantState(3, 1, 0)
		unlock(t, again)
	})
}

func TestSemaphore(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 3), open(c, "b", 3)
		p, q := a.lock(1), b.lock(2)
		if x, _ := p.Token(); x == 0 {
			t.Error("no token")
		}
		if x, _ := p.Token(); x >= must(q.Token()) {
			t.Errorf("tokens %d and %d do not rise", x, must(q.Token()))
		}
		a.wantState(3, 3, 0)

		r := a.acquire(t.Context(), 2)
		a.wantState(3, 5, 1)
		recipetest.WantErr(t, "pending", r.Err(), manager.ErrNotGranted)
		recipetest.WantErr(t, "trylock", recipetest.ErrOf(b.TryLock(t.Context(), 1)), ErrNoPermits)
		unlock(t, p)
		a.wantState(3, 4, 1)
		a.pending(r)
		unlock(t, q)
		a.granted(r)
		a.wantState(3, 2, 0)

		s, err := b.TryLock(t.Context(), 1)
		recipetest.WantErr(t, "trylock", err, nil)
		unlock(t, r, s)
		recipetest.WantErr(t, "released", r.Err(), manager.ErrReleased)
		recipetest.WantErr(t, "again", r.Unlock(t.Context()), manager.ErrReleased)
		a.wantNothing(3)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Those who wait get their permits in order, within a process and between processes, and
// one that wants many is not overtaken by those that want few.
func TestOrder(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 4), open(c, "b", 4)
		held := []*Permits{a.lock(1), a.lock(1), a.lock(1)}
		// In the order of their turns. The third is of another process.
		queue := []*Permits{b.acquire(t.Context(), 4), b.acquire(t.Context(), 1), nil}
		c.Until("b is first", func() bool { return must(a.State(t.Context())).Waiting == 1 })
		queue[2] = a.acquire(t.Context(), 2)
		for i, p := range held {
			for _, q := range queue {
				a.pending(q)
			}
			unlock(t, p)
			if i < 2 {
				recipetest.WantErr(t, "trylock past the first", recipetest.ErrOf(a.TryLock(t.Context(), 1)), ErrNoPermits)
			}
		}
		a.granted(queue[0])
		a.pending(queue[1])
		a.pending(queue[2])
		unlock(t, queue[0])
		a.granted(queue[1])
		a.granted(queue[2])
		unlock(t, queue[1:]...)
		a.wantNothing(4)
	})
}

// Two processes that want three of four permits each, while a third has two, get them one
// after the other: no deadlock, as there is if each permit is acquired by itself, or if both
// may make their nodes and wait.
func TestF244_TwoWantThreeOfFour(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b, third := open(c, "a", 4), open(c, "b", 4), open(c, "third", 4)
		const times = 20
		for i := 0; i < times && !t.Failed(); i++ {
			held := third.lock(2)
			var wg sync.WaitGroup
			for _, u := range []user{a, b} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					p, err := u.Lock(ctx, 3)
					if err != nil {
						t.Errorf("trial %d: %v", i, err)
						return
					}
					recipetest.WantErr(t, "unlock", p.Unlock(ctx), nil)
				})
			}
			c.Until("both wait", func() bool { return a.line() == 1 && b.line() == 1 })
			unlock(t, held)
			wg.Wait()
		}
		if !t.Failed() {
			t.Logf("%d of %d trials without a deadlock", times, times)
		}
		a.wantNothing(4)
	})
}

// What the package documentation says of requests.
func TestRequests(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", 8)
		unlock(t, a.lock(1)) // makes the directories
		want := func(what string, got map[zktest.Op]uint64, reads, writes uint64) {
			t.Helper()
			var r, w uint64
			for op, n := range got {
				switch op {
				case zktest.OpMulti, zktest.OpCreate, zktest.OpDelete, zktest.OpSetData:
					w += n
				default:
					r += n
				}
			}
			if r != reads || w != writes {
				t.Errorf("%s: %d reads and %d writes, want %d and %d: %v", what, r, w, reads, writes, got)
			}
		}
		for _, w := range []int{1, 5} {
			what := fmt.Sprintf("%d permits", w)
			want(what, c.Count(func() { unlock(t, a.lock(w)) }), 0, 4)
			want(what+" by TryLock", c.Count(func() {
				p, err := a.TryLock(t.Context(), w)
				recipetest.WantErr(t, "trylock", err, nil)
				unlock(t, p)
			}), 3, 2)
		}
		all := a.lock(8)
		want("TryLock in vain", c.Count(func() {
			recipetest.WantErr(t, "trylock", recipetest.ErrOf(a.TryLock(t.Context(), 1)), ErrNoPermits)
		}), 3, 0)
		// The lock, the nodes, the list and the number; then the list and the number, the
		// transaction, the end of both watches, and the lock; and the release.
		got := c.Count(func() {
			p := a.acquire(t.Context(), 1)
			unlock(t, all)
			a.granted(p)
			synctest.Wait()
			unlock(t, p)
		})
		want("a wait", got, 6, 6)
		a.wantNothing(8)
	})
}

func TestRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		for _, tt := range []struct {
			name    string
			permits int
			want    error
		}{
			{"a//b", 1, manager.ErrBadName}, {"db", -1, manager.ErrBadConfig}, {"db", MaxPermits + 1, manager.ErrBadConfig},
		} {
			recipetest.WantErr(t, fmt.Sprint(tt), recipetest.ErrOf(New(m, tt.name, Options{Permits: tt.permits})), tt.want)
		}
		s := must(New(m, "db", Options{Permits: 4}))
		unlock(t, must(s.Lock(t.Context(), 1)))
		recipetest.WantErr(t, "five of four", recipetest.ErrOf(s.Lock(t.Context(), 5)), ErrTooMany)
		recipetest.WantErr(t, "five of four", recipetest.ErrOf(s.TryLock(t.Context(), 5)), ErrTooMany)
		got := c.Count(func() {
			for w, want := range map[int]error{0: zkio.ErrBadArguments, -1: zkio.ErrBadArguments, MaxPermits + 1: ErrTooMany} {
				recipetest.WantErr(t, fmt.Sprint("lock ", w), recipetest.ErrOf(s.Lock(t.Context(), w)), want)
				recipetest.WantErr(t, fmt.Sprint("trylock ", w), recipetest.ErrOf(s.TryLock(t.Context(), w)), want)
				p := s.Acquire(t.Context(), w)
				recipetest.WantErr(t, fmt.Sprint("release ", w), recipetest.ErrOf(p.Release().Wait(t.Context())), manager.ErrNotGranted)
			}
			for _, n := range []int{0, -1, MaxPermits + 1} {
				recipetest.WantErr(t, fmt.Sprint("resize ", n), s.Resize(t.Context(), n), zkio.ErrBadArguments)
			}
		})
		if len(got) != 0 {
			t.Errorf("requests were sent: %v", got)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the caller is tired")
		cancel(cause)
		_, err := s.Lock(ctx, 1)
		recipetest.WantErr(t, "ctx has ended", err, cause)
		if want := `holdfast: lock "db": context canceled: the caller is tired`; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		recipetest.WantErr(t, "close", m.Close(), nil)
		recipetest.WantErr(t, "new after Close", recipetest.ErrOf(New(m, "db", Options{Permits: 4})), manager.ErrClosed)
		recipetest.WantErr(t, "lock after Close", recipetest.ErrOf(s.Lock(t.Context(), 1)), manager.ErrClosed)
		recipetest.WantErr(t, "trylock after Close", recipetest.ErrOf(s.TryLock(t.Context(), 1)), manager.ErrClosed)
		recipetest.WantErr(t, "resize after Close", s.Resize(t.Context(), 2), manager.ErrClosed)
		recipetest.WantErr(t, "state after Close", recipetest.ErrOf(s.State(t.Context())), manager.ErrClosed)
	})
}

// A large number of permits at a time, up to the bound.
func TestMany(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", MaxPermits)
		p := a.lock(MaxPermits)
		a.wantState(MaxPermits, MaxPermits, 0)
		unlock(t, p)
		a.wantNothing(MaxPermits)
	})
}

// Context ends with the permits, and Lost only with their loss.
func TestContext(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", 2)
		p, q := a.lock(1), a.lock(1)
		ctx, done := p.Context(t.Context())
		defer done()
		ended, done := p.Context(t.Context())
		done()
		recipetest.WantErr(t, "done", context.Cause(ended), context.Canceled)
		recipetest.WantErr(t, "held", ctx.Err(), nil)
		unlock(t, p)
		synctest.Wait()
		recipetest.WantErr(t, "released", context.Cause(ctx), manager.ErrReleased)
		if recipetest.IsClosed(p.Lost()) {
			t.Error("Lost is closed by a release")
		}
		ctx, done = q.Context(t.Context())
		defer done()
		c.Expire(a.m)
		recipetest.WantErr(t, "expired", context.Cause(ctx), ErrLost)
		recipetest.WantErr(t, "unlock", q.Unlock(t.Context()), ErrLost)
	})
}
