// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A tally counts the requests that managers send, by their own account and by the
// server's, which have to agree. It replaces the server's hook.
type tally struct {
	c    *cluster
	ms   []*Manager
	sent map[string]uint64 // by the clients, so far

	mu     sync.Mutex     // protects served
	served map[string]int // by the server, since the last look
}

func (c *cluster) tally(ms ...*Manager) *tally {
	synctest.Wait()
	t := &tally{c: c, ms: ms, served: make(map[string]int)}
	t.sent = t.sum()
	var ids []int64
	for _, m := range ms {
		ids = append(ids, session(m))
	}
	c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
		if slices.Contains(ids, session) && op != zktest.OpPing && op != zktest.OpConnect {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.served[op.String()]++
		}
	})
	return t
}

// sum returns what the managers have sent so far, aside from what opens and keeps a
// connection.
func (t *tally) sum() map[string]uint64 {
	sum := make(map[string]uint64)
	for _, m := range t.ms {
		for op, n := range m.client.Stats().Sent {
			sum[op] += n
		}
	}
	delete(sum, "ping")
	delete(sum, "connect")
	return sum
}

// take returns which requests were sent since the last time.
func (t *tally) take(what string) map[string]int {
	t.c.t.Helper()
	synctest.Wait()
	now, counts := t.sum(), make(map[string]int)
	for op, n := range now {
		if n > t.sent[op] {
			counts[op] = int(n - t.sent[op])
		}
	}
	t.sent = now
	t.mu.Lock()
	defer t.mu.Unlock()
	if !maps.Equal(t.served, counts) {
		t.c.t.Errorf("%s: sent %q, and the server got %q", what, written(counts), written(t.served))
	}
	clear(t.served)
	return counts
}

// want checks which requests were sent since the last time, as "delete=1 multi=1".
func (t *tally) want(what, want string) {
	t.c.t.Helper()
	if got := written(t.take(what)); got != want {
		t.c.t.Errorf("%s: sent %q, want %q", what, got, want)
	}
}

// written returns counts in alphabetical order.
func written(counts map[string]int) string {
	var words []string
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s=%d", op, counts[op]))
	}
	return strings.Join(words, " ")
}

// Acquiring an uncontended lock is one request, and releasing it is another.
func TestUncontendedAcquireIsOneRequest(t *testing.T) {
	each(t, kinds, func(c *cluster, take func(c *cluster) *Lock) {
		l := take(c)
		n := c.tally(l.m)
		h := mustLock(c.t, l)
		n.want("the first time, when the directory is made and looked at", "createContainer=1 getData=2 multi=1")
		mustRelease(c.t, h)
		n.want("unlock", "delete=1")
		for range 10 {
			h = mustLock(c.t, l)
			n.want("lock", "multi=1")
			mustRelease(c.t, h)
			n.want("unlock", "delete=1")
		}
		h, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, nil)
		n.want("trylock", "multi=1")

		// Goroutines that come now share it.
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { c.cycle(l) })
		}
		wg.Wait()
		n.want("sharing", "")
		mustRelease(c.t, h)
		n.want("unlock", "delete=1")

		// Goroutines that come at once are one request.
		var holds []Hold
		for range 100 {
			holds = append(holds, l.Acquire(c.t.Context()))
		}
		n.want("a hundred at once", "multi=1")
		for _, h := range holds {
			h.Release()
		}
		n.want("their release", "delete=1")
	})
}

// Queueing for a lock is one write and two reads: of the queue, and of the
// contender ahead. The grant takes no request, unless a downgraded read may have
// come in between. A waiter looks at its own node, and watches it from then on, if
// the wait is long.
func TestQueuedAcquire(t *testing.T) {
	type pair struct {
		take func(c *cluster) (ahead, lock *Lock)
		turn string
	}
	each(t, map[string]pair{
		"a mutex behind a mutex":   {func(c *cluster) (ahead, lock *Lock) { return c.lock("a"), c.lock("b") }, ""},
		"a reader behind a writer": {func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Writer(), c.rw("b").Reader() }, ""},
		"a writer behind a reader": {func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Reader(), c.rw("b").Writer() }, ""},
		"a writer behind a writer": {func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Writer(), c.rw("b").Writer() }, "getChildren2=1"},
	}, func(c *cluster, test pair) {
		ahead, l := test.take(c)
		c.cycle(l) // the directory is known from now on
		for _, long := range []bool{false, true, false} {
			first := mustLock(c.t, ahead)
			n := c.tally(l.m)
			h := l.Acquire(c.t.Context())
			n.want("queued", "getChildren2=1 getData=1 multi=1")
			c.waiting(h)
			if long {
				later(time.Second)
				n.want("after a while", "getData=1")
			}
			mustRelease(c.t, first)
			n.want("its turn", test.turn)
			c.held(h)
			mustRelease(c.t, h)
			n.want("unlock", "delete=1")
		}
	})
}

// A directory that holds data is used, but not written.
func TestDirectoryWithDataIsNotWritten(t *testing.T) {
	each(t, kinds, func(c *cluster, take func(c *cluster) *Lock) {
		wantErr(c.t, "create", c.srv.CreateAll(dir, []byte("theirs")), nil)
		_, before, _ := c.srv.Get(dir)
		l := take(c)
		n := c.tally(l.m)
		for _, sent := range []string{"create=1 getChildren2=1 getData=2", "create=1 getChildren2=1 getData=1", "create=1 getChildren2=1 getData=1"} {
			h := mustLock(c.t, l)
			n.want("lock", sent)
			if g := grantOf(c.t, h); g.Token != c.czxid(g.Path) {
				c.t.Errorf("token %d, the node's czxid is %d", g.Token, c.czxid(g.Path))
			}
			mustRelease(c.t, h)
			n.want("unlock", "delete=1")
		}
		data, after, _ := c.srv.Get(dir)
		if string(data) != "theirs" || after.Version != before.Version || after.Mzxid != before.Mzxid {
			c.t.Errorf("the directory has %q in version %d now", data, after.Version)
		}
	})
}

