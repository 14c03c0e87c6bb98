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

// The transaction that creates all nodes, or its answer, is lost: there is one node for
// each lock, and none is left.
func TestF127_LostLockAll(t *testing.T) {
	each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
		t := c.t
		m := c.open("a")
		locks := several(t, m, "x", "y", "z")
		wantErr(t, "first", mustLockAll(t, m, locks...).Unlock(t.Context()), nil)
		lose(c, zktest.Match{Op: zktest.OpMulti, Session: session(m), Times: 1})
		hs := mustLockAll(t, m, locks...)
		c.wantQueues(map[string]int{"x": 1, "y": 1, "z": 1})
		for _, h := range hs {
			g, _ := h.Grant()
			if _, stat, ok := c.srv.Get(g.Path); !ok || stat.Czxid != int64(g.Token) {
				t.Errorf("token %d of %s, which is %+v, %t", g.Token, g.Path, stat, ok)
			}
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
	})
}

// The answer to the request that creates the nodes is lost, another client deletes one of
// them, and perhaps a request is lost, too, while the process finds that out.
func TestF127_LostAndDeleted(t *testing.T) {
	for _, tt := range []struct {
		name, deleted string
		lost          []zktest.Match
	}{
		{"no more", "x", nil},
		{"the other's deletion", "x", []zktest.Match{{Op: zktest.OpDelete, Times: 1}}},
		{"the search for it", "y", []zktest.Match{{Op: zktest.OpGetChildren2, Path: "/holdfast/y", Times: 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				t := c.t
				m := c.open("a")
				locks := several(t, m, "x", "y")
				wantErr(t, "first", mustLockAll(t, m, locks...).Unlock(t.Context()), nil)
				c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(m), Times: 1})
				stop := c.stopBefore(m, list) // of the search for the nodes
				w := lockAll(t.Context(), m, locks...)
				stop.reached()
				c.remove("/holdfast/" + tt.deleted + "/" + c.queueOf(tt.deleted)[0])
				for _, match := range tt.lost {
					match.Session = session(m)
					c.srv.Faults().DropRequest(match)
				}
				stop.goOn()
				hs := w.wantHeld(t, 30*time.Second)
				gx, _ := hs[0].Grant()
				gy, _ := hs[1].Grant()
				if gx.Token != gy.Token {
					t.Errorf("created by transactions %d and %d", gx.Token, gy.Token)
				}
				c.wantQueues(map[string]int{"x": 1, "y": 1})
				wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
				if got := c.srv.Faults().Hits()[zktest.FaultDropRequest]; got != len(tt.lost) {
					t.Errorf("%d requests were lost, want %d", got, len(tt.lost))
				}
			})
		})
	}
}

