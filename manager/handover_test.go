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
	h.round.flags.Set(state.GateClosed)
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
	if g.Token <= before || g.Token != c.czxid(g.Path) {
		c.t.Errorf("%s: token %d after %d; the czxid of %s is %d", describe(h), g.Token, before, g.Path, c.czxid(g.Path))
	}
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

// The same on a real server, by the client's own count.
func TestRealServerHandOverToOneselfIsOneRequest(t *testing.T) {
	s := realBackend(t, realzk.Shared(t))
	m := s.open("a")
	rw := readWrite(t, m, "rw")
	for _, l := range []*Lock{exclusive(t, m, "jobs"), rw.Reader(), rw.Writer()} {
		h := mustLock(t, l)
		token := grantOf(t, h).Token
		const times = 20
		var slow int // hand-overs that took so long that the process had to look
		for range times {
			before := m.client.Stats().Sent
			next := waitBehind(t, h)
			mustRelease(t, h)
			g := s.granted(next)
			after := m.client.Stats().Sent
			if g.Token <= token {
				t.Errorf("%s: token %d after %d", l.kind, g.Token, token)
			}
			if nodes := s.queue(l); len(nodes) != 1 || !strings.HasSuffix(g.Path, "/"+nodes[0]) {
				t.Errorf("%s: the queue is %v, the node %s", l.kind, nodes, g.Path)
			}
			if n := after["delete"] - before["delete"]; n != 0 {
				t.Errorf("%s: %d × delete", l.kind, n)
			}
			if after["multi"]-before["multi"] != 1 || after["getChildren2"] != before["getChildren2"] {
				slow++
			}
			h, token = next, g.Token
		}
		if slow > times/2 {
			t.Errorf("%s: %d of %d took more than one request", l.kind, slow, times)
		}
		mustRelease(t, h)
	}
}

// Where processes pass a lock around, a grant is one write and three reads at most,
// and none of these lies between a release and the next grant.
func TestHandRoundCost(t *testing.T) {
	for _, processes := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) { handRoundCost(t, processes, 0, 3) })
	}
}

// The same with holds that take time: the next one looks at its own node as well if
// its last look at the queue was 100 ms ago.
func TestHandRoundCostOfHoldsThatTakeTime(t *testing.T) {
	for _, test := range []struct{ processes, ms, reads int }{
		{2, 60, 3}, {2, 90, 3}, {3, 40, 3}, {3, 60, 4}, {3, 90, 4}, {10, 60, 3}, {10, 90, 3},
	} {
		t.Run(fmt.Sprintf("%d processes/%d ms", test.processes, test.ms), func(t *testing.T) {
			handRoundCost(t, test.processes, time.Duration(test.ms)*time.Millisecond, test.reads)
		})
	}
}