func (c *cluster) czxid(path string) uint64 {
	_, stat, _ := c.srv.Get(path)
	return uint64(stat.Czxid)
}

// A process that may not write the directory lists the queue instead. One that may
// not create or read there is refused.
func TestFallBackWhereDirectoryMayNotBeWritten(t *testing.T) {
	each(t, map[string]int32{"write": zkio.PermWrite, "create": zkio.PermCreate, "read": zkio.PermRead}, func(c *cluster, without int32) {
		l := c.lock("a")
		acl := []zkio.ACL{{Perms: zkio.PermAll &^ without, Scheme: "world", ID: "anyone"}}
		wantErr(c.t, "create", l.m.client.Session().Create(dir, nil, acl), nil)
		n := c.tally(l.m)
		h, err := l.Lock(c.t.Context())
		if without != zkio.PermWrite {
			wantErr(c.t, "lock", err, zkio.ErrNoAuth)
			if !strings.Contains(err.Error(), dir) {
				c.t.Errorf("it says %q, want it to name %s", err, dir)
			}
			synctest.Wait()
			c.wantNodes(0)
			return
		}
		wantErr(c.t, "lock", err, nil)
		n.want("the first time", "create=1 getChildren2=1 getData=2 multi=1")
		mustRelease(c.t, h)
		n.want("unlock", "delete=1")
		h = mustLock(c.t, l)
		n.want("from then on", "create=1 getChildren2=1 getData=1")
		mustRelease(c.t, h)
	})
}

// The directory is a container, which goes when it has been empty for a while, or
// is deleted: between two acquires, or just before a request.
func TestDirectoryGoes(t *testing.T) {
	each(t, kinds, func(c *cluster, take func(c *cluster) *Lock) {
		l := take(c)
		var last uint64
		cycle := func() {
			h := mustLock(c.t, l)
			last = c.wantNext(h, last)
			mustRelease(c.t, h)
		}
		cycle()
		later(5 * time.Minute)
		if c.srv.Exists(dir) {
			c.t.Fatal("the container is still there")
		}
		n := c.tally(l.m)
		cycle()
		n.want("after it has gone, and the root with it", "createContainer=3 delete=1 getData=2 multi=2")

		// The second request finds it gone again, the third once more.
		for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpGetData} {
			c.remove(dir)
			get := c.stopAt(l.m, op, 2)
			h := l.Acquire(c.t.Context())
			get.reached()
			c.remove(dir)
			get.goOn()
			later(time.Second)
			c.held(h)
			c.unlock(h)
		}

		// All levels above it are gone, too.
		wantErr(c.t, "delete", c.srv.DeleteAll("/holdfast"), nil)
		cycle()
	})
}

// The answer to the one request is lost: its node is found and adopted, or there
// turns out to be none. Either way there is one node.
func TestLostAnswerToTheOneRequest(t *testing.T) {
	for what, take := range kinds {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/the node is there: %t", what, made), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					l := take(c)
					c.cycle(l)
					lose, sent := dropRequest, "getChildren2=1 multi=2 sync=1"
					if made {
						lose, sent = dropReply, "getChildren2=2 getData=2 multi=1 sync=1"
					}
					fault := c.lossAt(lose, l.m, zktest.OpMulti)
					n := c.tally(l.m)
					h := mustLock(c.t, l)
					if fault.Hits() != 1 {
						c.t.Fatal("nothing was lost")
					}
					n.want("lock", sent)
					c.wantNodes(1)
					c.wantNext(h, 0)
					mustRelease(c.t, h)
					c.wantNodes(0)
				})
			})
		}
	}
}

// The same on a real server, by the client's own count.
func TestRealServerUncontendedAcquireIsOneRequest(t *testing.T) {
	s := realBackend(t, realzk.Shared(t))
	m := s.open("a")
	rw := readWrite(t, m, "rw")
	for _, l := range []*Lock{exclusive(t, m, "jobs"), rw.Reader(), rw.Writer()} {
		mustRelease(t, mustLock(t, l))
		const times = 20
		before := m.client.Stats().Sent
		for range times {
			mustRelease(t, mustLock(t, l))
		}
		after := m.client.Stats().Sent
		for op, want := range map[string]uint64{"multi": times, "delete": times, "getData": 0, "getChildren2": 0, "create": 0, "sync": 0, "exists": 0} {
			if got := after[op] - before[op]; got != want {
				t.Errorf("%s: %d × %s for %d × Lock and Unlock, want %d", l.kind, got, op, times, want)
			}
		}
	}
}

// BenchmarkRealServer compares an uncontended lock with the two requests that it
// consists of, sent through the same session.
func BenchmarkRealServer(b *testing.B) {
	zk := realzk.Shared(b)
	m, err := Open(b.Context(), Config{Servers: []string{zk.Addr()}, Root: "/bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	}()
	l := exclusive(b, m, "jobs")
	lockUnlock := func() error {
		h, err := l.Lock(b.Context())
		if err != nil {
			return err
		}
		return h.Unlock(b.Context())
	}
	createDelete := func() error {
		s := m.client.Session()
		if err := s.Create("/bench/jobs/bare", nil, nil); err != nil {
			return err
		}
		return s.Delete("/bench/jobs/bare", -1)
	}
	for i, do := range []func() error{lockUnlock, createDelete} {
		if err := do(); err != nil { // warm up
			b.Fatal(err)
		}
		b.Run("op="+[]string{"lock+unlock", "create+delete"}[i], func(b *testing.B) {
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