// The request by which a group gives way, or its answer, is lost.
func TestF127_LostWhileGivingWay(t *testing.T) {
	each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hx := mustLock(t, exclusive(t, b, "x"))
		w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
		w.wantPending(t)
		hy := exclusive(t, b, "y").Acquire(t.Context())
		lose(c, zktest.Match{Op: zktest.OpMulti, Session: session(a), Times: 1})
		_, err := hy.Granted().Wait(t.Context())
		wantErr(t, "nested", err, nil)
		later(5 * time.Second)
		c.wantQueues(map[string]int{"x": 2, "y": 2})
		c.unlock(hy, hx)
		wantErr(t, "unlock", w.wantHeld(t, 5*time.Second).Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// The request that deletes all nodes, or its answer, is lost.
func TestF127_LostRelease(t *testing.T) {
	each(t, losses, func(c *cluster, lose func(*cluster, zktest.Match) *zktest.Fault) {
		t := c.t
		m := c.open("a")
		hs := mustLockAll(t, m, several(t, m, "x", "y")...)
		lose(c, zktest.Match{Op: zktest.OpMulti, Session: session(m), Times: 1})
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// An administrator deletes a node of a group that waits, be it reserved or not: the group
// queues again everywhere, and is never granted by a node that is gone.
func TestF128_DeletedWhileWaiting(t *testing.T) {
	for _, which := range []string{"x", "y", "x and then the one ahead"} {
		bubble(t, func(c *cluster) {
			t := c.t
			a, b := c.open("a"), c.open("b")
			hx := mustLock(t, exclusive(t, b, "x"))
			w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
			later(3 * time.Second)
			before := fmt.Sprint(c.queueOf("x"), c.queueOf("y"))
			for _, name := range strings.Split(which, " and then ") {
				if name == "the one ahead" {
					hx.Release()
					continue
				}
				queue := c.queueOf(name)
				c.remove("/holdfast/" + name + "/" + queue[len(queue)-1])
			}
			synctest.Wait()
			if after := fmt.Sprint(c.queueOf("x"), c.queueOf("y")); after == before {
				t.Errorf("the queues are %s, as before", after)
			}
			hx.Release()
			hs := w.wantHeld(t, time.Second)
			for _, h := range hs {
				if g, _ := h.Grant(); !c.srv.Exists(g.Path) {
					t.Errorf("%s is not there", g.Path)
				}
			}
			wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
			c.wantQueues(map[string]int{"x": 0, "y": 0})
		})
	}
}

// A reserved place is deleted, and then the other lock becomes free, while the client
// cannot hear of either: it hears of the deletion first, and does not enter.
func TestF128_DeletedBeforeTheLastIsFree(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hx := mustLock(t, exclusive(t, b, "x"))
		w := lockAll(t.Context(), a, several(t, a, "y", "x")...)
		later(3 * time.Second)
		replies := c.srv.Faults().BlockReplies(session(a))
		c.remove("/holdfast/y/" + c.queueOf("y")[0])
		hy := mustLock(t, exclusive(t, b, "y"))
		c.unlock(hx)
		replies.Remove()
		w.wantPending(t)
		c.held(hy)
		c.unlock(hy)
		wantErr(t, "unlock", w.wantHeld(t, time.Second).Unlock(t.Context()), nil)
	})
}

// A reserved place is deleted while the group lists the last queue, which shows that it is
// first there. The client hears of the deletion before it gets the list, and does not enter.
func TestF128_DeletedDuringTheLastList(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hx := mustLock(t, readWrite(t, b, "x").Writer())
		w := lockAll(t.Context(), a, exclusive(t, a, "y"), readWrite(t, a, "x").Writer())
		later(3 * time.Second)
		stop := c.stopBefore(a, list) // a read lock may have come in the place of hx
		c.unlock(hx)
		stop.reached()
		c.remove("/holdfast/y/" + c.queueOf("y")[0])
		hy := mustLock(t, exclusive(t, b, "y"))
		stop.goOn()
		w.wantPending(t)
		c.held(hy)
		c.unlock(hy)
		wantErr(t, "unlock", w.wantHeld(t, time.Second).Unlock(t.Context()), nil)
	})
}

// An administrator deletes a node of a group that holds its locks: all are lost.
func TestF128_DeletedWhileHeld(t *testing.T) {
	for i, deleted := range []string{"x", "y", "z"} {
		bubble(t, func(c *cluster) {
			t := c.t
			m := c.open("a")
			hs := mustLockAll(t, m, several(t, m, "x", "y", "z")...)
			ctx, cancel := hs.Context(t.Context())
			defer cancel()
			lost := hs.Lost()
			later(200 * time.Millisecond)
			g, _ := hs[i].Grant()
			c.remove(g.Path)
			synctest.Wait()
			for j, h := range hs {
				wantErr(t, fmt.Sprintf("hold %d, %s deleted", j, deleted), h.Err(), ErrLost)
				if !isClosed(h.Lost()) {
					t.Errorf("Lost of hold %d is open", j)
				}
				if j != i && !strings.Contains(fmt.Sprint(h.Err()), fmt.Sprintf("acquired together with %q", deleted)) {
					t.Errorf("hold %d: %v", j, h.Err())
				}
			}
			wantErr(t, "context", context.Cause(ctx), ErrLost)
			if !isClosed(lost) {
				t.Error("Lost is open")
			}
			wantErr(t, "unlock", hs.Unlock(t.Context()), ErrLost)
			synctest.Wait()
			c.wantQueues(map[string]int{"x": 0, "y": 0, "z": 0})
		})
	}
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
			t.Run(fmt.Sprintf("%s/%d", what, processes), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					t := c.t
					var managers []*Manager
					for i := range processes {
						managers = append(managers, c.open(fmt.Sprint("p", i), func(cfg *Config) { cfg.Tenure = 20 * time.Millisecond }))
					}
					done := make(chan string, len(clients))
					for i, client := range clients {
						m := managers[i%len(managers)]
						way, names, _ := strings.Cut(client, " ")
						locks := several(t, m, strings.Fields(names)...)
						go func() {
							for range 5 {
								if err := lockSeveral(t, m, way == "G", locks); err != nil {
									t.Errorf("%s: %v", client, err)
								}
							}
							done <- client
						}()
					}
					for range clients {
						select {
						case <-done:
						case <-time.After(10 * time.Minute):
							t.Fatalf("they wait for ever: x %v, y %v, z %v", c.queueOf("x"), c.queueOf("y"), c.queueOf("z"))
						}
					}
					synctest.Wait()
					for _, name := range []string{"x", "y", "z"} {
						if left := c.queueOf(name); len(left) > 0 {
							t.Errorf("left in the queue of %s: %v", name, left)
						}
					}
				})
			})
		}
	}
}

