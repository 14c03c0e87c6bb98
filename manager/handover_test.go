// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests are about a process that gives a lock up while other goroutines of it
// wait for the next turn: it leaves the queue and queues again in one request.

// waitBehind returns a hold that waits for the round after h's, as newcomers do when
// a tenure has closed the gate.
func waitBehind(t *testing.T, h Hold) (next Hold) {
	t.Helper()
	h.promises().signals().revokers.Add(1) // a reason for it: without one, the next step would open the gate
	h.share.flags.Set(state.GateClosed)
	next = h.Lock().Acquire(t.Context())
	if next.Granted() == h.Granted() {
		t.Fatal("it entered")
	}
	return next
}

// handOver releases h, for which another hold of its lock waits, and returns that.
func (c *cluster) handOver(h Hold) (next Hold) {
	c.t.Helper()
	next = waitBehind(c.t, h)
	mustRelease(c.t, h)
	synctest.Wait()
	return next
}

// wantNext checks that h is held with a token above before, which is its node's
// czxid, and returns it.
func (c *cluster) wantNext(h Hold, before uint64) uint64 {
	c.t.Helper()
	c.held(h)
	g := grantOf(c.t, h)
	expect(c.t, g.Token > before && g.Token == c.czxid(g.Path),
		"%s: token %d after %d; the czxid of %s is %d", describe(h), g.Token, before, g.Path, c.czxid(g.Path))
	return g.Token
}

// queueUp returns a hold of each of so many processes, in the order of the queue.
func (c *cluster) queueUp(processes int) (holds []Hold, ms []*Manager) {
	for p := range processes {
		h := c.acquire(c.lock(strconv.Itoa(p)))
		holds, ms = append(holds, h), append(ms, h.Lock().m)
	}
	return holds, ms
}

// On a real server, by the client's own count: acquiring a lock that is free is one
// request and releasing it another, and handing it over within a process is one.
func TestRealServerRequests(t *testing.T) {
	s := realBackend(t, realzk.Shared(t))
	m := s.open("a")
	rw := readWrite(t, m, "rw")
	for _, l := range []*Lock{exclusive(t, m, "jobs"), rw.Reader(), rw.Writer()} {
		const times = 20
		mustRelease(t, mustLock(t, l)) // makes the directory
		for m.client.Stats().Sent["exists"] == 0 {
			<-time.After(time.Millisecond) // the process looks for questions, once, when it has made its first node
		}
		before := m.client.Stats().Sent
		for range times {
			mustRelease(t, mustLock(t, l))
		}
		after := m.client.Stats().Sent
		for op, want := range map[string]uint64{"multi": times, "delete": times, "getData": 0, "getChildren2": 0, "create": 0, "sync": 0, "exists": 0} {
			expect(t, after[op]-before[op] == want,
				"%s: %d × %s for %d × Lock and Unlock, want %d", l.kind, after[op]-before[op], op, times, want)
		}
		h := mustLock(t, l)
		token := grantOf(t, h).Token
		var slow int // hand-overs that took so long that the process had to look
		for range times {
			before := m.client.Stats().Sent
			next := waitBehind(t, h)
			mustRelease(t, h)
			g := s.granted(next)
			after := m.client.Stats().Sent
			expect(t, g.Token > token, "%s: token %d after %d", l.kind, g.Token, token)
			nodes := s.queue(l)
			expect(t, len(nodes) == 1 && strings.HasSuffix(g.Path, "/"+nodes[0]),
				"%s: the queue is %v, the node %s", l.kind, nodes, g.Path)
			expect(t, after["delete"]-before["delete"] == 0,
				"%s: %d × delete", l.kind, after["delete"]-before["delete"])
			if after["multi"]-before["multi"] != 1 || after["getChildren2"] != before["getChildren2"] {
				slow++
			}
			h, token = next, g.Token
		}
		expect(t, slow <= times/2, "%s: %d of %d took more than one request", l.kind, slow, times)
		mustRelease(t, h)
	}
}

// Where processes pass a lock around, a grant is one write and four reads at most,
// and none of these lies between a release and the next grant. If the holds take
// time, the next holder looks at its own node as well if its last look at the queue
// was 100 ms ago.
func TestHandRoundCost(t *testing.T) {
	type round struct{ processes, ms, reads int }
	eachOf(t, []round{
		{2, 0, 2}, {3, 0, 3}, {10, 0, 4},
		{2, 60, 3}, {2, 90, 3}, {3, 40, 4}, {3, 60, 4}, {3, 90, 4}, {10, 60, 4}, {10, 90, 4},
	}, func(c *cluster, r round) {
		holds, ms := c.queueUp(r.processes)
		work := func() { later(time.Duration(r.ms) * time.Millisecond) }
		var token uint64
		turn := func() {
			c.t.Helper()
			token = c.wantNext(holds[0], token)
			work()
			holds = append(holds[1:], c.handOver(holds[0]))
		}
		for range 3 * r.processes { // until each has queued like this
			turn()
		}
		n := c.tally(ms...)
		for range 3 * r.processes {
			turn()
			got := n.take("a turn")
			expect(c.t, got["multi"] == 1 && len(got) <= 3 && got["getChildren2"]+got["getData"] <= r.reads,
				"a turn: %v", got)
		}
		for range r.processes {
			work()
			next := waitBehind(c.t, holds[0])
			n := c.tally(holds[1].Lock().m)
			mustRelease(c.t, holds[0])
			n.want("the process that gets the lock", "")
			holds = append(holds[1:], next)
		}
		for _, h := range holds {
			h.Release()
			synctest.Wait()
		}
		c.wantNodes(0)
	})
}

