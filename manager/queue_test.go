// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// A referee stands inside a lock and watches who else is there. It judges by
// what holders are told: two processes may not both believe that they hold the
// lock.
type referee struct {
	t *testing.T

	mu      sync.Mutex
	inside  map[Hold]*Manager
	token   uint64 // the highest seen
	entries int
	rounds  int
}

// A nil referee watches nothing.
func newReferee(t *testing.T) *referee { return &referee{t: t, inside: make(map[Hold]*Manager)} }

// enter notes that h, of manager m, was granted. h may be lost again already.
func (r *referee) enter(m *Manager, h Hold) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Who is inside and has been told that the lock is lost has left, as far
	// as exclusion goes. They are asked first: if h is good after that, both
	// were good at the time between.
	var others []Hold
	for o, om := range r.inside {
		if om != m && o.Err() == nil {
			others = append(others, o)
		}
	}
	g, err := h.Grant()
	if err != nil {
		return
	}
	for _, o := range others {
		r.t.Errorf("two processes are inside: %v and %v", o.round.io().tenure.grant, g)
	}
	switch {
	case g.Token < r.token:
		r.t.Errorf("token %d was granted after %d", g.Token, r.token)
	case g.Token > r.token:
		r.rounds++
		r.token = g.Token
	}
	r.inside[h] = m
	r.entries++
}

// leave notes that h is about to be released, or was lost.
func (r *referee) leave(h Hold) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, h)
}

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
						r.enter(l.m, h)
						time.Sleep(rand.N(10 * time.Millisecond))
						r.leave(h)
						mustRelease(c.t, h)
					}
				})
			}
		}
		wg.Wait()
		synctest.Wait()
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

// Processes get the lock in the order in which they queued, also if some in
// between give up.
func TestFairness(t *testing.T) {
	bubble(t, func(c *cluster) {
		const processes = 8
		first := c.lock("first")
		h := mustLock(c.t, first)
		var holds []Hold
		for p := range processes {
			holds = append(holds, c.lock(fmt.Sprint(p)).Acquire(c.t.Context()))
			synctest.Wait()
		}
		again := first.Acquire(c.t.Context()) // enters
		wantErr(c.t, "a goroutine of the holder", again.Err(), nil)
		holds[0].Release() // the head of the queue,
		holds[3].Release() // somebody in the middle,
		holds[7].Release() // and the last give up
		synctest.Wait()
		c.wantNodes(1 + processes - 3)

		again.Release()
		mustRelease(c.t, h)
		// It queues anew, behind all who wait.
		h = first.Acquire(c.t.Context())
		waiting := []Hold{holds[1], holds[2], holds[4], holds[5], holds[6], h}
		for i, h := range waiting {
			synctest.Wait()
			for j, other := range waiting[i:] {
				if _, _, ok := other.Granted().Poll(); ok != (j == 0) {
					c.t.Errorf("after %d releases: granted is %t for number %d", i, ok, i+j)
				}
			}
			mustRelease(c.t, h)
		}
		c.wantNodes(0)
	})
}

// A release wakes two waiters at most, of which one makes one request: no herd.
func TestHandOverCostsNoHerd(t *testing.T) {
	bubble(t, func(c *cluster) {
		const processes = 20
		h := mustLock(c.t, c.lock("first"))
		var holds []Hold
		for p := range processes {
			holds = append(holds, c.lock(fmt.Sprint(p)).Acquire(c.t.Context()))
			synctest.Wait()
		}
		for i, next := range holds {
			c.takeCounts()
			mustRelease(c.t, h)
			synctest.Wait()
			wantErr(c.t, "the next in line", next.Err(), nil)
			// Who had nobody else ahead need not look at the queue: the news of
			// the deletion is enough. The same for who had two, and then one: he
			// looks for that one. The others have watched the nearest.
			want := map[verb]int{deleteNode: 1, list: 0, createNode: 0, lookAtNode: 0}
			switch i {
			case 0:
				want[lookAtNode] = 1
			case 1:
			default:
				want[list] = 1
			}
			c.wantCounts("hand-over", want)
			h = next
		}
		h.Release()
	})
}