// Four processes acquire random subsets of ten locks together, beside callers that nest
// two of them, for a minute of virtual time. All calls return soon after the last has
// begun; and many have returned before.
func TestF129_UnderLoad(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
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
						if err := lockSeveral(t, m, group, several(t, m, chosen...)); err != nil {
							t.Errorf("p%d: %v", p, err)
						}
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
		t.Logf("%d groups, the longest waits %v; %d nested; the rest took %v", groups.Load(), longest, nested.Load(), rest)
		if groups.Load() < int64(seconds*5/6) || nested.Load() < int64(seconds*3) || rest > time.Minute {
			t.Error("that is too few, or too long")
		}
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
		t := c.t
		a, b := c.open("a"), c.open("b")
		hx := mustLock(t, exclusive(t, b, "x"))
		w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
		for range 3 {
			c.expire(a)
			w.wantPending(t)
			c.wantQueues(map[string]int{"x": 2, "y": 1})
		}
		c.unlock(hx)
		hs := w.wantHeld(t, time.Second)
		for _, h := range hs {
			if g, _ := h.Grant(); g.Session != session(a) || !c.srv.Exists(g.Path) {
				t.Errorf("the grant is %+v, the session %#x", g, session(a))
			}
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), nil)
	})
}

// The session ends while a group holds its locks: all are lost.
func TestF130_SessionEndsWhileHeld(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		m := c.open("a")
		hs := mustLockAll(t, m, several(t, m, "x", "y")...)
		c.expire(m)
		for _, h := range hs {
			wantErr(t, "hold", h.Err(), ErrLost)
		}
		wantErr(t, "unlock", hs.Unlock(t.Context()), ErrLost)
		wantErr(t, "again", mustLockAll(t, m, several(t, m, "x", "y")...).Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
	})
}

// The session ends while a group that gives way has no answer yet.
func TestF130_SessionEndsWhileGivingWay(t *testing.T) {
	bubble(t, func(c *cluster) {
		t := c.t
		a, b := c.open("a"), c.open("b")
		hx := mustLock(t, exclusive(t, b, "x"))
		w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
		w.wantPending(t)
		hy := exclusive(t, b, "y").Acquire(t.Context())
		stop := c.stopBefore(a, prove) // the transaction begins with the deletion
		stop.reached()
		c.srv.ExpireSession(session(a))
		stop.goOn()
		_, err := hy.Granted().Wait(t.Context())
		wantErr(t, "nested", err, nil)
		later(time.Second)
		c.unlock(hy, hx)
		wantErr(t, "unlock", w.wantHeld(t, 5*time.Second).Unlock(t.Context()), nil)
		c.wantQueues(map[string]int{"x": 0, "y": 0})
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
			t := c.t
			wantErr(t, "data", c.srv.CreateAll("/holdfast/x", []byte("another client's")), nil)
			wantErr(t, "data", c.srv.CreateAll("/holdfast/y", []byte("another client's")), nil)
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
			hx := mustLock(t, exclusive(t, b, "x"))
			w := lockAll(t.Context(), a, several(t, a, "x", "y")...)
			w.wantPending(t)
			hy := exclusive(t, b, "y").Acquire(t.Context())
			id := session(a)
			c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
				if session == id && op == zktest.OpMulti {
					count.CompareAndSwap(0, 1)
				}
			})
			later(6 * time.Second)
			c.held(hy)
			w.wantPending(t)
			c.wantQueues(map[string]int{"x": 2, "y": 2})
			c.unlock(hy, hx)
			w.wantHeld(t, time.Second).Release()
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
		later(time.Minute)
		if !isClosed(w.done) {
			c.t.Fatal("LockAll waits")
		}
		wantErr(c.t, "LockAll", w.err, ErrSequenceExhausted)
		later(time.Second)
		if names := c.queueOf("x"); len(names) != 1 {
			c.t.Errorf("in x: %v, want the stranger alone", names)
		}
	})
}
