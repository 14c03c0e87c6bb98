// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The transaction that creates all nodes is lost, or the one that deletes them, or its
// answer: there is one node for each lock, and none is left.
func TestF127_LostLockAll(t *testing.T) {
	for nth := 1; nth <= 2; nth++ {
		each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
			m := c.open("a")
			locks := several(c.t, m, "x", "y", "z")
			wantErr(c.t, "first", mustLockAll(c.t, m, locks...).Unlock(c.t.Context()), nil)
			f := lose(c, zktest.Match{Op: zktest.OpMulti, Session: session(m), Nth: nth, Times: 1})
			hs := mustLockAll(c.t, m, locks...)
			c.wantQueues(map[string]int{"x": 1, "y": 1, "z": 1})
			for _, h := range hs {
				g := grantOf(c.t, h)
				wantEq(c.t, "the token of "+g.Path, g.Token, c.czxid(g.Path))
			}
			wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
			c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
			wantEq(c.t, "losses", f.Hits(), 1)
		})
	}
}

// The answer to the request that creates the nodes is lost, another client deletes one of
// them, and perhaps a request is lost, too, while the process finds that out.
func TestF127_LostAndDeleted(t *testing.T) {
	type test struct {
		deleted string
		lost    []zktest.Match
	}
	each(t, map[string]test{
		"no more":              {"x", nil},
		"the other's deletion": {"x", []zktest.Match{{Op: zktest.OpDelete, Times: 1}}},
		"the search for it":    {"y", []zktest.Match{{Op: zktest.OpGetChildren2, Path: "/holdfast/y", Times: 1}}},
	}, func(c *cluster, test test) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y")
		wantErr(c.t, "first", mustLockAll(c.t, m, locks...).Unlock(c.t.Context()), nil)
		c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(m), Times: 1})
		stop := c.stopBefore(m, list) // of the search for the nodes
		w := lockAll(c.t.Context(), m, locks...)
		stop.reached()
		c.removeFirst(test.deleted)
		for _, match := range test.lost {
			match.Session = session(m)
			c.srv.Faults().DropRequest(match)
		}
		stop.goOn()
		hs := w.wantHeld(c.t, 30*time.Second)
		wantEq(c.t, "the transaction of both", grantOf(c.t, hs[0]).Token, grantOf(c.t, hs[1]).Token)
		c.wantQueues(map[string]int{"x": 1, "y": 1})
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), nil)
		wantEq(c.t, "requests that were lost", c.srv.Faults().Hits()[zktest.FaultDropRequest], len(test.lost))
	})
}

// The request by which a group gives way, or its answer, is lost.
func TestF127_LostWhileGivingWay(t *testing.T) {
	each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
		m := c.meet()
		hy := exclusive(c.t, m.b, "y").Acquire(c.t.Context())
		lose(c, zktest.Match{Op: zktest.OpMulti, Session: session(m.a), Times: 1})
		wantErr(c.t, "nested", wait(c.t, hy.Granted()), nil)
		later(5 * time.Second)
		c.wantQueues(map[string]int{"x": 2, "y": 2})
		c.unlock(hy, m.hx)
		m.over()
	})
}

// An administrator deletes a node of a group that waits, be it reserved or not: the group
// queues again everywhere, and is never granted by a node that is gone.
func TestF128_DeletedWhileWaiting(t *testing.T) {
	each(t, map[string]func(m *meeting){
		"x": func(m *meeting) { m.remove("/holdfast/x/" + m.queueOf("x")[1]) },
		"y": func(m *meeting) { m.removeFirst("y") },
		"x and then the one ahead": func(m *meeting) {
			m.remove("/holdfast/x/" + m.queueOf("x")[1])
			m.hx.Release()
		},
	}, func(c *cluster, happens func(*meeting)) {
		m := c.meet()
		later(3 * time.Second)
		before := c.places()
		happens(m)
		synctest.Wait()
		expect(c.t, c.places() != before, "the queues are %s, as before", before)
		m.hx.Release()
		for _, h := range m.w.wantHeld(c.t, time.Second) {
			expect(c.t, c.srv.Exists(grantOf(c.t, h).Path), "%s is not there", grantOf(c.t, h).Path)
		}
		m.over()
	})
}

