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

// Faults while a process holds a lock, by their numbers in docs/faults.md. More of
// them are scripts: testdata/scripts/hold.txt.

// A follower that is cut off from its leader answers pings and reads, but no
// writes, and the leader expires the session. Answers to pings and reads, even
// ones that show the lock's node, do not keep the lock.
func TestF042_PingsAndReadsProveNothing(t *testing.T) {
	answersEverythingButWrites(t, func(m *Manager, node string) error {
		_, _, err := m.client.Session().Get(node)
		return err
	})
}

// Nor do answers to sync, which a leader that is cut off from its followers still
// gives.
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
		expect(c.t, time.Since(start) <= 5*time.Second,
			"told after %v, want half the session timeout at most", time.Since(start))
		wantErr(c.t, "the holder", h.Err(), ErrLost)
		<-done
		s := a.m.client.Session()
		expect(c.t, answered.Load() >= 20,
			"%d answers: the server should have looked healthy", answered.Load())
		c.srv.Faults().Clear()
		c.srv.Faults().Cut(s.ID()) // ends the call that is waiting for an answer
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		mustRelease(c.t, mustLock(c.t, a))
	})
}

// A server without a leader can serve reads to clients that ask for that. This
// client does not, so the server turns it away: an ordinary outage.
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
		expect(c.t, !asked.Load() && refusals.Load() >= 4,
			"clients asked for read-only servers: %t; %d refusals", asked.Load(), refusals.Load())
	})
}

// readOnlyServer is a connection to a server that, while read-only, accepts only
// clients whose connect request says that they accept read-only service.
type readOnlyServer struct {
	net.Conn
	is       bool
	greeted  bool
	asked    *atomic.Bool // a client accepted it
	refusals *atomic.Int64
}

func (r *readOnlyServer) Write(p []byte) (int, error) {
	if !r.greeted {
		r.greeted = true
		// Length, version, last zxid, timeout, session, password; then the flag,
		// which old clients omit.
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

// User callbacks for grants and losses block. They hold up no other callback, and
// the manager keeps receiving events.
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
			expect(c.t, isClosed(h.Lost()) && ctx.Err() != nil, "the loss was not reported")
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
