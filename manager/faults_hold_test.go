// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests are about faults while a process holds a lock; docs/faults.md has
// the catalogue.

// The connection is lost while the lock is held. Until the lease ends nobody is
// told anything, newcomers enter, and nothing was lost if the connection is back
// before that; the lock is given up as if nothing had happened.
func TestF040_ConnectionLostWhileHeld(t *testing.T) {
	for _, back := range []bool{true, false} {
		bubble(t, func(c *cluster) {
			a, b := c.lock("a", func(cfg *Config) { cfg.Tenure = -1 }), c.lock("b") // the gate stays open
			h := mustLock(c.t, a)
			g := grantOf(c.t, h)
			w := b.Acquire(c.t.Context())
			later(time.Minute)
			refused := c.srv.Faults().Refuse()
			c.srv.Faults().Cut(session(a.m))
			c.srv.Faults().Cut(session(b.m))
			start := time.Now()
			// The lease has a third of the session timeout to go, or more.
			later(3 * time.Second)
			wantErr(c.t, "the holder", h.Err(), nil)
			more, err := a.Lock(c.t.Context())
			wantErr(c.t, "a newcomer", err, nil)
			again, err := h.Reenter()
			wantErr(c.t, "the holder, again", err, nil)
			for _, h := range []Hold{more, again} {
				wantErr(c.t, "unlock of one of several", h.Unlock(c.t.Context()), nil)
			}
			if back {
				refused.Remove()
				later(time.Minute)
				wantErr(c.t, "the holder", h.Err(), nil)
				if isClosed(h.Lost()) || grantOf(c.t, h) != g {
					c.t.Error("something was lost")
				}
				pending(c.t, "the waiter", w.Granted())
				mustRelease(c.t, h)
				synctest.Wait()
				wantErr(c.t, "the waiter", w.Err(), nil)
				mustRelease(c.t, w)
				return
			}
			<-h.Lost()
			if d := time.Since(start); d > 5*time.Second {
				c.t.Errorf("told after %v, want half the session timeout at most", d)
			}
			wantErr(c.t, "the holder", h.Err(), ErrLost)
			refused.Remove()
			<-w.Granted().Done()
			mustRelease(c.t, w)
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		})
	}
}

// A server that answers everything but writes is one that is cut off from its
// leader, and the leader, which does not hear of the session, ends it. Pings that
// are answered, reads that are answered, and the lock's node in those answers do
// not keep the lock.
func TestF042_PingsAndReadsProveNothing(t *testing.T) {
	answersEverythingButWrites(t, func(m *Manager, node string) error {
		_, _, err := m.client.Session().Get(node)
		return err
	})
}

// Nor does sync, which a leader that is cut off from its followers answers.
func TestF043_SyncProvesNothing(t *testing.T) {
	answersEverythingButWrites(t, func(m *Manager, node string) error { return m.client.Session().Sync(node) })
}

func answersEverythingButWrites(t *testing.T, ask func(m *Manager, node string) error) {
	t.Helper()
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		h := mustLock(c.t, a)
		node := grantOf(c.t, h).Path
		later(time.Minute)
		var answered atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !isClosed(h.Lost()) {
				if ask(a.m, node) == nil {
					answered.Add(1)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		c.srv.Faults().SwallowReply(zktest.Match{Op: zktest.OpMulti, Session: session(a.m), Times: 1 << 30})
		start := time.Now()
		<-h.Lost()
		if d := time.Since(start); d > 5*time.Second {
			c.t.Errorf("told after %v, want half the session timeout at most", d)
		}
		wantErr(c.t, "the holder", h.Err(), ErrLost)
		<-done
		s := a.m.client.Session()
		if answered.Load() < 20 {
			c.t.Errorf("%d answers: this was about a server that gives them", answered.Load())
		}
		c.srv.Faults().Clear()
		c.srv.Faults().Cut(s.ID()) // frees the call that waits for an answer
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		mustRelease(c.t, mustLock(c.t, a))
	})
}

