// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A reader queues behind our own writer, and the answer is lost. Until that is
// found out, our writer comes in: the reader's node is not at its place, and
// whoever is queued between the two is not to be passed.
func TestReaderQueuedByARequestWhoseAnswerIsLost(t *testing.T) {
	bubble(t, func(c *cluster) {
		ref := newRWReferee(c.t)
		first, p, other := c.rw("first"), c.rw("p"), c.rw("other")
		h := mustLock(c.t, first.Writer())
		write := p.Writer().Acquire(c.t.Context())
		synctest.Wait()
		next := other.Writer().Acquire(c.t.Context())
		synctest.Wait()

		// The first try to find out gets lost, too, so that our writer is in
		// before the second.
		at := zktest.Match{Session: session(p.writer.m), Path: dir, Op: zktest.OpMulti}
		c.srv.Faults().DropReply(at)
		at.Op = zktest.OpSync
		unknown := c.srv.Faults().DropRequest(at)
		multi := c.barrier().hold(p.writer.m, zktest.OpMulti, 1)
		read := p.Reader().Acquire(c.t.Context())
		multi.await(c.t)
		mustRelease(c.t, h)
		multi.pass()
		later(time.Second)
		if unknown.Hits() != 1 {
			c.t.Fatal("nothing was to be found out")
		}
		leaveWrite, leaveRead := ref.enterHeld(write), ref.enterHeld(read)
		if w, r := grantOf(c.t, write), grantOf(c.t, read); sequenceOf(w.Path) != sequenceOf(r.Path) || w.Token != r.Token {
			c.t.Errorf("the reader is in with %+v, the writer with %+v", r, w)
		}
		leaveWrite()
		mustRelease(c.t, write)
		wantWaiting(c.t, "another's writer", next)
		leaveRead()
		mustRelease(c.t, read)
		synctest.Wait()
		defer ref.enterHeld(next)()
		mustRelease(c.t, next)
		c.wantNodes(0)
	})
}

// waiting are locks that wait, each behind the only contender ahead.
var waiting = []struct {
	what string
	take func(c *cluster) (ahead, lock *Lock)
}{
	{"a mutex", func(c *cluster) (ahead, lock *Lock) { return c.lock("first"), c.lock("p") }},
	{"a reader", func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Writer(), c.rw("p").Reader() }},
	{"a writer", func(c *cluster) (ahead, lock *Lock) { return c.rw("first").Reader(), c.rw("p").Writer() }},
}

// nodeOf returns the one node in the queue that is m's.
func (c *cluster) nodeOf(m *Manager) string {
	c.t.Helper()
	var found []string
	for _, name := range c.nodes() {
		if m.owns(name) {
			found = append(found, dir+"/"+name)
		}
	}
	if len(found) != 1 {
		c.t.Fatalf("%d nodes of %s: %v", len(found), m.cfg.Label, found)
	}
	return found[0]
}

// Somebody deletes the node of a round that waits. The round makes sure that it
// is gone, and that takes more than one try: whatever happens meanwhile, it is
// not granted on a node that it does not have.
func TestF028_NoGrantOnANodeThatIsGone(t *testing.T) {
	for _, test := range waiting {
		for _, lose := range []struct {
			what string
			by   func(*zktest.Faults, zktest.Match) *zktest.Fault
		}{
			{"the request is lost", (*zktest.Faults).DropRequest},
			{"the answer is lost", (*zktest.Faults).DropReply},
		} {
			t.Run(test.what+"/"+lose.what, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					ahead, l := test.take(c)
					first := mustLock(c.t, ahead)
					h := l.Acquire(c.t.Context())
					synctest.Wait()
					next := c.lock("next").Acquire(c.t.Context())
					later(time.Second) // its node is looked after from now on

					del := c.barrier().hold(l.m, zktest.OpDelete, 1)
					lose.by(c.srv.Faults(), zktest.Match{Op: zktest.OpDelete, Session: session(l.m)})
					c.remove(c.nodeOf(l.m))
					del.await(c.t)
					mustRelease(c.t, first) // the news of it waits behind the lost answer
					synctest.Wait()
					wantHeld(c.t, "who is next", next)
					del.pass()
					later(time.Second)
					pending(c.t, test.what, h.Granted())
					mustRelease(c.t, next)
					later(time.Second)
					wantHeld(c.t, test.what, h)
					if g := grantOf(c.t, h); !c.srv.Exists(g.Path) {
						c.t.Errorf("granted on %s, which does not exist", g.Path)
					}
					mustRelease(c.t, h)
					c.wantNodes(0)
				})
			})
		}
	}
}

// During an outage our own node is deleted, and the only contender ahead goes.
// The news of both come in no order afterwards, and that of our own may come
// too late to keep the round from being granted: so it has to look.
func TestNoGrantAfterAnOutageWithoutALook(t *testing.T) {
	for _, test := range waiting {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				ahead, l := test.take(c)
				first := mustLock(c.t, ahead)
				h := l.Acquire(c.t.Context())
				synctest.Wait()
				next := c.lock("next").Acquire(c.t.Context())
				synctest.Wait()

				refuse := c.srv.Faults().Refuse()
				c.srv.Faults().Cut(session(l.m))
				synctest.Wait()
				own := c.nodeOf(l.m)
				c.remove(own)
				mustRelease(c.t, first)
				synctest.Wait()
				wantHeld(c.t, "who is next", next)
				// As late as can be: the news of our own node never come.
				l.m.client.Unwatch(own, h.round.io())
				refuse.Remove()
				later(time.Second)
				pending(c.t, test.what, h.Granted())
				mustRelease(c.t, next)
				later(time.Second)
				wantHeld(c.t, test.what, h)
				mustRelease(c.t, h)
			})
		})
	}
}

// The answer to the request that queues is lost, and the node that it made is
// deleted by somebody before it has been looked at twice.
func TestAdoptedNodeIsDeleted(t *testing.T) {
	for looks := 1; looks <= 2; looks++ {
		t.Run(fmt.Sprintf("before look %d", looks), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("p")
				mustRelease(c.t, mustLock(c.t, l)) // the directory is known from now on
				blocker := mustLock(c.t, c.lock("first"))

				lost := c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(l.m)})
				get := c.barrier().hold(l.m, zktest.OpGetData, looks)
				h := l.Acquire(c.t.Context())
				<-lost.Hit()
				later(time.Second)
				get.await(c.t)
				c.remove(c.nodeOf(l.m))
				count := c.srv.Requests(zktest.OpGetData)
				get.pass()
				later(10 * time.Millisecond)
				if asked := c.srv.Requests(zktest.OpGetData) - count; asked > 10 {
					c.t.Errorf("%d reads for it", asked)
				}
				wantWaiting(c.t, "the lock", h)
				c.wantNodes(2)
				mustRelease(c.t, blocker)
				synctest.Wait()
				wantHeld(c.t, "the lock", h)
				mustRelease(c.t, h)
				c.wantNodes(0)
			})
		})
	}
}
