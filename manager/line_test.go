// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// wantSoon checks that w is granted when h is released, and not only when the manager
// looks after its waiters.
func (c *cluster) wantSoon(h, w Hold) {
	c.t.Helper()
	began := time.Now()
	mustRelease(c.t, h)
	<-w.Granted().Done()
	expect(c.t, time.Since(began) <= 200*time.Millisecond,
		"granted %v after the release", time.Since(began))
	mustRelease(c.t, w)
}

// oneWorker leaves a manager one worker for fetches.
func oneWorker(cfg *Config) { cfg.Workers = 9 }

// The workers are busy when a waiter's look at its own node is due, and then there is
// news of the contender ahead, which uses up that watch: the waiter looks at both.
func TestNewsTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	each(t, map[string]func(c *cluster) (a, b *Lock){
		"mutex":                 func(c *cluster) (a, b *Lock) { return c.lock("a"), c.lock("b", oneWorker) },
		"reader behind a write": func(c *cluster) (a, b *Lock) { return c.rw("a").Writer(), c.rw("b", oneWorker).Reader() },
	}, func(c *cluster, take func(c *cluster) (a, b *Lock)) {
		a, b := take(c)
		c.cycle(a)
		h, w := mustLock(c.t, a), c.acquire(b)
		done := make(busy)
		b.m.client.Submit(zkio.Fetches, done)
		later(defaultTenure + time.Millisecond) // its look is due
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		synctest.Wait()
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// A waiter's second look fails, and the retry is due together with the look at its
// own node.
func TestRetryTogetherWithTheLookAtTheOwnNode(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b", oneWorker)
		c.cycle(a)
		h, w := mustLock(c.t, a), c.acquire(b)
		later(defaultTenure - 4*time.Millisecond)
		f := c.lossAt(dropReply, b.m, zktest.OpGetChildren2)
		wantErr(c.t, "set", c.srv.Set(c.nodeOf(a.m), []byte("hello")), nil)
		later(time.Millisecond)
		done := make(busy)
		b.m.client.Submit(zkio.Fetches, done)
		later(time.Second) // the look is due, and then the retry
		if f.Hits() != 1 {
			c.t.Fatal("no answer was lost")
		}
		close(done)
		synctest.Wait()
		c.wantSoon(h, w)
	})
}

// The Stat of a directory says which number its next child gets.
func TestNextNumber(t *testing.T) {
	everywhere(t, func(s *backend) {
		m := s.open("a")
		session, dir := m.client.Session(), m.cfg.Root+"/numbers"
		wantErr(s.t, "create", session.EnsureDir(dir, nil), nil)
		for i := range 20 {
			_, stat, err := session.Children(dir)
			wantErr(s.t, "list", err, nil)
			next := queue.NextNumber(stat.Cversion, stat.NumChildren)
			n := zkio.NewNode(dir, "lock-", func() string { return hex32 }, nil, nil, nil)
			wantErr(s.t, "create", n.Create(session), nil)
			if sequenceOf(n.Name()) != fmt.Sprintf("%010d", next) {
				s.t.Fatalf("after %d children: %s, expected the number %d", i, n.Name(), next)
			}
			if i%3 != 0 {
				wantErr(s.t, "delete", n.Delete(session), nil)
			}
			if i%4 == 0 {
				wantErr(s.t, "create", session.Create(fmt.Sprintf("%s/x%d", dir, i), nil, nil), nil)
			}
		}
	})
}