// A reserved place is deleted, and then the other lock becomes free, while the client
// cannot hear of either: it hears of the deletion first, and does not enter.
func TestF128_DeletedBeforeTheLastIsFree(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		later(3 * time.Second)
		replies := c.srv.Faults().BlockReplies(session(m.a))
		c.removeFirst("y")
		hy := mustLock(c.t, exclusive(c.t, m.b, "y"))
		c.unlock(m.hx)
		replies.Remove()
		m.w.wantPending(c.t)
		c.held(hy)
		c.unlock(hy)
		m.over()
	})
}

// A reserved place is deleted while the group lists the last queue, which shows that it is
// first there. The client hears of the deletion before it gets the list, and does not enter.
func TestF128_DeletedDuringTheLastList(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		hx := mustLock(c.t, readWrite(c.t, b, "x").Writer())
		w := lockAll(c.t.Context(), a, exclusive(c.t, a, "y"), readWrite(c.t, a, "x").Writer())
		later(3 * time.Second)
		stop := c.stopBefore(a, list) // a read lock may have come in the place of hx
		c.unlock(hx)
		stop.reached()
		c.removeFirst("y")
		hy := mustLock(c.t, exclusive(c.t, b, "y"))
		stop.goOn()
		w.wantPending(c.t)
		c.held(hy)
		c.unlock(hy)
		wantErr(c.t, "unlock", w.wantHeld(c.t, time.Second).Unlock(c.t.Context()), nil)
	})
}