// A server without its leader can serve reads to those who ask for that. We do
// not, so it sends us away; it is an outage like any other.
func TestF052_ReadOnlyServer(t *testing.T) {
	bubble(t, func(c *cluster) {
		var readOnly, asked atomic.Bool
		var refusals atomic.Int64
		a := c.lock("a", func(cfg *Config) {
			dial := cfg.Dialer
			cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &readOnlyServer{Conn: conn, is: readOnly.Load(), asked: &asked, refusals: &refusals}, nil
			}
		})
		for _, outage := range []time.Duration{3 * time.Second, 30 * time.Second} {
			h := mustLock(c.t, a)
			later(time.Minute)
			readOnly.Store(true)
			c.srv.Faults().Cut(session(a.m))
			later(outage)
			if outage < 4*time.Second {
				wantErr(c.t, "within the lease", h.Err(), nil)
			} else {
				wantErr(c.t, "after the lease", h.Err(), ErrLost)
			}
			w := a.Acquire(c.t.Context())
			readOnly.Store(false)
			if outage < 4*time.Second {
				later(time.Minute)
				wantErr(c.t, "within the lease", h.Err(), nil)
				mustRelease(c.t, h)
			} else {
				wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
			}
			<-w.Granted().Done()
			mustRelease(c.t, w)
		}
		if asked.Load() || refusals.Load() < 4 {
			c.t.Errorf("read-only servers were asked for: %t; %d of them sent us away", asked.Load(), refusals.Load())
		}
	})
}

// readOnlyServer is a connection to a server that, while it is read-only, takes
// only clients whose connect request says that they can do with that.
type readOnlyServer struct {
	net.Conn
	is       bool
	greeted  bool
	asked    *atomic.Bool // somebody said so
	refusals *atomic.Int64
}

func (r *readOnlyServer) Write(p []byte) (int, error) {
	if !r.greeted {
		r.greeted = true
		// Length, version, last transaction, timeout, session, password; then
		// the flag, which old clients leave out.
		rest := p[4+4+8+4+8:]
		rest = rest[4+binary.BigEndian.Uint32(rest):]
		if len(rest) > 0 && rest[0] != 0 {
			r.asked.Store(true)
		} else if r.is {
			r.refusals.Add(1)
			return len(p), r.Conn.Close()
		}
	}
	return r.Conn.Write(p)
}

// The servers are away, and come back within the lease: the session lives, and
// so do the lock and the place of who waits for it. It costs no request but what
// the heartbeat makes.
func TestF053_OutageWithinTheLease(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		g := grantOf(c.t, h)
		w := b.Acquire(c.t.Context())
		later(time.Minute)
		for range 20 {
			c.takeCounts()
			c.srv.Faults().RefuseFor(2 * time.Second)
			c.srv.Faults().CutAll()
			later(4 * time.Second)
			wantErr(c.t, "the holder", h.Err(), nil)
			wantErr(c.t, "the waiter", w.Err(), ErrNotGranted)
			c.wantCounts("an outage", map[verb]int{createNode: 0, deleteNode: 0})
		}
		if isClosed(h.Lost()) || grantOf(c.t, h) != g || len(c.srv.Expired()) != 0 {
			c.t.Error("something was lost")
		}
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		mustRelease(c.t, w)
	})
}

// Somebody's functions that are told of grants and losses block: nobody else is
// held up by them, and the manager goes on hearing of what happens.
func TestF057_BlockedListeners(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		free := make(chan struct{})
		var blocked sync.WaitGroup
		block := func() { defer blocked.Done(); <-free }
		h := mustLock(c.t, a)
		blocked.Add(3)
		h.Granted().OnDone(func(Grant, error) { block() })
		h.Released().OnDone(func(struct{}, error) { block() })
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		context.AfterFunc(ctx, block)
		for range 3 {
			c.expire(a.m)
			wantErr(c.t, "the holder", h.Err(), ErrLost)
			if !isClosed(h.Lost()) || ctx.Err() == nil {
				c.t.Error("not told of the loss")
			}
			h.Release()
			h = mustLock(c.t, b)
			w := a.Acquire(c.t.Context())
			synctest.Wait()
			mustRelease(c.t, h)
			synctest.Wait()
			wantErr(c.t, "the waiter", w.Err(), nil)
			h = w
			ctx, cancel = h.Context(c.t.Context())
			defer cancel()
		}
		mustRelease(c.t, h)
		close(free)
		blocked.Wait()
	})
}
