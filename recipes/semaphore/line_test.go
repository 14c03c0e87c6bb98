// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// timeout is the session timeout of the processes of these tests.
const timeout = 10 * time.Second

func withTimeout(cfg *manager.Config) { cfg.SessionTimeout = timeout }

func openIn(c *recipetest.Cluster, label string, permits int) user {
	c.T.Helper()
	m := c.Open(label, withTimeout)
	s, err := New(m, "db", Options{Permits: permits})
	if err != nil {
		c.T.Fatal(err)
	}
	return newUser(s, c, m)
}

// die has the process fall silent, as by kill -9: ZooKeeper keeps its nodes until its session
// is over.
func (u user) die() {
	u.c.Srv.Faults().Blackhole(recipetest.SessionOf(u.m))
}

// The first in line, and the one behind it, die while permits are free, or come free after
// that. Those behind them get the permits long before ZooKeeper ends the sessions.
func TestF306_HeadOfTheLineDies(t *testing.T) {
	type row struct {
		dead    int           // how many die, the first of them at the head of the line
		release time.Duration // after that the permits come free
	}
	recipetest.Bubbles(t, map[string]row{
		"one": {1, 0}, "two": {2, 0}, "permits come free later": {1, 4 * time.Second},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		b := openIn(c, "b", 3)
		all := b.lock(3)
		var dead []user
		for range tt.dead {
			u := openIn(c, "dead", 3)
			u.acquire(t.Context(), 1)
			dead = append(dead, u)
		}
		living := openIn(c, "living", 3)
		waits := living.acquire(t.Context(), 1)
		for _, u := range dead {
			u.die()
		}
		recipetest.Later(tt.release)
		unlock(t, all)
		begun := time.Now()
		granted(t, waits, b.Acquire(t.Context(), 1))
		if took := time.Since(begun); took > timeout/4 {
			t.Errorf("permits were free, and those that waited got them after %v", took)
		}
		unlock(t, waits)
	})
}

// granted waits until the permits are granted.
func granted(t *testing.T, all ...*Permits) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, p := range all {
		if _, err := p.Granted().Wait(ctx); err != nil {
			t.Error(err)
		}
	}
}

// The one behind the first does not go ahead while the first waits since too few permits are
// free for it.
func TestF306_FirstWantsMore(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b, d := openIn(c, "a", 3), openIn(c, "b", 3), openIn(c, "d", 3)
		held := a.lock(1)
		first := b.acquire(t.Context(), 3)
		second := d.acquire(t.Context(), 1)
		recipetest.Later(time.Hour)
		b.pending(first)
		d.pending(second)
		unlock(t, held)
		granted(t, first)
		d.pending(second)
		unlock(t, first)
		granted(t, second)
		unlock(t, second)
		b.wantNothing(3)
	})
}

// Permits are free all the time, since each turn takes a while, and those that wait see that.
// They keep their order all the same: the line moves.
func TestF306_SlowLine(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		unlock(t, openIn(c, "first", 5).lock(1))
		var all sync.WaitGroup
		for range 12 {
			u := openIn(c, "waits", 5)
			c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(u.m), Times: -1}, timeout/100)
			all.Go(func() {
				for range 3 {
					p := u.lock(1)
					if !p.claim.turn {
						t.Error("a process went ahead of those before it, although the line moves")
					}
					unlock(t, p)
				}
			})
		}
		all.Wait()
	})
}

// A process looks once for all that wait in it, and a few times in a session timeout.
func TestF306_Looks(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b, d := openIn(c, "a", 1), openIn(c, "b", 1), openIn(c, "d", 1)
		held := a.lock(1)
		first := b.acquire(t.Context(), 1)
		ctx, giveUp := context.WithCancel(t.Context())
		for range 100 {
			d.Acquire(ctx, 1)
		}
		recipetest.Later(timeout / 16)
		var reads atomic.Int64
		c.Srv.OnRequest(func(_ int64, _ zktest.Op, path string) {
			if path == d.leases || path == d.number {
				reads.Add(1)
			}
		})
		recipetest.Later(8 * timeout)
		c.Srv.OnRequest(nil)
		if got, want := reads.Load(), int64(2*8*8); got != want {
			t.Errorf("%d reads in 8 session timeouts, want %d", got, want)
		}
		giveUp()
		unlock(t, held)
		granted(t, first)
		unlock(t, first)
		b.wantNothing(1)
	})
}