// The one request is lost, or its answer, and perhaps the request that resolves
// that as well. The release and the next grant come nevertheless, and there is one
// node.
func TestF081_LostHandOver(t *testing.T) {
	for what, take := range kinds {
		for _, recovery := range []zktest.Op{0, zktest.OpDelete, zktest.OpSync, zktest.OpGetChildren2} {
			t.Run(fmt.Sprintf("%s/%v", what, recovery), func(t *testing.T) {
				each(t, losses, func(c *cluster, loss func(*cluster, zktest.Match) *zktest.Fault) {
					l := take(c)
					h := mustLock(c.t, l)
					token := grantOf(c.t, h).Token
					next := waitBehind(c.t, h)
					f := loss(c, zktest.Match{Op: zktest.OpMulti, Session: session(l.m), Path: dir, Times: 1})
					if recovery != 0 {
						c.lossAt(dropReply, l.m, recovery)
					}
					mustRelease(c.t, h)
					later(10 * time.Second)
					wantEq(c.t, "requests that were lost", f.Hits(), 1)
					c.wantNext(next, token)
					c.wantNodes(1)
					c.unlock(next)
					c.wantNodes(0)
				})
			})
		}
	}
}

// The list behind the request that queues fails, in each way: the waiter is granted
// the lock nevertheless, and there is one node.
func TestF081_ListAlongFails(t *testing.T) {
	faults := map[string]func(f *zktest.Faults, m zktest.Match) *zktest.Fault{
		"swallow reply": (*zktest.Faults).SwallowReply, "drop reply": (*zktest.Faults).DropReply,
		"swallow request": (*zktest.Faults).SwallowRequest, "drop request": (*zktest.Faults).DropRequest,
		"throttled": func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailRequest(m, -127) },
		"marshal":   func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailReply(m, -5) },
		"moved":     func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailReply(m, -118) },
		"no node":   func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailReply(m, -101) },
		"expired":   func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.FailReply(m, -112) },
	}
	for _, handover := range []bool{false, true} {
		each(t, faults, func(c *cluster, fault func(*zktest.Faults, zktest.Match) *zktest.Fault) {
			a, b := c.lock("a"), c.lock("b")
			h := mustLock(c.t, a)
			wantErr(c.t, "beside a holder", errOf(b.TryLock(c.t.Context())), ErrLocked)
			list := zktest.Match{Op: zktest.OpGetChildren2, Session: session(b.m), Path: dir, Times: 1}
			var w Hold
			if handover {
				other := c.acquire(b)
				next := c.handOver(h) // a learns that others are there
				third := c.acquire(c.lock("third"))
				w = waitBehind(c.t, other)
				f := fault(c.srv.Faults(), list)
				other.Release()
				later(20 * time.Second)
				c.held(next)
				wantEq(c.t, "hits", f.Hits(), 1)
				next.Release()
				later(5 * time.Second)
				c.held(third)
				third.Release()
			} else {
				f := fault(c.srv.Faults(), list)
				w = b.Acquire(c.t.Context())
				later(20 * time.Second)
				wantEq(c.t, "hits", f.Hits(), 1)
				pending(c.t, "b", w.Granted())
				h.Release()
			}
			later(20 * time.Second)
			c.held(w)
			c.wantNodes(1)
			mustRelease(c.t, w)
			c.wantNodes(0)
			wantEq(c.t, "watches, with the mailbox", b.m.client.Stats().Watches, 1)
		})
	}
}

// newsFor reports a change of its node to a waiter.
func newsFor(h Hold) { ioOf(h).PathChanged("/its/node", zkio.Event{What: zkio.NodeDataChanged}) }

// While the one request is under way, a waiter hears that its node has changed. It
// looks before it takes the lock, though no other process was in the queue.
func TestNewsOfTheNextNodeDuringTheHandOver(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		token := grantOf(c.t, h).Token
		n := c.tally(l.m)
		next := waitBehind(c.t, h)
		answers := c.srv.Faults().BlockReplies(session(l.m))
		h.Release()
		synctest.Wait()
		newsFor(next)
		answers.Remove()
		n.want("the release, and the next grant", "getChildren2=1 getData=1 multi=1")
		c.wantNext(next, token)
		c.unlock(next)
	})
}