// Two Managers in one process are two contenders.
func TestF019_TwoManagersOfOneProcess(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("same"), c.lock("same")
		if a == b || session(a.m) == session(b.m) {
			t.Fatal("two managers share a lock or a session")
		}
		ha := mustLock(c.t, a)
		hb := b.Acquire(c.t.Context())
		synctest.Wait()
		pending(c.t, "the other manager's grant", hb.Granted())
		mustRelease(c.t, ha)
		synctest.Wait()
		wantErr(c.t, "the other manager", hb.Err(), nil)
		mustRelease(c.t, hb)
	})
}

// Locks of different names do not wait for each other, also if one is below
// the other.
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
		// A directory below is a child of the queue's directory, but no contender.
		if n := exclusive(c.t, b, "jobs").Stats().Foreign; n != 1 {
			c.t.Errorf("%d strangers in jobs, want the directory nightly", n)
		}
	})
}

// The nodes are named as other clients name theirs, are ephemeral, and say who
// made them.
func TestNodes(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("billing")
		h := mustLock(c.t, l)
		g := grantOf(c.t, h)
		name := strings.TrimPrefix(g.Path, dir+"/")
		if cont, ok := queue.ParseName(name); !ok || cont.Kind != queue.Exclusive || !strings.HasPrefix(name, "_c_") {
			c.t.Errorf("the node is called %q", name)
		}
		data, stat, ok := c.srv.Get(g.Path)
		if !ok || stat.EphemeralOwner != session(l.m) || g.Session != session(l.m) || g.Token != uint64(stat.Czxid) {
			c.t.Errorf("the node is %+v, the grant %+v", stat, g)
		}
		var who Contender
		who.describe(data)
		if who.Label != "billing" || who.Host == "" || who.PID == 0 || !who.Since.Equal(time.Now()) {
			c.t.Errorf("the node says %s: %+v", data, who)
		}
		mustRelease(c.t, h)
		if c.srv.Exists(g.Path) {
			c.t.Error("the node is still there")
		}
	})
}

// Contenders of other clients are waited for, in the order of their numbers,
// and other children of the directory are none, whatever they are called.
func TestOtherClients(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		stranger := c.open("stranger")
		for _, name := range []string{"README", "_c_short", "lock-7", "x-1-lock-0000000000", hex32 + "__lock__7"} {
			if err := c.srv.CreateAll(dir+"/"+name, nil); err != nil {
				c.t.Fatal(err)
			}
		}
		mustRelease(c.t, mustLock(c.t, l))
		if got := len(c.nodes()); got != 5 {
			c.t.Errorf("the strangers' nodes are %d now", got)
		}

		contenders := []string{
			"_c_" + dashed + "-lock-0000000000", // Curator, ahead of what we shall create
			hex32 + "__lock__0000000001",        // kazoo
			"lock-0000000002",
		}
		for _, name := range contenders {
			if err := c.srv.CreateEphemeral(session(stranger), dir+"/"+name, []byte("10.0.0.1")); err != nil {
				c.t.Fatal(err)
			}
		}
		h := l.Acquire(c.t.Context())
		for _, i := range []int{1, 0, 2} { // one in the middle goes first
			synctest.Wait()
			pending(c.t, "grant", h.Granted())
			if err := c.srv.Delete(dir + "/" + contenders[i]); err != nil {
				c.t.Fatal(err)
			}
		}
		synctest.Wait()
		wantErr(c.t, "when all are gone", h.Err(), nil)
		if n := l.Stats().Foreign; n != 5 {
			c.t.Errorf("%d strangers counted, want 5", n)
		}
		mustRelease(c.t, h)
	})
}