// deadHead has a process die first in line for one of three permits, of which it has made the
// node. Two are free, and one of two living processes waits for one.
func deadHead(c *recipetest.Cluster) (b, living user, waits *Permits) {
	b = openIn(c, "b", 3)
	dead := openIn(c, "dead", 3)
	living = openIn(c, "living", 3)
	all := b.lock(3)
	dead.acquire(c.T.Context(), 1)
	waits = living.acquire(c.T.Context(), 1)
	dead.die()
	unlock(c.T, all)
	return b, living, waits
}

// The number of permits is changed again and again: that says nothing of the dead head.
func TestF337_ResizedMeanwhile(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		b, _, waits := deadHead(c)
		begun := time.Now()
		for n := 10; !waits.granted.Settled(); n++ {
			recipetest.WantErr(t, "resize", b.Resize(t.Context(), n), nil)
			recipetest.Later(timeout / 20)
		}
		if took := time.Since(begun); took > timeout/2 {
			t.Errorf("permits were free, and a caller had one after %v", took)
		}
		unlock(t, waits)
	})
}

// The first in line is dead, and many callers are behind it. Its silence holds them up once, and
// not before each of their permits.
func TestF337_DeadHeadHoldsUpOnce(t *testing.T) {
	const callers = 12 // of each process
	recipetest.Bubbles(t, map[string]int{"one process": 1, "two processes": 2}, func(t *testing.T, c *recipetest.Cluster, processes int) {
		b, living, waits := deadHead(c)
		begun := time.Now()
		var all sync.WaitGroup
		for _, u := range []user{living, b}[:processes] {
			for range callers {
				all.Go(func() { unlock(t, u.lock(1)) })
			}
		}
		granted(t, waits)
		unlock(t, waits)
		all.Wait()
		if took := time.Since(begun); took > timeout/4+callers*timeout/32 {
			t.Errorf("permits were free, and %d callers in each of %d processes had theirs after %v", callers, processes, took)
		}
	})
}

// Those behind a first in line that is known to be dead hear soon that a permit has come free.
func TestF337_PermitsComeFree(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		b, living, waits := deadHead(c)
		held := []*Permits{waits, living.lock(1)}
		granted(t, held...)
		next := b.Acquire(t.Context(), 1)
		recipetest.Later(timeout / 4)
		for range 5 {
			b.pending(next)
			unlock(t, held[0])
			begun := time.Now()
			granted(t, next)
			if took := time.Since(begun); took > timeout/30 {
				t.Errorf("a permit was free for %v", took)
			}
			held = []*Permits{held[1], next}
			next = b.Acquire(t.Context(), 1)
			recipetest.Later(timeout / 23)
		}
		unlock(t, held...)
		granted(t, next)
		unlock(t, next)
	})
}

// Callers of TryLock come and go. They do not keep those that wait from noticing that the first
// in line is dead.
func TestF337_TryLocksMeanwhile(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		b, _, waits := deadHead(c)
		begun := time.Now()
		for !waits.granted.Settled() {
			p, err := b.TryLock(t.Context(), 1)
			recipetest.WantErr(t, "trylock", err, nil)
			recipetest.Later(timeout / 100)
			unlock(t, p)
		}
		if took := time.Since(begun); took > timeout/4 {
			t.Errorf("a permit was free, and the one that waited got it after %v", took)
		}
		unlock(t, waits)
	})
}

// The first in line is a process with several callers, whose turns take a while each. It keeps
// its place meanwhile, and the one behind it does not go ahead.
func TestF337_HeadWithManyCallers(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("first", withTimeout, func(cfg *manager.Config) { cfg.Tenure = -1 })
		first := newUser(must(New(m, "db", Options{Permits: 3})), c, m)
		behind := openIn(c, "behind", 3)
		held := first.lock(3)
		var all sync.WaitGroup
		for range 20 {
			p := first.acquire(t.Context(), 1)
			all.Go(func() {
				granted(t, p)
				unlock(t, p)
			})
		}
		last := behind.acquire(t.Context(), 1)
		c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Times: zktest.Every}, timeout/64)
		unlock(t, held)
		granted(t, last)
		if !last.claim.turn {
			t.Error("a process went ahead of the first, although the line moves")
		}
		unlock(t, last)
		all.Wait()
	})
}