// A busy task occupies a worker until the channel is closed.
type busy chan struct{}

func (b busy) Run(*zkio.Session) { <-b }

// The next round's turn is late because all workers are busy. What the one request
// has answered is too old by then: the process lists the queue, and does not take
// the lock on a node that was deleted meanwhile.
func TestHandOverIsTooLongAgo(t *testing.T) {
	each(t, map[string]bool{"its node is there": false, "its node is deleted": true}, func(c *cluster, deleted bool) {
		l := c.lock("a", oneWorker)
		h := mustLock(c.t, l)
		token := grantOf(c.t, h).Token
		done := make(busy)
		l.m.client.Submit(zkio.Fetches, done)
		synctest.Wait()
		next := c.handOver(h)
		c.waiting(next)
		c.wantNodes(1)
		later(150 * time.Millisecond)
		n := c.tally(l.m)
		if deleted {
			c.remove(c.nodeOf(l.m))
		}
		close(done)
		if !deleted {
			n.want("its turn", "getChildren2=1")
		}
		later(time.Second)
		c.wantNext(next, token)
		c.wantNodes(1)
		c.unlock(next)
	})
}

// The directory's owner takes the right to write it away. The short way is closed
// from then on, the long one is not: the lock is released, and the next round queues
// by itself.
func TestHandOverWhereTheDirectoryMayNotBeWrittenAnyMore(t *testing.T) {
	everywhere(t, func(s *backend) {
		rest := zkio.PermCreate | zkio.PermRead | zkio.PermDelete
		l, theirs := s.lock("a"), s.lock("owner", owned(zkio.PermAll))
		mustRelease(s.t, mustLock(s.t, theirs))
		h := mustLock(s.t, l)
		for i := range 3 {
			if i == 1 {
				s.setACL(theirs.Path(), ownersACL(rest)...)
			}
			token := grantOf(s.t, h).Token
			next := waitBehind(s.t, h)
			mustRelease(s.t, h)
			g := s.granted(next)
			expect(s.t, g.Token > token, "token %d after %d", g.Token, token)
			names, _, err := s.session(owner).Children(theirs.Path())
			expect(s.t, err == nil && len(names) == 1, "the queue is %v, %v", names, err)
			h = next
		}
		mustRelease(s.t, h)
		mustRelease(s.t, mustLock(s.t, theirs))
	})
}

// Waking a round whose turn has not come has no effect, and does not swallow the
// wake that comes with its turn.
func TestWakeBeforeItsTurn(t *testing.T) {
	each(t, map[string]bool{"it waits": false, "it gave up": true}, func(c *cluster, gaveUp bool) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		stop := c.stopBefore(l.m, deleteNode)
		h.Release()
		stop.reached()
		next := l.Acquire(c.t.Context())
		if gaveUp {
			next.Release()
		}
		newsFor(next)
		(*listener)(l.m).SessionOver(nil, zkio.ErrSessionOver)
		synctest.Wait()
		stop.goOn()
		if gaveUp {
			wantErr(c.t, "the next round's end", settled(c.t, "its end", next.Released()), ErrNotGranted)
			wantState(c.t, l, state.Free, 0)
			return
		}
		c.held(next)
		c.unlock(next)
	})
}

// A process may not delete its node. The release fails with that error, and the next
// round does not queue behind the node; nor does Shutdown wait for that round, even
// if the answer that tells that it has no node was lost.
func TestF083_HandOverWithoutPermission(t *testing.T) {
	each(t, map[string]bool{"the answer comes": false, "the answer is lost": true}, func(c *cluster, lost bool) {
		l := c.lock("a")
		other := mustLock(c.t, exclusive(c.t, l.m, "other")) // before the round, among those that Shutdown looks at
		c.cycle(c.lock("owner", owned(zkio.PermCreate|zkio.PermRead|zkio.PermWrite)))
		h := mustLock(c.t, l)
		next := waitBehind(c.t, h)
		var f *zktest.Fault
		if lost {
			f = c.lossAt(dropReply, l.m, zktest.OpMulti)
		}
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), zkio.ErrNoAuth)
		if lost && f.Hits() != 1 {
			c.t.Fatal("nothing was lost")
		}
		later(time.Second)
		wantState(c.t, l, state.Releasing, 0)
		c.waiting(next)
		c.wantNodes(1)
		c.unlock(other) // the last one is in its place then: the next round, if it is there

		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errGaveUp)
		defer cancel()
		err := l.m.Shutdown(ctx)
		expect(c.t, !errors.Is(err, errGaveUp) && errors.As(err, new(*Error)) && strings.Contains(err.Error(), "jobs"),
			"Shutdown does not say which node stayed: %v", err)
		wantErr(c.t, "the next round", settled(c.t, "its grant", next.Granted()), ErrClosed)
		c.wantNodes(0)
	})
}
