// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// Processes exclude each other, goroutines of one process do not; the tokens rise.
func TestMutualExclusion(t *testing.T) {
	const processes, goroutines, times = 4, 4, 25
	bubble(t, func(c *cluster) {
		r := newReferee(c.t)
		var locks []*Lock
		var wg sync.WaitGroup
		for p := range processes {
			l := c.lock(fmt.Sprint(p))
			locks = append(locks, l)
			for range goroutines {
				wg.Go(func() {
					for range times {
						h := mustLock(c.t, l)
						leave := r.enter(l.m, h)
						time.Sleep(rand.N(10 * time.Millisecond))
						leave()
						mustRelease(c.t, h)
					}
				})
			}
		}
		wg.Wait()
		if r.entries != processes*goroutines*times || r.rounds < processes {
			c.t.Errorf("%d entries in %d rounds", r.entries, r.rounds)
		}
		var grants uint64
		for _, l := range locks {
			wantState(c.t, l, state.Free, 0)
			grants += l.Stats().Grants
		}
		if grants != uint64(r.rounds) {
			c.t.Errorf("%d grants, but %d tokens", grants, r.rounds)
		}
		c.wantNodes(0)
	})
}

// Processes get the lock in the order in which they queued, even if some in between
// give up.
func TestFairness(t *testing.T) {
	bubble(t, func(c *cluster) {
		first := c.lock("first")
		h := mustLock(c.t, first)
		holds, _ := c.queueUp(8)
		again := c.acquire(first) // enters
		c.held(again)
		holds[0].Release() // the head of the queue,
		holds[3].Release() // one in the middle,
		holds[7].Release() // and the last give up
		waiting := []Hold{holds[1], holds[2], holds[4], holds[5], holds[6]}
		c.waiting(waiting...)
		c.wantNodes(1 + len(waiting))

		c.unlock(again, h)
		for waiting = append(waiting, first.Acquire(c.t.Context())); len(waiting) > 0; waiting = waiting[1:] { // it queues again, at the end
			c.held(waiting[0])
			c.waiting(waiting[1:]...)
			c.unlock(waiting[0])
		}
		c.wantNodes(0)
	})
}

// A release wakes two waiters at most, of which one sends one request: no herd.
func TestHandOverCostsNoHerd(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("first"))
		holds, ms := c.queueUp(20)
		n := c.tally(append(ms, h.Lock().m)...)
		for i, next := range holds {
			mustRelease(c.t, h)
			c.held(next)
			// The waiter right behind the holder hears of the deletion, which is
			// enough. The one that had two ahead, and now has one, watches that
			// one. The others watched the nearest ahead all the time, and list.
			switch i {
			case 0:
				n.want("hand-over", "delete=1 getData=1")
			case 1:
				n.want("hand-over", "delete=1")
			default:
				n.want("hand-over", "delete=1 getChildren2=1")
			}
			h = next
		}
		c.unlock(h)
	})
}

// Two Managers in one process are two contenders.
func TestF019_TwoManagersOfOneProcess(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("same"), c.lock("same")
		if a == b || session(a.m) == session(b.m) {
			t.Fatal("two managers share a lock or a session")
		}
		ha, hb := c.acquire(a), c.acquire(b)
		c.held(ha)
		c.waiting(hb)
		c.unlock(ha)
		c.held(hb)
		c.unlock(hb)
	})
}

// Locks of different names do not wait for each other, even if one is below the
// other.
func TestLocksAreIndependent(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.open("a"), c.open("b")
		names := []string{"jobs", "jobs/nightly", "jobs/nightly/eu", "other"}
		for _, name := range names {
			mustLock(c.t, exclusive(c.t, a, name))
		}
		for _, name := range names {
			_, err := exclusive(c.t, b, name).TryLock(c.t.Context())
			wantErr(c.t, name, err, ErrLocked)
		}
		if n := exclusive(c.t, b, "jobs").Stats().Foreign; n != 1 {
			c.t.Errorf("%d strangers in jobs, want the directory nightly", n)
		}
	})
}

