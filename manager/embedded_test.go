// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An embedded is a server in the benchmark's process, with managers that reach it
// through pipes. It measures the cost of all the code, the server's included,
// without network and disk. Use it to compare versions of this code, not to
// compare with other locks.
type embedded struct {
	b        *testing.B
	srv      *zktest.Server
	managers []*Manager
}

// newEmbedded starts a server and opens that many managers.
func newEmbedded(b *testing.B, sessions int) *embedded {
	b.Helper()
	e := &embedded{b: b, srv: zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})}
	b.Cleanup(func() {
		if err := e.srv.Close(); err != nil {
			b.Error(err)
		}
	})
	for range sessions {
		m, err := Open(b.Context(), Config{Servers: []string{"zk1"}, Dialer: e.srv.Dial, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := m.Close(); err != nil {
				b.Error(err)
			}
		})
		e.managers = append(e.managers, m)
	}
	return e
}

// locks returns each manager's lock of the given kind and name. It has held each
// of them once, so that their directories exist and are known.
func (e *embedded) locks(kind Kind, name string) (locks []*Lock) {
	e.b.Helper()
	for _, m := range e.managers {
		var l *Lock
		switch kind {
		case KindExclusive:
			l = exclusive(e.b, m, name)
		case KindRead:
			l = readWrite(e.b, m, name).Reader()
		case KindWrite:
			l = readWrite(e.b, m, name).Writer()
		}
		e.lockUnlock(l)
		locks = append(locks, l)
	}
	return locks
}

func (e *embedded) lockUnlock(l *Lock) {
	h, err := l.Lock(e.b.Context())
	if err == nil {
		err = h.Unlock(e.b.Context())
	}
	if err != nil {
		e.b.Error(err)
	}
}

// requests returns how many requests the managers have sent, apart from those that
// keep a session alive.
func (e *embedded) requests() (n uint64) {
	for _, m := range e.managers {
		for op, sent := range m.client.Stats().Sent {
			if op != "ping" && op != "connect" {
				n += sent
			}
		}
	}
	return n
}

// BenchmarkUncontended locks and unlocks an uncontended lock and, for comparison,
// creates and deletes a node in the same session.
func BenchmarkUncontended(b *testing.B) {
	for _, kind := range []Kind{KindExclusive, KindRead, KindWrite} {
		b.Run(fmt.Sprintf("kind=%s", kind), func(b *testing.B) {
			e := newEmbedded(b, 1)
			l := e.locks(kind, "jobs")[0]
			b.ReportAllocs()
			before := e.requests()
			for b.Loop() {
				e.lockUnlock(l)
			}
			b.ReportMetric(float64(e.requests()-before)/float64(b.N), "requests/op")
		})
	}
	b.Run("kind=bare-node", func(b *testing.B) {
		e := newEmbedded(b, 1)
		e.locks(KindExclusive, "jobs")
		s := e.managers[0].client.Session()
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Create("/holdfast/jobs/bare", nil, nil); err != nil {
				b.Fatal(err)
			}
			if err := s.Delete("/holdfast/jobs/bare", -1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A crush has all sessions queue before the holder leaves. Requests take
// microseconds here: without a crush, a session would be back at the head of an
// empty queue before the others are awake.
type crush struct {
	srv      *zktest.Server
	sessions int

	mu   sync.Mutex // protects left; cond uses it
	cond sync.Cond
	left int // grants that have not ended yet
}

// newCrush has the sessions contend for the lock "jobs" until it has been granted
// the given number of times.
func (e *embedded) newCrush(grants int) *crush {
	c := &crush{srv: e.srv, sessions: len(e.managers), left: grants}
	c.cond.L = &c.mu
	// A session that is not alone lists the queue, once its node is in it.
	e.srv.OnRequest(func(_ int64, op zktest.Op, path string) {
		if op == zktest.OpGetChildren2 && path == dir {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.cond.Broadcast()
		}
	})
	return c
}

// wait waits until all sessions that have grants left are in the queue. The caller
// holds the lock and is about to release it.
func (c *crush) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.srv.Children(dir)) < min(c.sessions, c.left) {
		c.cond.Wait()
	}
	c.left--
	c.cond.Broadcast() // fewer are left
}

// BenchmarkHandOver passes a lock around sessions. All others are in the queue
// when it is released. An operation is one grant with all its requests. Readers
// hold the lock together; one leaves when all others are there. A session that
// wants the lock again either waits for the end of its release, or does not: then
// one request may do for both.
func BenchmarkHandOver(b *testing.B) {
	for _, kind := range []Kind{KindExclusive, KindWrite, KindRead} {
		for _, again := range []string{"released", "at-once"} {
			for _, sessions := range []int{2, 8} {
				b.Run(fmt.Sprintf("kind=%s/again=%s/sessions=%d", kind, again, sessions), func(b *testing.B) {
					handOver(b, kind, again == "released", sessions)
				})
			}
		}
	}
}

func handOver(b *testing.B, kind Kind, released bool, sessions int) {
	b.Helper()
	e := newEmbedded(b, sessions)
	locks := e.locks(kind, "jobs")
	c := e.newCrush(b.N)
	var (
		all   sync.WaitGroup
		taken atomic.Int64
	)
	before := e.requests()
	b.ResetTimer()
	for _, l := range locks {
		all.Go(func() {
			var left *futures.Future[struct{}]
			for taken.Add(1) <= int64(b.N) {
				h, err := l.Lock(b.Context())
				if err != nil {
					panic(err) // otherwise the others would wait for this one
				}
				c.wait()
				if left = h.Release(); released {
					_, err = left.Wait(b.Context())
				}
				if err != nil {
					panic(err)
				}
			}
			if left != nil { // all its requests have been sent then
				_, _ = left.Wait(b.Context())
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(e.requests()-before)/float64(b.N), "requests/grant")
}

// BenchmarkManyLocks acquires many locks at once from one goroutine, waits for all
// of them, and releases them.
func BenchmarkManyLocks(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("locks=%d", n), func(b *testing.B) {
			e := newEmbedded(b, 1)
			locks := make([]*Lock, n)
			for i := range locks {
				locks[i] = exclusive(b, e.managers[0], fmt.Sprintf("accounts/%04d", i))
			}
			takeAll := func() {
				holds := make([]Hold, n)
				granted := make([]*futures.Future[Grant], n)
				for i, l := range locks {
					holds[i] = l.Acquire(b.Context())
					granted[i] = holds[i].Granted()
				}
				if _, err := futures.All(granted...).Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				released := make([]*futures.Future[struct{}], n)
				for i, h := range holds {
					released[i] = h.Release()
				}
				if _, err := futures.All(released...).Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			takeAll() // their directories exist and are known from now on
			b.ReportAllocs()
			before := e.requests()
			for b.Loop() {
				takeAll()
			}
			times := float64(b.N) * float64(n)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/times, "ns/lock")
			b.ReportMetric(float64(e.requests()-before)/times, "requests/lock")
		})
	}
}
