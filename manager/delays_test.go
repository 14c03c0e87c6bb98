// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// What a round has put off for an hour is forgotten with the round: a program may go through
// any number of rounds in that time.
func TestF291_LongWaitsEndWithTheRound(t *testing.T) {
	longTenure := func(cfg *Config) { cfg.Tenure = time.Hour }
	// Each case returns a function that makes one more round, puts something off in it, and
	// ends it.
	each(t, map[string]func(c *cluster) (m *Manager, more func() []*share){
		"the look at the contenders behind": func(c *cluster) (*Manager, func() []*share) {
			l := c.lock("a", longTenure)
			return l.m, func() []*share {
				h := mustLock(c.t, l)
				later(200 * time.Millisecond)
				mustRelease(c.t, h)
				return []*share{h.share}
			}
		},
		"the gate of readers that their own writer waits for": func(c *cluster) (*Manager, func() []*share) {
			rw := c.rw("a", longTenure)
			return rw.reader.m, func() []*share {
				h, w := mustLock(c.t, rw.Reader()), c.acquire(rw.Writer())
				w.Release()
				mustRelease(c.t, h)
				return []*share{h.share, w.share}
			}
		},
		"the end of a lock-delay": func(c *cluster) (*Manager, func() []*share) {
			b := c.reporting("b", 24*time.Hour)
			h := mustLock(c.t, b)
			c.expire(b.m)
			h.Release()
			l := c.reporting("a", 24*time.Hour)
			return l.m, func() []*share {
				h := c.acquire(l)
				c.waiting(h)
				h.Release()
				synctest.Wait() // otherwise the next caller joins this round
				return []*share{h.share}
			}
		},
		"the end of an idle lock": func(c *cluster) (*Manager, func() []*share) {
			l := c.lock("a", func(cfg *Config) { cfg.Linger = time.Hour })
			return l.m, func() []*share {
				h := mustLock(c.t, l)
				mustRelease(c.t, h)
				l.ReleaseIdle()
				return []*share{h.share}
			}
		},
		"the patience of LockAll": func(c *cluster) (*Manager, func() []*share) {
			m, other := c.open("a", longTenure), c.open("b")
			locks := several(c.t, m, "one", "two")
			held := mustLock(c.t, exclusive(c.t, other, "two"))
			c.t.Cleanup(func() { held.Release() })
			return m, func() []*share {
				ctx, cancel := context.WithCancel(c.t.Context())
				w := lockAll(ctx, m, locks...)
				behind := c.acquire(exclusive(c.t, other, "one"))
				rounds := []*share{&locks[0].own().places()[0].round.share, &locks[1].own().places()[0].round.share}
				later(time.Second)
				cancel()
				<-w.done
				behind.Release()
				return rounds
			}
		},
	}, func(c *cluster, begin func(*cluster) (*Manager, func() []*share)) {
		m, more := begin(c)
		var rounds []weak.Pointer[share]
		for range 200 {
			for _, r := range more() {
				rounds = append(rounds, weak.Make(r))
			}
		}
		later(time.Second)
		wantEq(c.t, "rounds that are alive a second later", roundsAlive(rounds), 0)
		expect(c.t, m.client.Stats().Delayed <= 5, "%d things are put off", m.client.Stats().Delayed)
	})
}

// A program that calls SetLinger again and again, of a lock that is idle, leaves nothing
// behind by that, and the last time counts.
func TestF291_SetLingerAgainAndAgain(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 1000 {
			wantErr(c.t, "set", l.SetLinger(time.Hour), nil)
			c.cycle(l)
		}
		synctest.Wait()
		expect(c.t, l.m.client.Stats().Delayed <= 5,
			"%d things are put off", l.m.client.Stats().Delayed)
		wantErr(c.t, "set", l.SetLinger(time.Second), nil)
		later(2 * time.Second)
		c.wantNodes(0)
	})
}