// The nodes are named as other clients name theirs, are ephemeral, and tell other
// processes who made them.
func TestNodes(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("billing")
		h := mustLock(c.t, l)
		g := grantOf(c.t, h)
		if name := strings.TrimPrefix(g.Path, dir+"/"); !regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-0{10}$`).MatchString(name) {
			c.t.Errorf("the node is called %q", name)
		}
		_, stat, ok := c.srv.Get(g.Path)
		if !ok || stat.EphemeralOwner != session(l.m) || g.Session != session(l.m) || g.Token != uint64(stat.Czxid) {
			c.t.Errorf("the node is %+v, the grant %+v", stat, g)
		}
		made := time.Now()
		time.Sleep(time.Second)
		_, err := c.lock("b").TryLock(c.t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Ahead == nil {
			c.t.Fatalf("trylock: %v, want it to say who is ahead", err)
		}
		if who := e.Ahead; who.Label != "billing" || who.Host == "" || who.PID == 0 || !who.Since.Equal(made) {
			c.t.Errorf("the node says %+v", who)
		}
		c.unlock(h)
		if c.srv.Exists(g.Path) {
			c.t.Error("the node is still there")
		}
	})
}

// The contenders of other clients are waited for, in the order of their numbers. Other
// children of the directory are not, whatever they are called.
func TestOtherClients(t *testing.T) {
	bubble(t, func(c *cluster) {
		l, strangers := c.lock("a"), c.crowd()
		for _, name := range []string{"README", "_c_short", "lock-7", "x-1-lock-0000000000", hex32 + "__lock__7"} {
			wantErr(c.t, "create", c.srv.CreateAll(dir+"/"+name, nil), nil)
		}
		c.cycle(l)
		c.wantNodes(5)

		var theirs []string
		for _, name := range []string{"_c_" + dashed + "-lock-0000000000", hex32 + "__lock__0000000001", "lock-0000000002"} {
			theirs = append(theirs, strangers.node(name, []byte("10.0.0.1")...))
		}
		h := l.Acquire(c.t.Context())
		for _, i := range []int{1, 0, 2} { // the one in the middle goes first
			c.waiting(h)
			c.remove(theirs[i])
		}
		c.held(h)
		if n := l.Stats().Foreign; n != 5 {
			c.t.Errorf("%d strangers counted, want 5", n)
		}
		c.unlock(h)
	})
}

// A contender whose node is not ephemeral does not go away by itself. It is waited
// for, and logged.
func TestF016_PersistentContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		node := dir + "/lock-0000000000"
		wantErr(c.t, "create", c.srv.CreateAll(node, []byte("junk")), nil)
		l := c.lock("a")
		_, err := l.TryLock(c.t.Context())
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrLocked) || e.Ahead == nil || !e.Ahead.Persistent || !strings.Contains(err.Error(), node) {
			c.t.Errorf("got %v, want ErrLocked that names the node and says that it stays", err)
		}
		h := l.Acquire(c.t.Context())
		later(time.Minute)
		c.waiting(h)
		if n := len(c.log.with("not ephemeral")); n == 0 || n > 2 {
			c.t.Errorf("it was logged %d times, want once a round", n)
		}
		c.remove(node)
		c.held(h)
		c.unlock(h)
	})
}

// The tokens of a lock rise over sessions, processes, and a directory that is made
// anew.
func TestF054_TokensRise(t *testing.T) {
	bubble(t, func(c *cluster) {
		var last uint64
		take := func(l *Lock) {
			c.t.Helper()
			h := mustLock(c.t, l)
			last = c.wantNext(h, last)
			c.unlock(h)
		}
		a, b := c.lock("a"), c.lock("b")
		take(a)
		take(b)
		c.expire(a.m)
		take(a)
		wantErr(c.t, "delete", c.srv.DeleteAll(dir), nil)
		take(b) // its node's number is 0 again
		take(a)
	})
}

// ZooKeeper deletes the empty directory of an idle lock sooner or later. It is made
// again.
func TestF008_DirectoryIsDeletedWhileIdle(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		c.cycle(l)
		later(10 * time.Minute)
		if c.srv.Exists(dir) {
			c.t.Fatal("the empty directory was not deleted: is it a container?")
		}
		c.cycle(l)

		// At the worst moment: right before the creation of a node.
		stop := c.stopBefore(l.m, createNode)
		h := l.Acquire(c.t.Context())
		stop.reached()
		c.remove(dir)
		stop.goOn()
		c.held(h)
		c.unlock(h)
	})
}

// Beyond the numbers that order a queue, another client's contender is an error, not
// a wait. Among this package's own contenders the lock goes on.
func TestF014_SequenceRunsOut(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		c.countFrom(lastSafe - 2)
		var token uint64
		h := mustLock(c.t, a)
		for i := range 12 { // over the limit
			token = c.wantNext(h, token)
			next := []*Lock{b, a}[i%2].Acquire(c.t.Context())
			c.waiting(next)
			c.unlock(h)
			h = next
		}
		c.unlock(h)
		c.crowd().node(hex32+"__lock__2147483647", []byte("kazoo")...)
		_, err := a.Lock(c.t.Context())
		wantErr(c.t, "with a foreign contender", err, ErrSequenceExhausted)
		c.wantNodes(1)
		wantState(c.t, a, state.Free, 0)
	})
}