func handRoundCost(t *testing.T, processes int, hold time.Duration, reads int) {
	bubble(t, func(c *cluster) {
		holds, ms := c.queueUp(processes)
		var token uint64
		turn := func() {
			c.t.Helper()
			token = c.wantNext(holds[0], token)
			later(hold)
			holds = append(holds[1:], c.handOver(holds[0]))
		}
		for range 3 * processes { // until each has queued like this
			turn()
		}
		n := c.tally(ms...)
		for range 3 * processes {
			turn()
			if got := n.take("a turn"); got["multi"] != 1 || len(got) > 3 || got["getChildren2"]+got["getData"] > reads {
				c.t.Errorf("a turn: %v", got)
			}
		}
		for range processes {
			later(hold)
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

// A process that hands the lock on queues behind the last contender that it has
// seen, without a look. If others have come or gone since, it is in line all the
// same: behind those that came, and not behind those that went.
func TestHandOverBehindTheLastOneSeen(t *testing.T) {
	acquire := func(c *cluster, label string) Hold { return c.acquire(c.lock(label)) }
	type line = []Hold // those behind the holder
	type change struct {
		meantime func(c *cluster, q line) line
		sent     string // when the process leaves and queues again
	}
	each(t, map[string]change{
		"no change": {func(_ *cluster, q line) line { return q }, "getData=1 multi=1"},
		"one came":  {func(c *cluster, q line) line { return append(q, acquire(c, "c")) }, "getData=1 multi=1"},
		"two came": {func(c *cluster, q line) line { return append(q, acquire(c, "c"), acquire(c, "d")) },
			"getChildren2=1 getData=1 multi=1"},
		"one came and went": {func(c *cluster, q line) line { acquire(c, "c").Release(); return q }, "getData=1 multi=1"},
		"the first went": {func(_ *cluster, q line) line { q[0].Release(); return q[1:] },
			"getData=2 multi=1"}, // in vain for that one, and for the other
		"the last went":           {func(_ *cluster, q line) line { q[1].Release(); return q[:1] }, "getData=1 multi=1"},
		"the last went, one came": {func(c *cluster, q line) line { q[1].Release(); return append(q[:1], acquire(c, "c")) }, "getChildren2=1 getData=2 multi=1"},
		"all went":                {func(_ *cluster, q line) line { q[0].Release(); q[1].Release(); return nil }, "multi=1"},
		"all went, one came": {func(c *cluster, q line) line { q[0].Release(); q[1].Release(); return line{acquire(c, "c")} },
			"getChildren2=1 getData=2 multi=1"},
		"a child that is not a contender came": {func(c *cluster, q line) line {
			wantErr(c.t, "create", c.srv.Create(dir+"/README", nil), nil)
			return q
		}, "getData=1 multi=1"},
	}, func(c *cluster, test change) {
		a := c.lock("a")
		early := line{acquire(c, "early"), acquire(c, "later"), acquire(c, "then")}
		h := c.acquire(a)
		behind := line{acquire(c, "b"), acquire(c, "bb")}
		for _, e := range early { // three were ahead, so it lists before it enters
			c.unlock(e)
		}
		token := c.wantNext(h, 0)
		next := waitBehind(c.t, h)
		behind = test.meantime(c, behind)
		n := c.tally(a.m)
		mustRelease(c.t, h)
		n.want("leaving and queueing again", test.sent)
		for _, other := range behind {
			token = c.wantNext(other, token)
			c.waiting(next)
			c.unlock(other)
		}
		c.wantNext(next, token)
		c.unlock(next)
	})
}

// The one request is lost, or its answer, and perhaps the request that resolves
// that as well. The release and the next grant come nevertheless, and there is one
// node.
func TestF081_LostHandOver(t *testing.T) {
	for what, take := range kinds {
		for name, loss := range losses {
			for _, recovery := range []zktest.Op{0, zktest.OpDelete, zktest.OpSync, zktest.OpGetChildren2} {
				t.Run(fmt.Sprintf("%s/%s/%v", what, name, recovery), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						l := take(c)
						h := mustLock(c.t, l)
						token := grantOf(c.t, h).Token
						next := waitBehind(c.t, h)
						f := loss(c, zktest.Match{Op: zktest.OpMulti, Session: session(l.m), Path: dir})
						if recovery != 0 {
							c.lossAt(dropReply, l.m, recovery)
						}
						wantErr(c.t, "the release", h.Unlock(c.t.Context()), nil)
						later(10 * time.Second)
						if f.Hits() != 1 {
							c.t.Fatalf("%d requests were lost", f.Hits())
						}
						c.wantNext(next, token)
						c.wantNodes(1)
						c.unlock(next)
						c.wantNodes(0)
					})
				})
			}
		}
	}
}

var errTest = errors.New("test")

// What happens while the one request is under way: before the server has executed
// it, or before its answer has come back. The round that is released and the one
// that waits behind it end as if there had been two requests, and nothing is left.
func TestTroubleDuringTheHandOver(t *testing.T) {
	type moment struct {
		*cluster
		l       *Lock
		h, next Hold
		end     chan error // of Shutdown or Close
	}
	type outcome struct{ release, next error }
	var (
		good      = outcome{nil, nil}
		withdrawn = outcome{nil, ErrNotGranted}
		failed    = outcome{nil, errTest}
		closed    = outcome{nil, ErrClosed}
	)
	cut := func(m *moment) { m.srv.Faults().Cut(session(m.l.m)) }
	expire := func(m *moment) { m.srv.ExpireSession(session(m.l.m)) }
	giveUp := func(m *moment) { m.next.Release() }
	fail := func(m *moment) { m.next.round.fail(&Error{Op: "test", Err: errTest}) }
	shut := func(f func(*Manager) error) func(*moment) {
		return func(m *moment) { go func() { m.end <- f(m.l.m) }(); synctest.Wait() }
	}
	for what, trouble := range map[string]struct {
		happen []func(m *moment)
		// What becomes of the release and of the next round, if the request has
		// not been executed by then; and if it has.
		before, after outcome
	}{
		"nothing":               {nil, good, good},
		"the connection is cut": {[]func(*moment){cut}, good, good},
		// The cut loses an answer on its way; otherwise the next round might be granted by it, and lost.
		"the session expires":                        {[]func(*moment){cut, expire}, good, good},
		"an outage that is longer than the lease":    {[]func(*moment){func(m *moment) { m.away("a", 6*time.Second) }}, good, good},
		"an outage that is longer than the session":  {[]func(*moment){func(m *moment) { m.away("a", 30*time.Second) }}, good, good},
		"the directory is deleted":                   {[]func(*moment){func(m *moment) { m.removeAll() }}, outcome{ErrLost, nil}, outcome{nil, ErrLost}},
		"all waiters give up":                        {[]func(*moment){giveUp}, withdrawn, withdrawn},
		"all waiters give up, the connection is cut": {[]func(*moment){giveUp, cut}, withdrawn, withdrawn},
		"all waiters give up, another one comes":     {[]func(*moment){giveUp, func(m *moment) { m.next = m.l.Acquire(m.t.Context()) }}, good, good},
		"the next round fails":                       {[]func(*moment){fail}, failed, failed},
		"the next round fails, the session expires":  {[]func(*moment){fail, expire}, failed, failed},
		"the manager is shut down":                   {[]func(*moment){shut(func(m *Manager) error { return m.Shutdown(context.Background()) })}, closed, closed},
		"the manager is closed":                      {[]func(*moment){shut((*Manager).Close)}, closed, closed},
		"there is news of the next one's node":       {[]func(*moment){func(m *moment) { newsFor(m.next) }}, good, good},
	} {
		for _, executed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/executed=%t", what, executed), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					l := c.lock("a")
					c.cycle(l)
					h := mustLock(c.t, l)
					token := grantOf(c.t, h).Token
					m := &moment{c, l, h, waitBehind(c.t, h), make(chan error, 1)}
					hold, want := c.srv.Faults().BlockRequests, trouble.before
					if executed {
						hold, want = c.srv.Faults().BlockReplies, trouble.after
					}
					held := hold(session(l.m))
					h.Release()
					synctest.Wait()
					if held.Waiting() != 1 {
						c.t.Fatalf("%d packets are held back", held.Waiting())
					}
					wantState(c.t, l, state.Releasing, 0)
					for _, happen := range trouble.happen {
						happen(m)
					}
					held.Remove()

					<-h.Released().Done()
					wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), want.release)
					_, err := m.next.Granted().Wait(c.t.Context())
					later(time.Second)
					switch {
					case want.next == nil:
						c.wantNext(m.next, token)
						c.wantNodes(1)
						c.unlock(m.next)
					case errors.Is(want.next, ErrLost): // granted, and lost with its node at the same moment
						wantErr(c.t, "the next grant", err, nil)
						wantErr(c.t, "the next round's end", m.next.Unlock(c.t.Context()), ErrLost)
					default:
						wantErr(c.t, "the next grant", err, want.next)
						wantErr(c.t, "the next round's end", settled(c.t, "its end", m.next.Released()), want.next)
					}
					c.wantNodes(0)
					if want == closed {
						wantErr(c.t, "close", <-m.end, nil)
					}
					if st := l.m.client.Stats(); st.Nodes != 0 || st.Watches != 0 {
						c.t.Errorf("%d nodes are kept alive, %d paths armed", st.Nodes, st.Watches)
					}
				})
			})
		}
	}
}

// newsFor reports a change of its node to a waiter.
func newsFor(h Hold) { h.round.io().PathChanged("/its/node", zkio.NodeDataChanged) }

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
			if g := s.granted(next); g.Token <= token {
				s.t.Errorf("token %d after %d", g.Token, token)
			}
			if names, _, err := s.session(owner).Children(theirs.Path()); err != nil || len(names) != 1 {
				s.t.Errorf("the queue is %v, %v", names, err)
			}
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
		if errors.Is(err, errGaveUp) || !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "jobs") {
			c.t.Errorf("Shutdown does not say which node stayed: %v", err)
		}
		wantErr(c.t, "the next round", settled(c.t, "its grant", next.Granted()), ErrClosed)
		c.wantNodes(0)
	})
}
