// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// wantSoon checks that w is granted when h is released, and not only when the
// rotation looks.
func (c *cluster) wantSoon(h, w Hold) {
	c.t.Helper()
	began := time.Now()
	mustRelease(c.t, h)
	<-w.Granted().Done()
	if d := time.Since(began); d > 200*time.Millisecond {
		c.t.Errorf("granted %v after the release", d)
	}
	mustRelease(c.t, w)
}

// The look at its own node and news of the one ahead, which use up that watch, come
// together, since all who fetch are busy: both are looked at.
func TestNewsTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	for _, kind := range []string{"mutex", "reader behind a write"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				one := func(cfg *Config) { cfg.Workers = 9 }
				var a, b *Lock
				if kind == "mutex" {
					a, b = c.lock("a"), c.lock("b", one)
				} else {
					a, b = c.rw("a").Writer(), c.rw("b", one).Reader()
				}
				mustRelease(c.t, mustLock(c.t, a))
				h := mustLock(c.t, a)
				w := b.Acquire(c.t.Context())
				synctest.Wait()
				done := make(chan struct{})
				b.m.client.Submit(zkio.Fetches, busy(done))
				later(defaultTenure + time.Millisecond) // its ownLook is queued behind the busy one
				wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
				synctest.Wait()
				close(done)
				synctest.Wait()
				c.wantSoon(h, w)
			})
		})
	}
}

// A wait's second look fails, and its retry comes together with the look at its own node.
func TestRetryTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b", func(cfg *Config) { cfg.Workers = 9 })
		mustRelease(c.t, mustLock(c.t, a))
		h := mustLock(c.t, a)
		w := b.Acquire(c.t.Context())
		synctest.Wait()
		later(defaultTenure - 4*time.Millisecond)
		f := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpGetChildren2, Session: session(b.m), Path: dir})
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		synctest.Wait()
		later(time.Millisecond)
		done := make(chan struct{})
		b.m.client.Submit(zkio.Fetches, busy(done))
		later(time.Second) // ownLook is due, and then the retry
		if f.Hits() != 1 {
			c.t.Fatal("no answer was lost")
		}
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// The Stat of a directory says which number its next child is given, here and on a
// real server.
func TestNextNumber(t *testing.T) {
	check := func(t *testing.T, m *Manager, dir string) {
		s := m.client.Session()
		wantErr(t, "create", s.EnsureDir(dir, m.cfg.ACL), nil)
		for i := range 20 {
			_, stat, err := s.Children(dir)
			wantErr(t, "list", err, nil)
			next := queue.NextNumber(stat.Cversion, stat.NumChildren)
			n := zkio.NewNode(dir, "lock-", m.guid, nil, m.cfg.ACL, nil)
			wantErr(t, "create", n.Create(s), nil)
			if c, ok := queue.ParseName(n.Name()); !ok || c.Seq != next {
				t.Fatalf("after %d children: %s, expected the number %d", i, n.Name(), next)
			}
			if i%3 != 0 {
				wantErr(t, "delete", n.Delete(s), nil)
			}
			if i%4 == 0 {
				wantErr(t, "create", s.Create(fmt.Sprintf("%s/x%d", dir, i), nil, m.cfg.ACL), nil)
			}
		}
	}
	t.Run("embedded", func(t *testing.T) {
		bubble(t, func(c *cluster) { check(c.t, c.open("a"), "/numbers") })
	})
	t.Run("real", func(t *testing.T) {
		r := newReal(t, realzk.Shared(t))
		m := r.open("a")
		check(t, m, m.cfg.Root+"/numbers")
	})
}