// An administrator deletes a node of a group that holds its locks: all are lost.
func TestF128_DeletedWhileHeld(t *testing.T) {
	eachOf(t, []int{0, 1, 2}, func(c *cluster, deleted int) {
		hs := c.lostTogether(func(m *Manager, hs Holds) {
			later(200 * time.Millisecond)
			c.remove(grantOf(c.t, hs[deleted]).Path)
			synctest.Wait()
		})
		for i, h := range hs {
			if i != deleted {
				wantSays(c.t, h.Err(), fmt.Sprintf("acquired together with %q", hs[deleted].Lock().Name()))
			}
		}
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), ErrLost)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// lostTogether has a process hold three locks together, and lose them by what happens. It
// checks that each Hold tells of that, and what tells of all.
func (c *cluster) lostTogether(happens func(m *Manager, hs Holds)) Holds {
	c.t.Helper()
	m := c.open("a")
	hs := mustLockAll(c.t, m, several(c.t, m, "x", "y", "z")...)
	ctx, cancel := hs.Context(c.t.Context())
	defer cancel()
	lost := hs.Lost()
	happens(m, hs)
	for i, h := range hs {
		wantErr(c.t, fmt.Sprint("hold ", i), h.Err(), ErrLost)
		expect(c.t, isClosed(h.Lost()), "Lost of hold %d is open", i)
	}
	wantErr(c.t, "context", context.Cause(ctx), ErrLost)
	expect(c.t, isClosed(lost), "Lost is open")
	return hs
}

// Groups that name the locks in different orders, rings of groups, and callers that nest
// the locks in both ways of nesting that do not deadlock by themselves: all get their turn.
func TestF129_NoDeadlock(t *testing.T) {
	for what, clients := range map[string][]string{
		"opposite orders":              {"G x y", "G y x"},
		"opposite orders, three":       {"G x y z", "G z y x", "G y x z"},
		"a ring":                       {"G x y", "G y z", "G z x"},
		"beside nested":                {"G x y", "N x y", "N x y"},
		"beside nested, other order":   {"G x y", "N y x", "N y x"},
		"two groups, two nested":       {"G x y", "G x y", "N x y", "N x y"},
		"nested through a third":       {"G x z", "N x y", "N y z"},
		"three locks, chance decides":  {"G x y z", "N x y", "N y z", "N x z"},
		"groups in a ring, and nested": {"G x y", "G y z", "G x z", "N x y"},
	} {
		for _, processes := range []int{1, len(clients)} {
			subtest(t, fmt.Sprintf("%s/%d", what, processes), func(c *cluster) {
				var managers []*Manager
				for i := range processes {
					managers = append(managers, c.open(fmt.Sprint("p", i), func(cfg *Config) { cfg.Tenure = 20 * time.Millisecond }))
				}
				done := make(chan string, len(clients))
				for i, client := range clients {
					m := managers[i%len(managers)]
					way, names, _ := strings.Cut(client, " ")
					locks := several(c.t, m, strings.Fields(names)...)
					go func() {
						for range 5 {
							err := lockSeveral(c.t, m, way == "G", locks)
							expect(c.t, err == nil, "%s: %v", client, err)
						}
						done <- client
					}()
				}
				for range clients {
					select {
					case <-done:
					case <-time.After(10 * time.Minute):
						c.t.Fatalf("they wait for ever: x %v, y %v, z %v", c.queueOf("x"), c.queueOf("y"), c.queueOf("z"))
					}
				}
				synctest.Wait()
				for _, name := range []string{"x", "y", "z"} {
					expect(c.t, len(c.queueOf(name)) == 0,
						"left in the queue of %s: %v", name, c.queueOf(name))
				}
			})
		}
	}
}

// Four processes acquire random subsets of ten locks together, beside callers that nest
// two of them, for a minute of virtual time. All calls return soon after the last has
// begun; and many have returned before.
func TestF129_UnderLoad(t *testing.T) {
	bubble(t, func(c *cluster) {
		const processes, names = 4, 10
		seconds := max(racing.Fewer(60), 10)
		c.srv.OnRequest(func(_ int64, op zktest.Op, _ string) {
			if op != zktest.OpPing {
				time.Sleep(time.Millisecond)
			}
		})
		var (
			workers        sync.WaitGroup
			groups, nested atomic.Int64
			longest        [processes][2]time.Duration // of each goroutine that locks all
			until          = time.Now().Add(time.Duration(seconds) * time.Second)
		)
		for p := range processes {
			m := c.open(fmt.Sprint("p", p))
			for w := range 4 {
				workers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(p), uint64(w)))
					for time.Now().Before(until) {
						var chosen []string
						for _, i := range rng.Perm(names)[:2+rng.IntN(3)] {
							chosen = append(chosen, fmt.Sprint("l", i))
						}
						group := w < 2
						if !group { // in one order, or they would deadlock by themselves
							chosen = []string{min(chosen[0], chosen[1]), max(chosen[0], chosen[1])}
						}
						began := time.Now()
						err := lockSeveral(c.t, m, group, several(c.t, m, chosen...))
						expect(c.t, err == nil, "p%d: %v", p, err)
						if group {
							groups.Add(1)
							longest[p][w] = max(longest[p][w], time.Since(began))
						} else {
							nested.Add(1)
						}
					}
				})
			}
		}
		workers.Wait()
		rest := time.Since(until)
		c.t.Logf("%d groups, the longest waits %v; %d nested; the rest took %v", groups.Load(), longest, nested.Load(), rest)
		expect(c.t, groups.Load() >= int64(seconds*5/6) && nested.Load() >= int64(seconds*3) && rest <= time.Minute,
			"that is too few, or too long")
	})
}

// lockSeveral acquires the locks, as a group or one after the other, and releases them.
func lockSeveral(t *testing.T, m *Manager, group bool, locks []*Lock) error {
	if group {
		hs, err := m.LockAll(t.Context(), locks...)
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
		return errors.Join(hs.Err(), hs.Unlock(t.Context()))
	}
	var hs Holds
	for _, l := range locks {
		h, err := l.Lock(t.Context())
		if err != nil {
			return err
		}
		hs = append(hs, h)
		time.Sleep(time.Millisecond)
	}
	return errors.Join(hs.Err(), hs.Unlock(t.Context()))
}

// The session ends while a group waits, in any of its stages: it queues again everywhere,
// and is granted the locks by the nodes of the new session.
func TestF130_SessionEndsWhileWaiting(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		for range 3 {
			c.expire(m.a)
			m.w.wantPending(c.t)
			c.wantQueues(map[string]int{"x": 2, "y": 1})
		}
		c.unlock(m.hx)
		for _, h := range m.w.wantHeld(c.t, time.Second) {
			g := grantOf(c.t, h)
			expect(c.t, g.Session == session(m.a) && c.srv.Exists(g.Path),
				"the grant is %+v, the session %#x", g, session(m.a))
		}
		m.over()
	})
}

