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

// A tally counts the requests that a manager sends, by its own account and by
// the server's, which have to agree. There is one in a test at a time.
type tally struct {
	c    *cluster
	m    *Manager
	sent map[string]uint64 // by the client, so far

	mu     sync.Mutex     // protects served
	served map[string]int // by the server, since the last look
}

func (c *cluster) tally(m *Manager) *tally {
	synctest.Wait()
	t := &tally{c: c, m: m, sent: m.client.Stats().Sent, served: make(map[string]int)}
	id := session(m)
	c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
		if session == id && op != zktest.OpPing && op != zktest.OpConnect {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.served[op.String()]++
		}
	})
	return t
}

// want checks which requests were sent since the last time, as "delete=1 multi=1".
// What keeps or gets a connection does not count.
func (t *tally) want(what, want string) {
	t.c.t.Helper()
	synctest.Wait()
	now := t.m.client.Stats().Sent
	counts := make(map[string]int)
	for op, n := range now {
		if op != "ping" && op != "connect" && n > t.sent[op] {
			counts[op] = int(n - t.sent[op])
		}
	}
	t.sent = now
	if got := written(counts); got != want {
		t.c.t.Errorf("%s: sent %q, want %q", what, got, want)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !maps.Equal(t.served, counts) {
		t.c.t.Errorf("%s: sent %q, and the server got %q", what, written(counts), written(t.served))
	}
	clear(t.served)
}

// written returns counts in the order of the alphabet.
func written(counts map[string]int) string {
	var words []string
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s=%d", op, counts[op]))
	}
	return strings.Join(words, " ")
}

// kinds are the locks of one process, of each kind.
var kinds = []struct {
	what string
	take func(c *cluster) *Lock
}{
	{"exclusive", func(c *cluster) *Lock { return c.lock("a") }},
	{"read", func(c *cluster) *Lock { return c.rw("a").Reader() }},
	{"write", func(c *cluster) *Lock { return c.rw("a").Writer() }},
}

// A lock that nobody else wants is one request to take, and another to give up.
func TestUncontendedAcquireIsOneRequest(t *testing.T) {
	for _, test := range kinds {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := test.take(c)
				n := c.tally(l.m)
				h := mustLock(c.t, l)
				n.want("the first time, the directory is made and looked at", "createContainer=1 getData=2 multi=1")
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

				// All the goroutines that come now are no request.
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						h, err := l.Lock(c.t.Context())
						wantErr(c.t, "lock", err, nil)
						mustRelease(c.t, h)
					})
				}
				wg.Wait()
				n.want("sharing", "")
				mustRelease(c.t, h)
				n.want("unlock", "delete=1")

				// All that come at once are one.
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
		})
	}
}

// A lock that another process has costs who wants it one write and two reads: the
// queue and the contender ahead. Its turn costs nothing, unless a downgraded read
// may have come in between. If that turn is long in coming, it looks at its own
// node, to hear of it from then on.
func TestQueuedAcquire(t *testing.T) {
	for _, test := range []struct {
		what string
		take func(c *cluster) (ahead, lock *Lock)
		turn string
	}{
		{"a mutex behind a mutex", func(c *cluster) (ahead, lock *Lock) { return c.lock("a"), c.lock("b") }, ""},
		{"a reader behind a writer", func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Writer(), c.rw("b").Reader() }, ""},
		{"a writer behind a reader", func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Reader(), c.rw("b").Writer() }, ""},
		{"a writer behind a writer", func(c *cluster) (ahead, lock *Lock) { return c.rw("a").Writer(), c.rw("b").Writer() }, "getChildren2=1"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				ahead, l := test.take(c)
				mustRelease(c.t, mustLock(c.t, l)) // the directory is known from now on
				for _, long := range []bool{false, true, false} {
					first := mustLock(c.t, ahead)
					n := c.tally(l.m)
					h := l.Acquire(c.t.Context())
					n.want("queued", "getChildren2=1 getData=1 multi=1")
					pending(c.t, "lock", h.Granted())
					if long {
						later(time.Second)
						n.want("after a while", "getData=1")
					}
					mustRelease(c.t, first)
					n.want("its turn", test.turn)
					wantHeld(c.t, "lock", h)
					mustRelease(c.t, h)
					n.want("unlock", "delete=1")
				}
			})
		})
	}
}

