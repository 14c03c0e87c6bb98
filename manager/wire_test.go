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
	expect(t.c.t, maps.Equal(t.served, counts),
		"%s: sent %q, and the server got %q", what, written(counts), written(t.served))
	clear(t.served)
	return counts
}

// want checks which requests were sent since the last time, as "delete=1 multi=1".
func (t *tally) want(what, want string) {
	t.c.t.Helper()
	got := written(t.take(what))
	expect(t.c.t, got == want, "%s: sent %q, want %q", what, got, want)
}

// written returns counts in alphabetical order.
func written(counts map[string]int) string {
	var words []string
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s=%d", op, counts[op]))
	}
	return strings.Join(words, " ")
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
			expect(c.t, strings.Contains(err.Error(), dir), "it says %q, want it to name %s", err, dir)
			synctest.Wait()
			c.wantNodes(0)
			return
		}
		wantErr(c.t, "lock", err, nil)
		synctest.Wait()
		n.want("the first time", "create=1 exists=1 getChildren2=1 getData=2 multi=1")
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
		n.want("after it has gone, and the root with it", "createContainer=3 delete=1 getData=2 multi=2 sync=1") // minutes later: see zkio's freshen

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