// A contender whose node is not ephemeral does not go away by itself. It is
// waited for, but not in silence.
func TestF016_PersistentContender(t *testing.T) {
	bubble(t, func(c *cluster) {
		node := dir + "/lock-0000000000"
		if err := c.srv.CreateAll(node, []byte("junk")); err != nil {
			c.t.Fatal(err)
		}
		l := c.lock("a")
		_, err := l.TryLock(c.t.Context())
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrLocked) || e.Ahead == nil || !e.Ahead.Persistent || !strings.Contains(err.Error(), node) {
			c.t.Errorf("got %v, want ErrLocked that names the node and says that it stays", err)
		}
		h := l.Acquire(c.t.Context())
		later(time.Minute)
		pending(c.t, "grant", h.Granted())
		if n := len(c.log.with("not ephemeral")); n == 0 || n > 2 {
			c.t.Errorf("it was logged %d times, want once for each round", n)
		}
		if err := c.srv.Delete(node); err != nil {
			c.t.Fatal(err)
		}
		synctest.Wait()
		wantErr(c.t, "when it was deleted", h.Err(), nil)
		mustRelease(c.t, h)
	})
}

// The tokens of a lock rise over sessions, processes and a directory that is
// made anew.
func TestF054_TokensRise(t *testing.T) {
	bubble(t, func(c *cluster) {
		var tokens []uint64
		take := func(l *Lock) {
			h := mustLock(c.t, l)
			tokens = append(tokens, grantOf(c.t, h).Token)
			mustRelease(c.t, h)
		}
		a, b := c.lock("a"), c.lock("b")
		take(a)
		take(b)
		c.expire(a.m)
		take(a)
		if err := c.srv.DeleteAll(dir); err != nil {
			c.t.Fatal(err)
		}
		take(b) // its number in the queue is 0 again
		take(a)
		if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
			c.t.Errorf("the tokens are %v", tokens)
		}
	})
}

// The empty directory of an idle lock is deleted sooner or later, and made again.
func TestF008_DirectoryIsDeletedWhileIdle(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		mustRelease(c.t, mustLock(c.t, l))
		later(10 * time.Minute)
		if c.srv.Exists(dir) {
			c.t.Fatal("the empty directory was not deleted: is it no container?")
		}
		mustRelease(c.t, mustLock(c.t, l))

		// At the worst moment: between the look at it and the creation.
		stop := c.stopBefore(l.m, createNode)
		h := l.Acquire(c.t.Context())
		stop.reached()
		if err := c.srv.Delete(dir); err != nil {
			c.t.Fatal(err)
		}
		stop.goOn()
		wantErr(c.t, "lock", settled(c.t, "grant", h.Granted()), nil)
		mustRelease(c.t, h)
	})
}

// The directory is not a container but somebody's, with data in it.
func TestDirectoryWithData(t *testing.T) {
	bubble(t, func(c *cluster) {
		if err := c.srv.CreateAll(dir, []byte("somebody's")); err != nil {
			c.t.Fatal(err)
		}
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		_, err := b.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		mustRelease(c.t, h)
		mustRelease(c.t, mustLock(c.t, b))
		if data, stat, _ := c.srv.Get(dir); string(data) != "somebody's" || stat.Version != 0 {
			c.t.Errorf("the directory's data is %q, version %d", data, stat.Version)
		}
	})
}

// Beyond the numbers that order, a foreign contender is an error, not a wait;
// among ourselves the lock goes on.
func TestF014_SequenceRunsOut(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		r := newReferee(c.t)
		mustRelease(c.t, mustLock(c.t, a))
		if err := c.srv.SetSequence(dir, queue.LastSafeSequence-2); err != nil {
			c.t.Fatal(err)
		}
		for range 6 { // over the limit
			h := mustLock(c.t, a)
			r.enter(a.m, h)
			next := b.Acquire(c.t.Context())
			synctest.Wait()
			pending(c.t, "the other's grant", next.Granted())
			r.leave(h)
			mustRelease(c.t, h)
			synctest.Wait()
			wantErr(c.t, "the other", next.Err(), nil)
			r.enter(b.m, next)
			r.leave(next)
			mustRelease(c.t, next)
		}
		if err := c.srv.CreateEphemeral(session(b.m), dir+"/"+hex32+"__lock__2147483647", []byte("kazoo")); err != nil {
			c.t.Fatal(err)
		}
		_, err := a.Lock(c.t.Context())
		wantErr(c.t, "with a foreign contender", err, ErrSequenceExhausted)
		synctest.Wait()
		c.wantNodes(1)
		wantState(c.t, a, state.Free, 0)
	})
}