// Readers beside readers look once.
func TestReaderBesideAReader(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.rw("a"), c.rw("b")
		mustRelease(c.t, mustLock(c.t, b.Reader()))
		first := mustLock(c.t, a.Reader())
		n := c.tally(b.reader.m)
		h := mustLock(c.t, b.Reader())
		n.want("beside another", "getChildren2=1 multi=1")
		mustRelease(c.t, h)
		mustRelease(c.t, first)
	})
}

// A directory with somebody's data is used without writing it.
func TestDirectoryWithDataIsNotWritten(t *testing.T) {
	for _, test := range kinds {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				if err := c.srv.CreateAll(dir, []byte("somebody's")); err != nil {
					t.Fatal(err)
				}
				_, before, _ := c.srv.Get(dir)
				l := test.take(c)
				n := c.tally(l.m)
				h := mustLock(c.t, l)
				n.want("the first time", "create=1 getChildren2=1 getData=2")
				mustRelease(c.t, h)
				n.want("unlock", "delete=1")
				for range 3 {
					h = mustLock(c.t, l)
					n.want("from then on", "create=1 getChildren2=1 getData=1")
					if g := grantOf(c.t, h); g.Token != c.czxid(g.Path) {
						c.t.Errorf("token %d, the node's czxid is %d", g.Token, c.czxid(g.Path))
					}
					mustRelease(c.t, h)
					n.want("unlock", "delete=1")
				}
				data, after, _ := c.srv.Get(dir)
				if string(data) != "somebody's" || after.Version != before.Version || after.Mzxid != before.Mzxid {
					c.t.Errorf("the directory has %q in version %d now", data, after.Version)
				}
			})
		})
	}
}

func (c *cluster) czxid(path string) uint64 {
	_, stat, _ := c.srv.Get(path)
	return uint64(stat.Czxid)
}

// Where an ACL forbids to write the directory, it takes a list.
func TestFallBackWhereDirectoryMayNotBeWritten(t *testing.T) {
	for _, test := range []struct {
		what   string
		perms  int32
		first  string // the requests of the first time
		always string
		err    error
	}{
		{"no write", zkio.PermAll &^ zkio.PermWrite, "create=1 getChildren2=1 getData=2 multi=1", "create=1 getChildren2=1 getData=1", nil},
		{"no create", zkio.PermAll &^ zkio.PermCreate, "", "", zkio.ErrNoAuth},
		{"no read", zkio.PermAll &^ zkio.PermRead, "", "", zkio.ErrNoAuth},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a")
				if err := l.m.client.Session().Create(dir, nil, []zkio.ACL{{Perms: test.perms, Scheme: "world", ID: "anyone"}}); err != nil {
					t.Fatal(err)
				}
				n := c.tally(l.m)
				h, err := l.Lock(c.t.Context())
				if test.err != nil {
					wantErr(c.t, "lock", err, test.err)
					if !strings.Contains(err.Error(), dir) {
						c.t.Errorf("it says %q, want it to name %s", err, dir)
					}
					synctest.Wait()
					c.wantNodes(0)
					return
				}
				wantErr(c.t, "lock", err, nil)
				n.want("the first time", test.first)
				mustRelease(c.t, h)
				n.want("unlock", "delete=1")
				h = mustLock(c.t, l)
				n.want("from then on", test.always)
				mustRelease(c.t, h)
			})
		})
	}
}

