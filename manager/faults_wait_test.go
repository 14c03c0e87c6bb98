// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
)

// Faults while a process waits, by their numbers in docs/faults.md. More of them
// are scripts: testdata/scripts/wait.txt.

// During a wait of many hours, with many reconnects, watches accumulate neither in
// the client nor in the server.
func TestF035_LongWait(t *testing.T) {
	bubble(t, func(c *cluster) {
		cuts := racing.Fewer(300)
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		watches, onServer := a.m.client.Stats().Watches, c.srv.AllWatches()
		if watches != 3 { // the contender ahead, our own node, and the mailbox
			c.t.Errorf("%d watches, want 3", watches)
		}
		for range cuts {
			c.srv.Faults().Cut(session(a.m))
			later(time.Minute)
		}
		if n := a.m.client.Stats(); n.Watches != watches || n.Reconnects != uint64(cuts) {
			c.t.Errorf("%d watches after %d reconnects, %d before", n.Watches, n.Reconnects, watches)
		}
		if n := c.srv.AllWatches(); n != onServer {
			c.t.Errorf("the server has %+v, had %+v", n, onServer)
		}
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the waiter", w.Err(), nil)
		mustRelease(c.t, w)
	})
}

// A thousand readers in ten processes wait for one writer. All enter when it
// leaves, and each process lists the queue at most once.
func TestF039_Herd(t *testing.T) {
	const processes, goroutines = 10, 100
	bubble(t, func(c *cluster) {
		write := mustLock(c.t, c.rw("writer").Writer())
		var holds []Hold
		for p := range processes {
			l := c.rw(fmt.Sprint(p)).Reader()
			for range goroutines {
				holds = append(holds, l.Acquire(c.t.Context()))
			}
		}
		synctest.Wait()
		c.wantNodes(1 + processes)
		c.takeCounts()
		mustRelease(c.t, write)
		synctest.Wait()
		for _, h := range holds {
			wantHeld(c.t, "a reader", h)
		}
		if got := c.takeCounts(); got[list] > processes || got[lookAtNode]+got[lookAtDir] > 0 || got[createNode]+got[prove]+got[other] > processes {
			c.t.Errorf("requests: %v", got)
		}
		for _, h := range holds {
			h.Release()
		}
		synctest.Wait()
		c.wantNodes(0)
	})
}

// The news of the contender ahead is lost on the way: the waiter looks by itself
// once in a while.
func TestF025_WatchIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		next := b.Acquire(c.t.Context())
		later(time.Minute)
		ahead := ioOf(next).watching.ahead[0] // no step runs that could change it
		b.m.client.Unwatch(ahead.path, ahead)
		mustRelease(c.t, h)
		later(time.Second)
		pending(c.t, "the grant, whose news is lost", next.Granted())
		later(2 * rotationTimeout)
		c.held(next)
		mustRelease(c.t, next)
	})
}

// The same with the news of the reader that an upgrade waits for.
func TestF025_WatchOfAnUpgradeIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		reader := c.acquire(c.rw("other").Reader())
		p := c.rw("p")
		up := c.acquire(p.Upgradable())
		u := c.upgrade(up)
		later(time.Minute)
		inTheWay := upgradeOf(ioOf(up)).inTheWay // no step runs that could change it
		p.writer.m.client.Unwatch(inTheWay.path, inTheWay)
		c.unlock(reader)
		later(time.Second)
		u.waits()
		later(2 * rotationTimeout)
		u.done()
		c.unlock(up)
	})
}
