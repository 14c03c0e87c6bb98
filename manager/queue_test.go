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
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
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
		expect(c.t, r.Entries() == processes*goroutines*times && r.Tokens() >= processes,
			"%d entries in %d rounds", r.Entries(), r.Tokens())
		var grants uint64
		for _, l := range locks {
			wantState(c.t, l, state.Free, 0)
			grants += l.Stats().Grants
		}
		expect(c.t, grants == uint64(r.Tokens()), "%d grants, but %d tokens", grants, r.Tokens())
		c.wantNodes(0)
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

// The nodes are named as other clients name theirs, are ephemeral, and tell other
// processes who made them.
func TestNodes(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("billing")
		h := mustLock(c.t, l)
		g := grantOf(c.t, h)
		name := strings.TrimPrefix(g.Path, dir+"/")
		expect(c.t, regexp.MustCompile(`^_c_[0-9a-f]{32}-lock-0{10}$`).MatchString(name),
			"the node is called %q", name)
		_, stat, ok := c.srv.Get(g.Path)
		expect(c.t, ok && stat.EphemeralOwner == session(l.m) && g.Session == session(l.m) && g.Token == uint64(stat.Czxid),
			"the node is %+v, the grant %+v", stat, g)
		made := time.Now()
		time.Sleep(time.Second)
		_, err := c.lock("b").TryLock(c.t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Ahead == nil {
			c.t.Fatalf("trylock: %v, want it to say who is ahead", err)
		}
		who := e.Ahead
		expect(c.t, who.Label == "billing" && who.Host != "" && who.PID != 0 && who.Since.Equal(made),
			"the node says %+v", who)
		c.unlock(h)
		expect(c.t, !c.srv.Exists(g.Path), "the node is still there")
	})
}

// A contender whose node is not ephemeral does not go away by itself. It is waited
// for; the log and TryLock's error say so.
func TestF016_PersistentContender(t *testing.T) {
	type wait struct {
		node string
		take func(c *cluster) *Lock
	}
	each(t, map[string]wait{
		"a mutex behind a mutex":   {"lock-0000000000", func(c *cluster) *Lock { return c.lock("a") }},
		"a reader behind a writer": {"__WRIT__0000000000", func(c *cluster) *Lock { return c.rw("a").Reader() }},
	}, func(c *cluster, test wait) {
		node := dir + "/" + test.node
		wantErr(c.t, "create", c.srv.CreateAll(node, []byte("junk")), nil)
		l := test.take(c)
		_, err := l.TryLock(c.t.Context())
		var e *Error
		expect(c.t, errors.As(err, &e) && errors.Is(err, ErrLocked) && e.Ahead != nil && e.Ahead.Persistent,
			"got %v, want ErrLocked that says that the node stays", err)
		wantSays(c.t, err, "its node "+node+" is not ephemeral")
		h := l.Acquire(c.t.Context())
		later(time.Minute)
		c.waiting(h)
		lines := c.log.with("WARN holdfast: waiting for a contender whose node is not ephemeral")
		expect(c.t, len(lines) != 0 && len(lines) <= 2 && strings.Contains(lines[0], node),
			"logged %q, want one line a round that names %s", lines, node)
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
		wantErr(c.t, "with a foreign contender", errOf(a.Lock(c.t.Context())), ErrSequenceExhausted)
		synctest.Wait()
		c.wantNodes(1)
		wantState(c.t, a, state.Free, 0)
	})
}

// Where the numbers have run out, a newcomer reads every contender. However long that takes,
// a reader that has nothing ahead enters with what it has found.
func TestF014_ReadersFarAway(t *testing.T) {
	bubble(t, func(c *cluster) {
		var locks []*Lock
		for _, name := range []string{"a", "b", "d", "e"} {
			locks = append(locks, c.rw(name).Reader())
		}
		c.countFrom(lastSafe + 1)
		c.srv.Faults().DelayReply(zktest.Match{Times: zktest.Every}, 60*time.Millisecond)
		for _, l := range locks {
			h := l.Acquire(c.t.Context())
			later(time.Second)
			c.held(h)
		}
	})
}

// With a very short tenure a waiter does not list the queue again and again.
func TestTenureOfNanosecond(t *testing.T) {
	c := newCluster(t, zktest.Config{})
	l := c.lock("a", func(cfg *Config) { cfg.Tenure = 1 })
	if err := c.srv.CreateAll(dir+"/stranger", nil); err != nil {
		t.Fatal(err)
	}
	ctx := withTimeout(t, 2*time.Second)
	if _, err := l.Lock(ctx); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Errorf("%v, after these requests: %v", err, c.counts)
	}
}
