// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// rw opens a manager and returns its read/write lock "jobs".
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

// pick returns one of the two locks of rw.
func pick(rw *RWLock, write bool) *Lock {
	if write {
		return rw.Writer()
	}
	return rw.Reader()
}

// reads reports whether l is a read lock of a pair.
func reads(l *Lock) bool { return Kind(l.kind) == KindRead || Kind(l.kind) == KindUpgradable }

// kinds are one lock of each kind.
var kinds = map[string]func(c *cluster) *Lock{
	"exclusive": func(c *cluster) *Lock { return c.lock("a") },
	"read":      func(c *cluster) *Lock { return c.rw("a").Reader() },
	"write":     func(c *cluster) *Lock { return c.rw("a").Writer() },
}

// subtest runs test in a bubble, as a subtest called name.
func subtest(t *testing.T, name string, test func(c *cluster)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, test) })
}

// each runs test in a bubble of its own for each of the cases.
func each[T any](t *testing.T, cases map[string]T, test func(c *cluster, v T)) {
	t.Helper()
	for name, v := range cases {
		subtest(t, name, func(c *cluster) { test(c, v) })
	}
}

// eachOf runs test in a bubble of its own for each of the values.
func eachOf[T any](t *testing.T, values []T, test func(c *cluster, v T)) {
	t.Helper()
	for _, v := range values {
		subtest(t, fmt.Sprint(v), func(c *cluster) { test(c, v) })
	}
}

// either runs test in a bubble of its own for false and for true.
func either(t *testing.T, test func(c *cluster, v bool)) {
	t.Helper()
	eachOf(t, []bool{false, true}, test)
}

// acquire acquires l, and returns when it is held or its place in the queue is
// settled.
func (c *cluster) acquire(l *Lock) Hold {
	h := l.Acquire(c.t.Context())
	synctest.Wait()
	return h
}

// expect fails the test with a message unless ok is true.
func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// wantEq checks that got is want.
func wantEq[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	expect(t, got == want, "%s: got %v, want %v", what, got, want)
}

// wantTook checks how much time has passed since start.
func wantTook(t testing.TB, start time.Time, least, most time.Duration) {
	t.Helper()
	took := time.Since(start)
	expect(t, took >= least && took <= most, "it took %v, want %v to %v", took, least, most)
}

// errOf returns the error of a call whose result does not matter.
func errOf[T any](_ T, err error) error { return err }

// wantNothingSent checks that no requests were sent since the counts were taken last.
func (c *cluster) wantNothingSent() {
	c.t.Helper()
	sent := c.takeCounts()
	expect(c.t, len(sent) == 0, "requests: %v", sent)
}

// wantNoLossLogged checks that the managers have not logged the loss of a lock.
func (c *cluster) wantNoLossLogged() {
	c.t.Helper()
	lost := c.log.with("holdfast: lost")
	expect(c.t, len(lost) == 0, "logged %q", lost)
}

// describe names a hold in a failure message.
func describe(h Hold) string { return h.Lock().kind.String() + " lock of " + h.Lock().m.cfg.Label }

// held checks that all of the holds are held once nothing moves any more.
func (c *cluster) held(holds ...Hold) {
	c.t.Helper()
	synctest.Wait()
	for _, h := range holds {
		wantHeld(c.t, describe(h), h)
	}
}

// waiting checks that none of the holds is granted once nothing moves any more.
func (c *cluster) waiting(holds ...Hold) {
	c.t.Helper()
	for _, h := range holds {
		wantWaiting(c.t, describe(h), h)
	}
}

// unlock releases the holds one after the other.
func (c *cluster) unlock(holds ...Hold) {
	c.t.Helper()
	for _, h := range holds {
		mustRelease(c.t, h)
	}
	synctest.Wait()
}

// cycle locks and unlocks l.
func (c *cluster) cycle(l *Lock) {
	c.t.Helper()
	mustRelease(c.t, mustLock(c.t, l))
}

// wantHeld checks that a hold is granted, and not lost.
func wantHeld(t *testing.T, what string, h Hold) {
	t.Helper()
	if err := h.Err(); err != nil {
		t.Errorf("%s: %v, want it held", what, err)
	}
}

// wantWaiting checks that a hold is not granted once nothing moves any more.
func wantWaiting(t *testing.T, what string, h Hold) {
	t.Helper()
	synctest.Wait()
	pending(t, what, h.Granted())
}

// wantPhase checks the phase of a lock's present round.
func wantPhase(t *testing.T, l *Lock, phase state.Phase) {
	t.Helper()
	if p, n := l.State(); p != phase {
		t.Errorf("the %s lock of %s is %v/%d, want %v", l.kind, l.m.cfg.Label, p, n, phase)
	}
}

// A crowd is the session of other clients, in which a test makes nodes by hand.
type crowd struct {
	c       *cluster
	session int64
}

// crowd opens such a session, which lives until the test ends.
func (c *cluster) crowd() crowd {
	c.t.Helper()
	return crowd{c, session(c.open("stranger"))}
}

// node makes an ephemeral node in the queue of the lock "jobs", and returns its
// path.
func (s crowd) node(name string, data ...byte) string {
	s.c.t.Helper()
	if !s.c.srv.Exists(dir) {
		wantErr(s.c.t, "create "+dir, s.c.srv.CreateAll(dir, nil), nil)
	}
	path := dir + "/" + name
	wantErr(s.c.t, "create "+path, s.c.srv.CreateEphemeral(s.session, path, data), nil)
	return path
}

// remove deletes a node, as an administrator or another client would.
func (c *cluster) remove(path string) {
	c.t.Helper()
	if err := c.srv.Delete(path); err != nil {
		c.t.Fatal(err)
	}
}

// nodeOf returns the path of the only node of m in the queue of the lock "jobs".
func (c *cluster) nodeOf(m *Manager) string {
	c.t.Helper()
	var found []string
	for _, name := range c.nodes() {
		if _, stat, _ := c.srv.Get(dir + "/" + name); stat.EphemeralOwner == session(m) {
			found = append(found, dir+"/"+name)
		}
	}
	if len(found) != 1 {
		c.t.Fatalf("%d nodes of %s: %v", len(found), m.cfg.Label, found)
	}
	return found[0]
}

// sequenceOf returns the number at the end of a node's name.
func sequenceOf(path string) string { return path[len(path)-10:] }

// stopAt makes the server stop before the nth request of kind op that m sends
// from now on. It replaces the server's hook: one stop at a time.
func (c *cluster) stopAt(m *Manager, op zktest.Op, nth int32) *stop {
	s := &stop{arrived: make(chan struct{}), resume: make(chan struct{})}
	var left atomic.Int32
	left.Store(nth)
	id := session(m)
	c.srv.OnRequest(func(session int64, o zktest.Op, _ string) {
		if session == id && o == op && left.Add(-1) == 0 {
			close(s.arrived)
			<-s.resume
		}
	})
	return s
}

// lossAt has the server lose m's next request of kind op for a path in the queue
// of the lock "jobs", or the answer to it.
func (c *cluster) lossAt(lose func(*zktest.Faults, zktest.Match) *zktest.Fault, m *Manager, op zktest.Op) *zktest.Fault {
	return lose(c.srv.Faults(), zktest.Match{Op: op, Session: session(m), Path: dir, Times: 1})
}

// roundOf returns the round that the holder of h came to; h is not one of a Mutex.
func roundOf(h Hold) *round { return ioOf(h).round }

// ioOf returns the I/O of that round.
func ioOf(h Hold) *roundIO { return h.share.promises().io }
