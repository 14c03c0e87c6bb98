// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Groups meet locks of the same processes that linger, and an upgradable that is held, and
// upgraded: each gets its turn.
func TestLockAllMeetsItsPair(t *testing.T) {
	for _, tenure := range []time.Duration{0, -1} {
		bubble(t, func(c *cluster) {
			t := c.t
			m, o := c.open("a", func(cfg *Config) { cfg.Linger = time.Hour; cfg.Tenure = tenure }), c.open("b", func(cfg *Config) { cfg.Linger = time.Hour })
			rw, x := readWrite(t, m, "jobs"), exclusive(t, m, "x")
			orw := readWrite(t, o, "jobs")
			c.cycle(rw.Reader())
			c.cycle(x)
			hs := lockAll(t.Context(), m, rw.Writer(), x).wantHeld(t, time.Second)
			hs.Release()
			synctest.Wait()
			c.cycle(rw.Writer())
			c.cycle(x)
			hs = lockAll(t.Context(), m, rw.Reader(), x).wantHeld(t, time.Second)
			hs.Release()
			c.cycle(orw.Reader())
			c.cycle(rw.Reader())
			c.cycle(x)
			ox := exclusive(t, o, "x")
			hs = lockAll(t.Context(), o, orw.Writer(), ox).wantHeld(t, time.Second)
			up := c.acquire(rw.Upgradable())
			c.waiting(up)
			hs.Release()
			c.held(up)
			c.mustUpgrade(up)
			w := lockAll(t.Context(), o, orw.Reader(), ox)
			w2 := lockAll(t.Context(), m, rw.Writer(), x)
			w.wantPending(t)
			w2.wantPending(t)
			own := c.acquire(rw.Reader())
			c.held(own)
			c.mustDowngrade(up)
			u := c.upgrade(up)
			u.waits()
			c.unlock(own)
			u.waits()
			w.wantHeld(t, 5*time.Second).Release()
			u.done()
			later(5 * time.Second)
			c.unlock(up)
			w2.wantHeld(t, 5*time.Second).Release()
			// LockAll holds a reserved read place which an upgrade waits for, and
			// the upgrader holds what the group waits for.
			hx := mustLock(t, x)
			w = lockAll(t.Context(), o, orw.Reader(), ox)
			up = c.acquire(rw.Upgradable())
			c.held(up)
			u = c.upgrade(up)
			later(20 * time.Second)
			u.done()
			c.unlock(up, hx)
			w.wantHeld(t, 5*time.Second).Release()
			synctest.Wait()
			if len(m.groups.places)+len(o.groups.places) != 0 {
				t.Error("groups")
			}
		})
	}
}

// Close and Shutdown end groups and upgrades, in whichever state they are.
func TestCloseGroupsAndUpgrades(t *testing.T) {
	for state := range 6 {
		for _, shutdown := range []bool{false, true} {
			t.Run(fmt.Sprint(state, shutdown), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					t := c.t
					m, o := c.open("a"), c.open("b")
					rw, orw := readWrite(t, m, "jobs"), readWrite(t, o, "jobs")
					x := exclusive(t, m, "x")
					var hs Holds
					var w *waitingAll
					var up Hold
					var u upgrading
					switch state {
					case 0:
						hs = mustLockAll(t, m, rw.Writer(), x)
					case 1:
						mustLock(t, orw.Writer())
						w = lockAll(t.Context(), m, rw.Writer(), x)
					case 2:
						mustLock(t, orw.Reader())
						up = c.acquire(rw.Upgradable())
						u = c.upgrade(up)
						w = lockAll(t.Context(), m, rw.Reader(), x)
					case 3:
						up = c.acquire(rw.Upgradable())
						c.mustUpgrade(up)
						w = lockAll(t.Context(), m, rw.Reader(), x)
					case 4:
						hs = mustLockAll(t, m, rw.Reader(), x)
						up = c.acquire(rw.Upgradable())
						u = c.upgrade(up)
					case 5:
						hs = mustLockAll(t, m, rw.Reader(), x)
						hs[0].Release()
						up = c.acquire(rw.Upgradable())
						c.mustUpgrade(up)
					}
					if shutdown {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						t.Log(m.Shutdown(ctx))
					} else {
						t.Log(m.Close())
					}
					synctest.Wait()
					if w != nil {
						if !isClosed(w.done) || w.err == nil {
							t.Error("still waiting")
						}
						t.Log(w.err)
					}
					if u.result != nil {
						t.Log(settled(t, "upgrade", u.result))
					}
					if hs != nil {
						t.Log(hs.Err())
					}
					if n := len(m.groups.places); n != 0 || len(m.active.list()) != 0 {
						t.Error("groups", n, len(m.active.list()))
					}
					if state > 2 {
						c.wantNodes(0)
					}
				})
			})
		}
	}
}

// The lock begins to report abandonment after LockAll has looked. The group's grant is of
// the old kind, and hides no death from the next holder.
func TestLockAllMeetsReportAbandoned(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m, o := c.open("a"), c.open("b")
		x, ox := exclusive(t, m, "x"), exclusive(t, o, "x")
		y := exclusive(t, m, "y")
		wantErr(t, "report", ox.ReportAbandoned(0), nil)
		mustLock(t, ox)
		w := lockAll(t.Context(), m, x, y)
		wantErr(t, "report", x.ReportAbandoned(0), nil)
		own := c.acquire(x)
		c.expire(o)
		hs := w.wantHeld(t, 5*time.Second)
		g, err := hs[0].Grant()
		t.Log(g, err)
		hs.Release()
		c.held(own)
		g, err = own.Grant()
		t.Log(g, err)
		if !g.Abandoned {
			t.Error("hidden death")
		}
		wantErr(t, "recovered", own.Recovered(), nil)
		again := waitBehind(t, own)
		own.Release()
		c.held(again)
		g, _ = again.Grant()
		if g.Abandoned {
			t.Error("abandoned")
		}
		again.Release()
		synctest.Wait()
		h2 := mustLock(t, ox)
		g, _ = h2.Grant()
		if g.Abandoned {
			t.Error("abandoned")
		}
	})
}
