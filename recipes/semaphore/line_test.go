// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"sync"
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
	for name, tt := range map[string]struct {
		dead    int           // how many die, the first of them at the head of the line
		release time.Duration // after that the permits come free
	}{
		"one": {1, 0}, "two": {2, 0}, "permits come free later": {1, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			recipetest.Bubble(t, func(c *recipetest.Cluster) {
				t := c.T
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
		})
	}
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
	recipetest.Bubble(t, func(c *recipetest.Cluster) {
		t := c.T
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
	recipetest.Bubble(t, func(c *recipetest.Cluster) {
		t := c.T
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
	recipetest.Bubble(t, func(c *recipetest.Cluster) {
		t := c.T
		a, b, d := openIn(c, "a", 1), openIn(c, "b", 1), openIn(c, "d", 1)
		held := a.lock(1)
		first := b.acquire(t.Context(), 1)
		ctx, giveUp := context.WithCancel(t.Context())
		for range 100 {
			d.Acquire(ctx, 1)
		}
		recipetest.Later(timeout / 16)
		counts := c.Count(func() { recipetest.Later(8 * timeout) })
		if got, want := counts[zktest.OpExists], uint64(2*8*8); got != want {
			t.Errorf("%d reads in 8 session timeouts, want %d: %v", got, want, counts)
		}
		giveUp()
		unlock(t, held)
		granted(t, first)
		unlock(t, first)
		b.wantNothing(1)
	})
}