// The session ends while a group holds its locks: all are lost.
func TestF130_SessionEndsWhileHeld(t *testing.T) {
	bubble(t, func(c *cluster) {
		hs := c.lostTogether(func(m *Manager, _ Holds) { c.expire(m) })
		wantErr(c.t, "unlock", hs.Unlock(c.t.Context()), ErrLost)
		m := hs[0].Lock().m
		wantErr(c.t, "again", mustLockAll(c.t, m, several(c.t, m, "x", "y")...).Unlock(c.t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// The session ends while a group that gives way has no answer yet.
func TestF130_SessionEndsWhileGivingWay(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.meet()
		hy := exclusive(c.t, m.b, "y").Acquire(c.t.Context())
		stop := c.stopBefore(m.a, prove) // the transaction begins with the deletion
		stop.reached()
		c.srv.ExpireSession(session(m.a))
		stop.goOn()
		wantErr(c.t, "nested", wait(c.t, hy.Granted()), nil)
		later(time.Second)
		c.unlock(hy, m.hx)
		m.over()
	})
}

// A lastWords is a connection that breaks right after what the server says next, once
// count is 1. Then no server can be reached for a second.
type lastWords struct {
	net.Conn
	count *atomic.Int32
}

func (c lastWords) Read(b []byte) (int, error) {
	if c.count.Load() == 2 {
		c.Close()
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b)
	c.count.CompareAndSwap(1, 2)
	return n, err
}

// A group gives way in a directory that it may not count in, and then cannot look at its
// new node, because there is no connection. It has moved: the new node is not forgotten.
// Which comes first is up to chance, so this is tried often.
func TestF127_LostAfterGivingWay(t *testing.T) {
	for range 50 {
		bubble(t, func(c *cluster) {
			wantErr(c.t, "data", c.srv.CreateAll("/holdfast/x", []byte("another client's")), nil)
			wantErr(c.t, "data", c.srv.CreateAll("/holdfast/y", []byte("another client's")), nil)
			var count atomic.Int32
			a, b := c.open("a", func(cfg *Config) {
				dial := cfg.Dialer
				cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
					if count.Load() == 2 {
						time.AfterFunc(time.Second, func() { count.Store(3) })
						return nil, io.EOF
					}
					conn, err := dial(ctx, network, address)
					return lastWords{conn, &count}, err
				}
			}), c.open("b")
			hx := mustLock(c.t, exclusive(c.t, b, "x"))
			w := lockAll(c.t.Context(), a, several(c.t, a, "x", "y")...)
			w.wantPending(c.t)
			hy := exclusive(c.t, b, "y").Acquire(c.t.Context())
			id := session(a)
			c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
				if session == id && op == zktest.OpMulti {
					count.CompareAndSwap(0, 1)
				}
			})
			later(6 * time.Second)
			c.held(hy)
			w.wantPending(c.t)
			c.wantQueues(map[string]int{"x": 2, "y": 2})
			c.unlock(hy, hx)
			w.wantHeld(c.t, time.Second).Release()
			synctest.Wait()
			c.wantQueues(map[string]int{"x": 0, "y": 0})
		})
	}
}

// Another client's contender comes behind a place that LockAll has reserved, by a number that
// says nothing of their order: then nothing says which of them is to give way.
func TestF014_StrangerBehindAReservedPlace(t *testing.T) {
	bubble(t, func(c *cluster) {
		m := c.open("a")
		locks := several(c.t, m, "x", "y")
		wantErr(c.t, "makes the directories", mustLockAll(c.t, m, locks...).Unlock(c.t.Context()), nil)
		s := session(c.open("stranger"))
		wantErr(c.t, "the stranger holds y", c.srv.CreateEphemeral(s, "/holdfast/y/lock-0000000000", nil), nil)
		w := lockAll(c.t.Context(), m, locks...)
		w.wantPending(c.t)
		wantErr(c.t, "the stranger waits for x", c.srv.CreateEphemeral(s, "/holdfast/x/lock-2147483647", nil), nil)
		<-w.done
		wantErr(c.t, "LockAll", w.err, ErrSequenceExhausted)
		later(time.Second)
		c.wantQueues(map[string]int{"x": 1}) // the stranger
	})
}
