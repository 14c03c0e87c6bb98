// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A reader queues behind its process's own writer, and the answer is lost. The
// writer comes in before that is resolved: the reader's node is not at the writer's
// place, and the contender queued between the two must not be passed.
func TestReaderQueuedByARequestWhoseAnswerIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		ref := newReferee(c.t)
		first, p, other := c.rw("first"), c.rw("p"), c.rw("other")
		h := mustLock(c.t, first.Writer())
		write, next := c.acquire(p.Writer()), c.acquire(other.Writer())

		// The first attempt to resolve it is lost, too, so that the writer is in
		// before the second.
		c.lossAt(dropReply, p.writer.m, zktest.OpMulti)
		unknown := c.lossAt(dropRequest, p.writer.m, zktest.OpSync)
		multi := c.stopAt(p.writer.m, zktest.OpMulti, 1)
		read := p.Reader().Acquire(c.t.Context())
		multi.reached()
		mustRelease(c.t, h)
		multi.goOn()
		later(time.Second)
		if unknown.Hits() != 1 {
			c.t.Fatal("there was nothing to resolve")
		}
		ref.enter(p.writer.m, write)
		ref.enter(p.writer.m, read)
		if w, r := grantOf(c.t, write), grantOf(c.t, read); sequenceOf(w.Path) != sequenceOf(r.Path) || w.Token != r.Token {
			c.t.Errorf("the reader is in with %+v, the writer with %+v", r, w)
		}
		ref.leave(write)
		c.unlock(write)
		c.waiting(next)
		ref.leave(read)
		c.unlock(read)
		c.held(next)
		ref.enter(other.writer.m, next)
		c.unlock(next)
		c.wantNodes(0)
	})
}

// waiting are locks that wait, each behind the only contender ahead.
var waiting = map[string]func(c *cluster) (ahead, lock *Lock){
	"a mutex":  func(c *cluster) (ahead, lock *Lock) { return c.lock("first"), c.lock("p") },
	"a reader": func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Writer(), c.rw("p").Reader() },
	"a writer": func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Reader(), c.rw("p").Writer() },
}

// The node of a waiting round is deleted. The round verifies that it is gone, which
// takes more than one attempt: whatever happens meanwhile, it is not granted on a
// node that it does not have.
func TestF028_NoGrantOnANodeThatIsGone(t *testing.T) {
	for what, lose := range map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{"request": dropRequest, "answer": dropReply} {
		t.Run("the "+what+" is lost", func(t *testing.T) {
			each(t, waiting, func(c *cluster, take func(c *cluster) (ahead, lock *Lock)) {
				ahead, l := take(c)
				first := mustLock(c.t, ahead)
				h, next := c.acquire(l), c.acquire(c.lock("next"))
				later(time.Second) // h has looked at its node, and watches it

				del := c.stopAt(l.m, zktest.OpDelete, 1)
				lose(c.srv.Faults(), zktest.Match{Op: zktest.OpDelete, Session: session(l.m)})
				c.remove(c.nodeOf(l.m))
				del.reached()
				mustRelease(c.t, first) // the news of it waits behind the lost answer
				c.held(next)
				del.goOn()
				later(time.Second)
				c.waiting(h)
				c.unlock(next)
				later(time.Second)
				c.held(h)
				if g := grantOf(c.t, h); !c.srv.Exists(g.Path) {
					c.t.Errorf("granted on %s, which does not exist", g.Path)
				}
				c.unlock(h)
				c.wantNodes(0)
			})
		})
	}
}

// During an outage a waiter's node is deleted, and the only contender ahead leaves.
// The news of the two arrive in no particular order, that of its own node perhaps
// too late to prevent the grant: so the waiter has to look.
func TestNoGrantAfterAnOutageWithoutALook(t *testing.T) {
	each(t, waiting, func(c *cluster, take func(c *cluster) (ahead, lock *Lock)) {
		ahead, l := take(c)
		first := mustLock(c.t, ahead)
		h, next := c.acquire(l), c.acquire(c.lock("next"))

		refuse := c.srv.Faults().Refuse()
		c.srv.Faults().Cut(session(l.m))
		synctest.Wait()
		own := c.nodeOf(l.m)
		c.remove(own)
		mustRelease(c.t, first)
		c.held(next)
		l.m.client.Unwatch(own, h.round.trip()) // the latest possible news: none
		refuse.Remove()
		later(time.Second)
		c.waiting(h)
		c.unlock(next)
		later(time.Second)
		c.held(h)
		c.unlock(h)
	})
}

// The answer to the request that queues is lost, and the node that it made is
// deleted before the waiter has looked at it twice.
func TestAdoptedNodeIsDeleted(t *testing.T) {
	for looks := int32(1); looks <= 2; looks++ {
		t.Run(fmt.Sprintf("before look %d", looks), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("p")
				c.cycle(l) // the directory is known from now on
				blocker := mustLock(c.t, c.lock("first"))

				lost := c.lossAt(dropReply, l.m, zktest.OpMulti)
				get := c.stopAt(l.m, zktest.OpGetData, looks)
				h := l.Acquire(c.t.Context())
				<-lost.Hit()
				later(time.Second)
				get.reached()
				c.remove(c.nodeOf(l.m))
				before := c.srv.Requests(zktest.OpGetData)
				get.goOn()
				later(10 * time.Millisecond)
				if n := c.srv.Requests(zktest.OpGetData) - before; n > 10 {
					c.t.Errorf("%d reads for it", n)
				}
				c.waiting(h)
				c.wantNodes(2)
				c.unlock(blocker)
				c.held(h)
				c.unlock(h)
				c.wantNodes(0)
			})
		})
	}
}