// The directory is a container, which goes when it has been empty for a while,
// or by somebody's hand: between two acquires, or just before a request.
func TestDirectoryGoes(t *testing.T) {
	for _, test := range kinds {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := test.take(c)
				var last uint64
				lock := func() {
					h := mustLock(c.t, l)
					if token := grantOf(c.t, h).Token; token <= last {
						c.t.Errorf("token %d after %d", token, last)
					} else {
						last = token
					}
					mustRelease(c.t, h)
				}
				lock()
				later(5 * time.Minute)
				if c.srv.Exists(dir) {
					c.t.Fatal("the container is still there")
				}
				n := c.tally(l.m)
				lock()
				n.want("after it had gone, and the root with it", "createContainer=3 delete=1 getData=2 multi=2")

				// The second request finds it gone again, the third once more.
				for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpGetData} {
					if err := c.srv.Delete(dir); err != nil {
						t.Fatal(err)
					}
					b := c.barrier()
					get := b.hold(l.m, op, 2)
					h := l.Acquire(c.t.Context())
					get.await(c.t)
					if err := c.srv.Delete(dir); err != nil {
						t.Fatal(err)
					}
					get.pass()
					later(time.Second)
					wantHeld(c.t, "lock", h)
					mustRelease(c.t, h)
				}

				// With everything above it.
				if err := c.srv.DeleteAll("/holdfast"); err != nil {
					t.Fatal(err)
				}
				lock()
			})
		})
	}
}

// The answer to the one request is lost: its node is found and adopted, or it
// turns out that there is none. Either way there is one node.
func TestLostAnswerToTheOneRequest(t *testing.T) {
	for _, test := range kinds {
		for _, lose := range []struct {
			what string
			by   func(*zktest.Faults, zktest.Match) *zktest.Fault
			want string
		}{
			{"and the node is there", (*zktest.Faults).DropReply, "getChildren2=2 getData=2 multi=1 sync=1"},
			{"and the node is not there", (*zktest.Faults).DropRequest, "getChildren2=1 multi=2 sync=1"},
		} {
			t.Run(test.what+"/"+lose.what, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					l := test.take(c)
					mustRelease(c.t, mustLock(c.t, l))
					fault := lose.by(c.srv.Faults(), zktest.Match{Op: zktest.OpMulti, Path: dir})
					n := c.tally(l.m)
					h := mustLock(c.t, l)
					if fault.Hits() != 1 {
						c.t.Fatal("nothing was lost")
					}
					n.want("lock", lose.want)
					c.wantNodes(1)
					if g := grantOf(c.t, h); g.Token != c.czxid(g.Path) {
						c.t.Errorf("token %d, the node's czxid is %d", g.Token, c.czxid(g.Path))
					}
					mustRelease(c.t, h)
					c.wantNodes(0)
				})
			})
		}
	}
}

// On a real server, by the client's own count.
func TestRealServerUncontendedAcquireIsOneRequest(t *testing.T) {
	r := newReal(t, realzk.Shared(t))
	m := r.open("a")
	rw := readWrite(t, m, "rw")
	for _, l := range []*Lock{exclusive(t, m, "jobs"), rw.Reader(), rw.Writer()} {
		mustRelease(t, r.lock(l))
		const times = 20
		before := m.client.Stats().Sent
		for range times {
			h := r.lock(l)
			mustRelease(t, h)
		}
		after := m.client.Stats().Sent
		for op, want := range map[string]uint64{"multi": times, "delete": times, "getData": 0, "getChildren2": 0, "create": 0, "sync": 0, "exists": 0} {
			if got := after[op] - before[op]; got != want {
				t.Errorf("%s: %d × %s for %d × Lock and Unlock, want %d", l.kind, got, op, times, want)
			}
		}
	}
}

// What a lock costs that nobody else wants, and what ZooKeeper charges for the
// two requests that it consists of, through the same session.
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
	l, err := m.Exclusive("jobs")
	if err != nil {
		b.Fatal(err)
	}
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
	for _, f := range []func() error{lockUnlock, createDelete} { // warm
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	for name, f := range map[string]func() error{"lock+unlock": lockUnlock, "create+delete": createDelete} {
		b.Run("op="+name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
