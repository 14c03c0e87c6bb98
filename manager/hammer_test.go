// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// Rounds end by force, in every way, while many goroutines of several processes
// acquire, reenter, share, cancel and release. Exclusion holds. A handle of a dead
// round never changes another round's count (which would panic below zero, or not
// add up). Every call returns, and nothing is left.
//
// If an administrator deletes the holder's node or ends its session, another
// process gets the lock before the holder can know. Exclusion cannot be promised
// then, but the rest can.
func TestForcedEndsHammer(t *testing.T) {
	t.Run("by faults", func(t *testing.T) { forcedEndsHammer(t, "cut", "outage", "failure", "failure", "failure") })
	t.Run("by an administrator too", func(t *testing.T) {
		forcedEndsHammer(t, "cut", "outage", "failure", "failure", "deletion", "deletion", "expiry")
	})
}

func forcedEndsHammer(t *testing.T, ends ...string) {
	const processes, goroutines, times = 3, 8, 60
	bubble(t, func(c *cluster) {
		r := newReferee(c.t)
		if slices.Contains(ends, "deletion") {
			r = nil // exclusion is not promised
		}
		var locks []*Lock
		for p := range processes {
			locks = append(locks, c.lock(fmt.Sprint(p), func(cfg *Config) { cfg.SessionTimeout = 4 * time.Second }))
		}
		stop := make(chan struct{})
		var chaos, workers sync.WaitGroup
		happened := make(map[string]int)
		chaos.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(400 * time.Millisecond)):
				}
				p := rand.IntN(processes)
				what := ends[rand.IntN(len(ends))]
				switch what {
				case "expiry":
					c.srv.ExpireSession(session(locks[p].m))
				case "cut":
					c.srv.Faults().Cut(session(locks[p].m))
				case "outage":
					c.away(fmt.Sprint(p), 3*time.Second) // longer than the lease
				case "deletion":
					if nodes := c.nodes(); len(nodes) > 0 {
						_ = c.srv.Delete(dir + "/" + nodes[rand.IntN(len(nodes))]) // may be gone already
					}
				case "failure":
					locks[p].cur.Load().fail(&Error{Op: "test", Name: "jobs", Err: ErrLost})
				}
				happened[what]++
			}
		})

		known := []error{ErrLost, ErrReleased, ErrNotGranted, ErrLocked, errGaveUp}
		check := func(what string, err error) {
			c.t.Helper()
			for _, k := range known {
				if err == nil || errors.Is(err, k) {
					return
				}
			}
			c.t.Errorf("%s: %v", what, err)
		}
		var olds sync.Map // dead holds, to be released again later
		for _, l := range locks {
			for g := range goroutines {
				workers.Go(func() {
					for range times {
						ctx, cancel := context.WithTimeoutCause(c.t.Context(), rand.N(3*time.Second), errGaveUp)
						var h Hold
						var err error
						switch rand.IntN(4) {
						case 0:
							h, err = l.Lock(ctx)
						case 1:
							h, err = l.TryLock(ctx)
						default:
							h = l.Acquire(ctx)
							if rand.IntN(3) > 0 {
								_, err = h.Granted().Wait(ctx)
							}
						}
						check("acquire", err)
						if h.Err() == nil {
							r.enter(l.m, h)
						}
						var more []Hold
						for range rand.IntN(3) {
							time.Sleep(rand.N(50 * time.Millisecond))
							n, err := h.Reenter()
							check("reenter", err)
							s, err := h.Share()
							check("share", err)
							more = append(more, n, s)
						}
						time.Sleep(rand.N(100 * time.Millisecond))
						r.leave(h)
						for _, h := range append(more, h) {
							if rand.IntN(2) == 0 {
								ctx, cancel := context.WithTimeoutCause(c.t.Context(), rand.N(time.Second), errGaveUp)
								check("unlock", h.Unlock(ctx))
								cancel()
							} else {
								h.Release()
							}
							check("err", h.Err())
						}
						if old, ok := olds.Swap(g, h); ok {
							wantErr(c.t, "release of an old hold", settled(c.t, "release", old.(Hold).Release()), ErrReleased)
						}
						cancel()
					}
				})
			}
		}
		workers.Wait()
		close(stop)
		chaos.Wait()

		waitUntil(c.t, "all is over", func() bool {
			for _, l := range locks {
				if p, n := l.State(); p != state.Free || n != 0 {
					return false
				}
			}
			return len(c.nodes()) == 0
		})
		for _, l := range locks {
			h := mustLock(c.t, l) // the lock still works
			r.enter(l.m, h)
			wantState(c.t, l, state.Retained, 1)
			r.leave(h)
			mustRelease(c.t, h)
			if n := len(l.m.activeRounds()); n > 0 {
				c.t.Errorf("%d trips are active", n)
			}
			if n := l.m.client.Stats().Watches; n > 0 {
				c.t.Errorf("%d watches are left", n)
			}
		}
		var grants, entries uint64
		for _, l := range locks {
			s := l.Stats()
			grants, entries = grants+s.Grants, entries+s.Joins+s.Entries
		}
		c.t.Logf("%d grants, %d entries; %v", grants, entries, happened)
		for _, end := range ends {
			if happened[end] < 3 || grants < 10 || entries < 100 {
				c.t.Errorf("%d grants, %d entries, %v: too little to show anything", grants, entries, happened)
			}
		}
	})
}

// One round ends by force while goroutines of the same process arrive. Those that
// it counts are told; the others are in the next round; none falls in between.
func TestF066_ForcedEndUnderArrivals(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		for range 50 {
			first := mustLock(c.t, l)
			dead := first.round
			var mu sync.Mutex
			var holds []Hold
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					<-start
					for range 50 {
						h := l.Acquire(c.t.Context())
						mu.Lock()
						holds = append(holds, h)
						mu.Unlock()
					}
				})
			}
			wg.Go(func() {
				<-start
				for n := 0; n < 100; n = int(l.entries.Load()) % 400 {
					if dead.word.Load().Holders() > 100 {
						break
					}
				}
				dead.fail(&Error{Op: "test", Name: "jobs", Err: ErrLost})
			})
			close(start)
			wg.Wait()
			waitUntil(c.t, "the next round is granted", func() bool {
				p, n := l.State()
				return p == state.Retained && n > 0 || l.cur.Load().word.Load().Phase() == state.Free
			})
			alive := 0
			for _, h := range holds {
				switch err := h.Err(); {
				case h.round == dead:
					wantErr(c.t, "a hold of the dead round", err, ErrLost)
				case err == nil:
					alive++
				default:
					c.t.Errorf("a hold of the next round: %v", err)
				}
			}
			if _, n := l.State(); n != alive {
				c.t.Errorf("the next round counts %d, but %d are in it", n, alive)
			}
			for _, h := range append(holds, first) {
				h.Release()
			}
			synctest.Wait()
			waitUntil(c.t, "the lock is free", func() bool { p, n := l.State(); return p == state.Free && n == 0 })
		}
	})
}
