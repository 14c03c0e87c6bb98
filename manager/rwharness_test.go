// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// rw opens a manager for the read/write lock called "jobs", and returns the pair.
func (c *cluster) rw(label string, with ...func(*Config)) *RWLock {
	c.t.Helper()
	return readWrite(c.t, c.open(label, with...), "jobs")
}

// readWrite returns the read/write lock called name.
func readWrite(t testing.TB, m *Manager, name string) *RWLock {
	t.Helper()
	rw, err := m.ReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	return rw
}

// wantHeld checks that a hold is granted, and still held.
func wantHeld(t *testing.T, what string, h Hold) {
	t.Helper()
	if err := h.Err(); err != nil {
		t.Errorf("%s: %v, want it held", what, err)
	}
}

// wantWaiting checks that a hold is pending, when nothing moves any more.
func wantWaiting(t *testing.T, what string, h Hold) {
	t.Helper()
	synctest.Wait()
	pending(t, what, h.Granted())
}

// A crowd stands for other clients: a session of its own, in which a test makes
// the nodes that it likes.
type crowd struct {
	c       *cluster
	session int64
}

// crowd opens a session that is kept alive until the test ends. It is that of a
// manager that does nothing else.
func (c *cluster) crowd() crowd {
	c.t.Helper()
	return crowd{c, session(c.open("stranger"))}
}

// node makes an ephemeral node in the queue of the lock called "jobs", and
// returns its path.
func (s crowd) node(name string) string {
	s.c.t.Helper()
	if !s.c.srv.Exists(dir) {
		if err := s.c.srv.CreateAll(dir, nil); err != nil {
			s.c.t.Fatal(err)
		}
	}
	path := dir + "/" + name
	if err := s.c.srv.CreateEphemeral(s.session, path, nil); err != nil {
		s.c.t.Fatal(err)
	}
	return path
}

// remove deletes a node that another client would delete.
func (c *cluster) remove(path string) {
	c.t.Helper()
	if err := c.srv.Delete(path); err != nil {
		c.t.Fatal(err)
	}
}

// A rwReferee watches who is inside, by rules of its own: the code under test has
// no part in them. Whoever has been granted a lock enters, and leaves before he
// releases it; so an overlap that the rwReferee sees is one that happened.
type rwReferee struct {
	t *testing.T

	mu      sync.Mutex
	inside  []visit
	visits  int
	overlap bool
	writes  map[uint64]string // token → whose
	newest  uint64            // the highest token of a writer that was inside
	reads   []uint64          // tokens of readers that were inside, since the last writer
}

type visit struct {
	who   string
	write bool
	token uint64
}

func newRWReferee(t *testing.T) *rwReferee { return &rwReferee{t: t, writes: make(map[uint64]string)} }

// enter notes that who is inside, and complains if it must not be. token is 0 if
// it is not known. The function that it returns notes that it has left.
func (r *rwReferee) enter(who string, write bool, token uint64) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := visit{who, write, token}
	for _, o := range r.inside {
		if o.who != who && (o.write || write) {
			r.overlap = true
			r.t.Errorf("%v comes in while %v is inside", v, o)
		}
	}
	switch {
	case token == 0:
	case write:
		switch owner, known := r.writes[token]; {
		case known && owner != who:
			r.t.Errorf("%v has the token that %s had", v, owner)
		case !known && token <= r.newest:
			r.t.Errorf("%v has a token that is not above an earlier writer's, %d", v, r.newest)
		case !known && len(r.reads) > 0 && token <= slices.Max(r.reads):
			r.t.Errorf("%v has a token that is not above an earlier reader's, %d", v, slices.Max(r.reads))
		}
		r.writes[token] = who
		r.newest = max(r.newest, token)
	default:
		if token < r.newest {
			r.t.Errorf("%v has a token below an earlier writer's, %d", v, r.newest)
		}
		// That of a downgraded read is its writer's own.
		if owner, known := r.writes[token]; known && owner != who {
			r.t.Errorf("%v has the token of a write of %s", v, owner)
		} else if !known {
			r.reads = append(r.reads, token)
		}
	}
	r.inside = append(r.inside, v)
	r.visits++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(r.inside, v); i >= 0 {
			r.inside = slices.Delete(r.inside, i, i+1)
		}
	}
}

func (v visit) String() string {
	kind := "reader"
	if v.write {
		kind = "writer"
	}
	return fmt.Sprintf("%s of %s (token %d)", kind, v.who, v.token)
}

// enterHeld is enter for a granted hold.
func (r *rwReferee) enterHeld(h Hold) (leave func()) {
	r.t.Helper()
	l := h.Lock()
	return r.enter(l.m.cfg.Label, l.kind != queue.Read, grantOf(r.t, h).Token)
}

// A barrier holds requests back at the server, which a test lets go in the order
// that it wants. A request that is held back holds back what follows on its
// connection, too.
type barrier struct {
	mu    sync.Mutex
	stops []*rwStop
}

// rwStop holds back one request.
type rwStop struct {
	session int64
	op      zktest.Op
	nth     int
	reached *futures.Promise[struct{}]
	passing chan struct{}
}

// barrier installs the server's hook, of which there is one.
func (c *cluster) barrier() *barrier {
	b := new(barrier)
	c.srv.OnRequest(func(session int64, op zktest.Op, _ string) {
		b.mu.Lock()
		var hit *rwStop
		for i, s := range b.stops {
			if s.session == session && s.op == op {
				if s.nth--; s.nth == 0 {
					hit = s
					b.stops = slices.Delete(b.stops, i, i+1)
				}
				break
			}
		}
		b.mu.Unlock()
		if hit != nil {
			hit.reached.Settle(struct{}{}, nil)
			<-hit.passing
		}
	})
	c.t.Cleanup(func() { c.srv.OnRequest(nil) })
	return b
}

// hold holds back the nth request of kind op that m sends from now on.
func (b *barrier) hold(m *Manager, op zktest.Op, nth int) *rwStop {
	s := &rwStop{session: session(m), op: op, nth: nth, reached: new(futures.Promise[struct{}]), passing: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops = append(b.stops, s)
	return s
}

// await waits until the request has arrived and nothing else moves.
func (s *rwStop) await(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if !s.reached.Settled() {
		t.Fatalf("no %v arrived that could be held back", s.op)
	}
}

// pass lets the request go, and waits until nothing moves any more.
func (s *rwStop) pass() {
	close(s.passing)
	synctest.Wait()
}

// wantPhase checks the phase of a lock's present round.
func wantPhase(t *testing.T, l *Lock, phase state.Phase) {
	t.Helper()
	if p, n := l.State(); p != phase {
		t.Errorf("the %s lock of %s is %v/%d, want %v", l.kind, l.m.cfg.Label, p, n, phase)
	}
}

// allLeave notes that everybody has left.
func (r *rwReferee) allLeave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside = nil
}

// requests counts requests by kind while a test runs. It takes the place of
// the cluster's own hook of the server, of which there is one.
type requests struct {
	mu     sync.Mutex
	counts map[string]int // by operation
}

// countRequests counts the requests that concern paths under prefix, by kind.
func (c *cluster) countRequests(prefix string) *requests {
	r := &requests{counts: make(map[string]int)}
	c.srv.OnRequest(func(_ int64, op zktest.Op, path string) {
		if strings.HasPrefix(path, prefix) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.counts[op.String()]++
		}
	})
	return r
}

// take returns the counts since the last take.
func (r *requests) take() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = make(map[string]int)
	return counts
}
