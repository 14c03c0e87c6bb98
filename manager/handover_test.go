// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests are about a process that gives a lock up while others of its
// goroutines wait for it to have its next turn: it leaves the queue and queues
// again, in one request.

// waitBehind has somebody wait for the round after h's, as newcomers do when its
// tenure is over.
func waitBehind(t *testing.T, h Hold) (next Hold) {
	t.Helper()
	h.round.flags.Set(state.GateClosed)
	next = h.Lock().Acquire(t.Context())
	if next.round == h.round {
		t.Fatal("it entered")
	}
	return next
}

// wantNext checks that h was granted after the token before, and returns its token.
func (c *cluster) wantNext(what string, h Hold, before uint64) uint64 {
	c.t.Helper()
	synctest.Wait()
	wantHeld(c.t, what, h)
	g := grantOf(c.t, h)
	if g.Token <= before || g.Token != c.czxid(g.Path) {
		c.t.Errorf("%s: token %d after %d; the czxid of %s is %d", what, g.Token, before, g.Path, c.czxid(g.Path))
	}
	return g.Token
}

// Nobody else is in the queue: the one request is the next grant, too.
func TestHandOverToOneselfIsOneRequest(t *testing.T) {
	for _, test := range kinds {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := test.take(c)
				h := mustLock(c.t, l)
				token := grantOf(c.t, h).Token
				n := c.tally(l.m)
				for range 10 {
					next := waitBehind(c.t, h)
					n.want("before the release", "")
					mustRelease(c.t, h)
					n.want("the release, and the next grant", "multi=1")
					token = c.wantNext("the next round", next, token)
					c.wantNodes(1)
					h = next
				}
				later(time.Second)
				n.want("a look at its node, and at who waits", "getChildren2=1 getData=1")
				wantHeld(c.t, "the last round", h)
				mustRelease(c.t, h)
				n.want("unlock", "delete=1")
				c.wantNodes(0)
				wantState(c.t, l, state.Free, 0)
			})
		})
	}
}

// The same on a real server, by the client's own count.
func TestRealServerHandOverToOneselfIsOneRequest(t *testing.T) {
	r := newReal(t, realzk.Shared(t))
	m := r.open("a")
	rw := readWrite(t, m, "rw")
	for _, l := range []*Lock{exclusive(t, m, "jobs"), rw.Reader(), rw.Writer()} {
		h := r.lock(l)
		token := grantOf(t, h).Token
		const times = 20
		var hurried uint64 // those that had to look, because they took long
		for range times {
			before := m.client.Stats().Sent
			next := waitBehind(t, h)
			mustRelease(t, h)
			r.granted(next)
			g := grantOf(t, next)
			after := m.client.Stats().Sent
			if g.Token <= token {
				t.Errorf("%s: token %d after %d", l.kind, g.Token, token)
			}
			if nodes := r.queue(l); len(nodes) != 1 || !strings.HasSuffix(g.Path, "/"+nodes[0]) {
				t.Errorf("%s: the queue is %v, the node %s", l.kind, nodes, g.Path)
			}
			if n := after["delete"] - before["delete"]; n != 0 {
				t.Errorf("%s: %d × delete", l.kind, n)
			}
			if after["multi"]-before["multi"] != 1 || after["getChildren2"] != before["getChildren2"] {
				hurried++
			}
			h, token = next, g.Token
		}
		if hurried > times/2 {
			t.Errorf("%s: %d of %d took more than one request", l.kind, hurried, times)
		}
		mustRelease(t, h)
	}
}

// The process goes behind those who wait, and they are not kept waiting: the
// next one gets the lock by the very request, without one of his own.
func TestHandOverGoesToTheEndOfTheQueue(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, last := c.lock("a"), c.lock("b"), c.lock("last")
		h := mustLock(c.t, a)
		token := grantOf(c.t, h).Token
		second := b.Acquire(c.t.Context())
		synctest.Wait()
		third := last.Acquire(c.t.Context())
		synctest.Wait()
		fourth := waitBehind(c.t, h)

		nb := c.tally(b.m)
		mustRelease(c.t, h)
		nb.want("its turn", "")
		token = c.wantNext("who waited first", second, token)
		c.wantNodes(3)
		wantWaiting(c.t, "who waited second", third)
		wantWaiting(c.t, "who has just released", fourth)

		na := c.tally(a.m)
		mustRelease(c.t, second)
		token = c.wantNext("who waited second", third, token)
		wantWaiting(c.t, "who has just released", fourth)
		na.want("while the second to last leaves: it looks for the last one", "getData=1")
		mustRelease(c.t, third)
		na.want("its turn", "")
		c.wantNext("who went to the end", fourth, token)
		mustRelease(c.t, fourth)
		c.wantNodes(0)
	})
}

// Processes that hand a lock round: a grant is one write and three reads at the
// most, and none of them lies between the one's release and the next one's grant.
func TestHandRoundCost(t *testing.T) {
	for _, processes := range []int{2, 3, 10} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var holds []Hold // in the order of the queue
				for p := range processes {
					holds = append(holds, c.lock(fmt.Sprint(p)).Acquire(c.t.Context()))
					synctest.Wait()
				}
				var token uint64
				turn := func() {
					h := holds[0]
					token = c.wantNext("the first in line", h, token)
					holds = append(holds[1:], waitBehind(c.t, h))
					mustRelease(c.t, h)
					synctest.Wait()
				}
				for range 2 * processes { // until each has queued like this
					turn()
				}
				count := c.countRequests(dir)
				for range 3 * processes {
					turn()
					got := count.take()
					reads := got["getChildren2"] + got["getData"]
					if got["multi"] != 1 || got["delete"] != 0 || got["create"] != 0 || reads > 3 {
						c.t.Errorf("a turn: %v", got)
					}
				}
				for range processes {
					n := c.tally(holds[1].Lock().m)
					turn()
					n.want("who gets the lock", "")
				}
				for _, h := range holds {
					h.Release()
					synctest.Wait()
				}
				c.wantNodes(0)
			})
		})
	}
}

// Who hands the lock on queues behind the last one whom it has seen, without a
// look. If others have come or gone since, it is in line all the same: behind those
// who came, and not behind those who went.
func TestHandOverBehindTheLastOneSeen(t *testing.T) {
	acquire := func(c *cluster, label string) Hold {
		h := c.lock(label).Acquire(c.t.Context())
		synctest.Wait()
		return h
	}
	type queue = []Hold // those behind the holder
	for _, test := range []struct {
		what     string
		meantime func(c *cluster, q queue) queue
		requests string // by which it leaves and queues again
	}{
		{"nothing", func(_ *cluster, q queue) queue { return q }, "getData=1 multi=1"},
		{"somebody came", func(c *cluster, q queue) queue { return append(q, acquire(c, "c")) }, "getData=1 multi=1"},
		{"two came", func(c *cluster, q queue) queue { return append(q, acquire(c, "c"), acquire(c, "d")) },
			"getChildren2=1 getData=1 multi=1"},
		{"somebody came and went", func(c *cluster, q queue) queue { acquire(c, "c").Release(); return q }, "getData=1 multi=1"},
		{"the first one went", func(_ *cluster, q queue) queue { q[0].Release(); return q[1:] },
			"getData=2 multi=1"}, // in vain for that one, and for the other
		{"the last one went", func(_ *cluster, q queue) queue { q[1].Release(); return q[:1] }, "getData=1 multi=1"},
		{"the last one went, somebody came", func(c *cluster, q queue) queue {
			q[1].Release()
			return append(q[:1], acquire(c, "c"))
		}, "getChildren2=1 getData=2 multi=1"},
		{"all went", func(_ *cluster, q queue) queue {
			q[0].Release()
			q[1].Release()
			return nil
		}, "multi=1"},
		{"all went, somebody came", func(c *cluster, q queue) queue {
			q[0].Release()
			q[1].Release()
			return queue{acquire(c, "c")}
		}, "getChildren2=1 getData=2 multi=1"},
		{"something came that is no contender", func(c *cluster, q queue) queue {
			wantErr(c.t, "create", c.srv.Create(dir+"/README", nil), nil)
			return q
		}, "getData=1 multi=1"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.lock("a")
				early := queue{acquire(c, "early"), acquire(c, "later"), acquire(c, "then")}
				h := a.Acquire(c.t.Context())
				synctest.Wait()
				behind := queue{acquire(c, "b"), acquire(c, "bb")}
				for _, e := range early { // three were ahead, so it lists before it enters
					synctest.Wait()
					mustRelease(c.t, e)
				}
				token := c.wantNext("a's round", h, 0)
				next := waitBehind(c.t, h)

				behind = test.meantime(c, behind)
				synctest.Wait()
				n := c.tally(a.m)
				mustRelease(c.t, h)
				n.want("leaving and queuing again", test.requests)
				for i, other := range behind {
					token = c.wantNext(fmt.Sprintf("the one at %d", i), other, token)
					wantWaiting(c.t, "who went to the end", next)
					mustRelease(c.t, other)
				}
				c.wantNext("who went to the end", next, token)
				mustRelease(c.t, next)
			})
		})
	}
}

// The same, with holds that take time: he who is next looks at his own node, too, if
// he has not looked at the queue for 100 ms.
func TestHandRoundCostOfHoldsThatTakeTime(t *testing.T) {
	for _, test := range []struct {
		processes int
		hold      time.Duration
		reads     int
	}{
		{2, 60 * time.Millisecond, 3},
		{2, 90 * time.Millisecond, 3},
		{3, 40 * time.Millisecond, 3},
		{3, 60 * time.Millisecond, 4},
		{3, 90 * time.Millisecond, 4},
		{10, 60 * time.Millisecond, 3},
		{10, 90 * time.Millisecond, 3},
	} {
		t.Run(fmt.Sprintf("%d processes/%v", test.processes, test.hold), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var holds []Hold // in the order of the queue
				for p := range test.processes {
					holds = append(holds, c.lock(fmt.Sprint(p)).Acquire(c.t.Context()))
					synctest.Wait()
				}
				turn := func() {
					h := holds[0]
					wantHeld(c.t, "the first in line", h)
					later(test.hold)
					holds = append(holds[1:], waitBehind(c.t, h))
					mustRelease(c.t, h)
					synctest.Wait()
				}
				for range 3 * test.processes {
					turn()
				}
				count := c.countRequests(dir)
				for range 3 * test.processes {
					turn()
					got := count.take()
					if got["multi"] != 1 || got["getChildren2"]+got["getData"] > test.reads {
						c.t.Errorf("a turn: %v", got)
					}
				}
				for range test.processes {
					h := holds[0]
					later(test.hold)
					holds = append(holds[1:], waitBehind(c.t, h))
					n := c.tally(holds[0].Lock().m)
					mustRelease(c.t, h)
					n.want("who gets the lock", "")
				}
			})
		})
	}
}

// A contender that somebody made by hand, with a number that was not given out yet,
// is the last one in the queue that the holder sees. Those who queue after that come
// before it, and before the process that leaves and queues again.
func TestHandOverBehindANumberNobodyGaveOut(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b, b2 := c.lock("a"), c.lock("b"), c.lock("b2")
		mustRelease(c.t, mustLock(c.t, a))
		h := mustLock(c.t, a)
		own, _ := parseContender(grantOf(c.t, h).Path[len(dir)+1:])
		// The hand-made one uses up own+1; b gets own+2, b2 own+3, a's next round own+4.
		made := fmt.Sprintf("%s/lock-%010d", dir, own.seq+3)
		wantErr(c.t, "create", c.srv.Create(made, nil), nil)
		later(defaultTenure + 10*time.Millisecond) // a's look: there is somebody behind
		w := b.Acquire(c.t.Context())
		synctest.Wait()
		w2 := b2.Acquire(c.t.Context())
		synctest.Wait()
		next := waitBehind(c.t, h)
		mustRelease(c.t, h)
		synctest.Wait()
		wantHeld(c.t, "b", w)
		wantWaiting(c.t, "b2", w2)
		wantWaiting(c.t, "a", next)
		c.remove(made) // nobody inside had that
		synctest.Wait()
		wantHeld(c.t, "b", w)
		wantWaiting(c.t, "a, while b is inside", next)
		later(time.Minute)
		wantHeld(c.t, "b", w)
		wantWaiting(c.t, "a, while b is inside, a minute later", next)
	})
}

// The answer to the one request gets lost, or the request itself, and perhaps
// the request to find out as well. The release and the next grant come all the
// same, and there is one node.
func TestF081_LostHandOver(t *testing.T) {
	for _, test := range kinds {
		for name, loss := range losses {
			for _, recovery := range []zktest.Op{0, zktest.OpDelete, zktest.OpSync, zktest.OpGetChildren2} {
				t.Run(fmt.Sprintf("%s/%s/%v", test.what, name, recovery), func(t *testing.T) {
					bubble(t, func(c *cluster) {
						l := test.take(c)
						h := mustLock(c.t, l)
						token := grantOf(c.t, h).Token
						next := waitBehind(c.t, h)
						f := loss(c, zktest.Match{Op: zktest.OpMulti, Session: session(l.m), Path: dir})
						if recovery != 0 {
							c.srv.Faults().DropReply(zktest.Match{Op: recovery, Session: session(l.m), Path: dir})
						}
						wantErr(c.t, "the release", h.Unlock(c.t.Context()), nil)
						later(10 * time.Second)
						if f.Hits() != 1 {
							c.t.Fatalf("%d requests were lost", f.Hits())
						}
						c.wantNext("the next round", next, token)
						c.wantNodes(1)
						mustRelease(c.t, next)
						c.wantNodes(0)
					})
				})
			}
		}
	}
}

var errTest = errors.New("test")

// What happens while the one request is under way: to the server it has not come,
// or its answer has not come back. The round that is released and the one that
// waits behind it end as they would have if they had been two requests, and
// nothing is left.
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
	shut := func(f func(*Manager) error) func(*moment) {
		return func(m *moment) { go func() { m.end <- f(m.l.m) }(); synctest.Wait() }
	}
	for _, trouble := range []struct {
		what   string
		happen func(m *moment)
		// What becomes of the release and of the next round, if the request has
		// not been carried out by then; and if it has.
		before, after outcome
	}{
		{"nothing", func(*moment) {}, good, good},
		{"the connection is cut", func(m *moment) { m.srv.Faults().Cut(session(m.l.m)) }, good, good},
		{"the session expires", func(m *moment) {
			m.srv.Faults().Cut(session(m.l.m)) // an answer on its way is lost, too; otherwise the next round may be granted by it, and lost
			m.srv.ExpireSession(session(m.l.m))
		}, good, good},
		{"the servers are away for longer than the lease", func(m *moment) { m.away("a", 6*time.Second) }, good, good},
		{"the servers are away for longer than the session lives", func(m *moment) { m.away("a", 30*time.Second) }, good, good},
		{"the directory goes", func(m *moment) { m.removeAll() }, outcome{ErrLost, nil}, outcome{nil, ErrLost}},
		{"all who wait give up", func(m *moment) { m.next.Release() }, withdrawn, withdrawn},
		{"all who wait give up, and the connection is cut", func(m *moment) {
			m.next.Release()
			m.srv.Faults().Cut(session(m.l.m))
		}, withdrawn, withdrawn},
		{"all who wait give up, and somebody comes", func(m *moment) {
			m.next.Release()
			m.next = m.l.Acquire(m.t.Context())
		}, good, good},
		{"the next round is ended by force", func(m *moment) {
			m.next.round.fail(&Error{Op: "test", Err: errTest})
		}, failed, failed},
		{"the next round is ended by force, and the session expires", func(m *moment) {
			m.next.round.fail(&Error{Op: "test", Err: errTest})
			m.srv.ExpireSession(session(m.l.m))
		}, failed, failed},
		{"the manager is shut down", shut(func(m *Manager) error { return m.Shutdown(context.Background()) }), closed, closed},
		{"the manager is closed", shut((*Manager).Close), closed, closed},
		{"there are news of the next one's node", func(m *moment) {
			m.next.round.trip().PathChanged("/its/node", zkio.NodeDataChanged)
		}, good, good},
	} {
		for _, carriedOut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/carried out=%t", trouble.what, carriedOut), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					l := c.lock("a")
					mustRelease(c.t, mustLock(c.t, l))
					h := mustLock(c.t, l)
					token := grantOf(c.t, h).Token
					m := &moment{c, l, h, waitBehind(c.t, h), make(chan error, 1)}
					want := trouble.before
					var goOn func()
					if carriedOut {
						held := c.srv.Faults().BlockReplies(session(l.m))
						h.Release()
						synctest.Wait()
						if held.Waiting() != 1 {
							c.t.Fatalf("%d answers are held back", held.Waiting())
						}
						goOn, want = func() { held.Remove() }, trouble.after
					} else {
						s := c.barrier().hold(l.m, zktest.OpMulti, 1)
						h.Release()
						s.await(c.t)
						goOn = s.pass
					}
					wantState(c.t, l, state.Releasing, 0)
					trouble.happen(m)
					goOn()

					<-h.Released().Done()
					wantErr(c.t, "the release", settled(c.t, "the release", h.Released()), want.release)
					_, err := m.next.Granted().Wait(c.t.Context())
					later(time.Second)
					switch {
					case want.next == nil:
						c.wantNext("the next round", m.next, token)
						c.wantNodes(1)
						mustRelease(c.t, m.next)
					case errors.Is(want.next, ErrLost): // granted and lost, since its node was deleted at that moment
						wantErr(c.t, "the next grant", err, nil)
						wantErr(c.t, "the next round's end", m.next.Unlock(c.t.Context()), ErrLost)
					default:
						wantErr(c.t, "the next grant", err, want.next)
						wantErr(c.t, "the next round's end", settled(c.t, "its end", m.next.Released()), want.next)
					}
					c.wantNodes(0)
					if want == closed {
						wantErr(c.t, "close", <-m.end, nil)
					} else if n := len(l.m.activeTrips()); n > 0 {
						c.t.Errorf("%d trips are active", n)
					}
					if st := l.m.client.Stats(); st.Nodes != 0 || st.Watches != 0 {
						c.t.Errorf("%d nodes are kept alive, %d paths armed", st.Nodes, st.Watches)
					}
				})
			})
		}
	}
}

// Who waits hears, while the one request is under way, that something has
// happened to his node. He looks at it before he takes the lock, though nobody
// else was in the queue.
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
		next.round.trip().PathChanged("/its/node", zkio.NodeDataChanged)
		answers.Remove()
		synctest.Wait()
		n.want("the release, and the next grant", "getChildren2=1 getData=1 multi=1")
		c.wantNext("the next round", next, token)
		mustRelease(c.t, next)
	})
}

// It takes long until the next round has its turn, since all who fetch are busy.
// What the one request has told is too old by then: the queue is looked at, and
// the lock is not granted on a node that somebody has deleted meanwhile.
func TestHandOverIsTooLongAgo(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleted=%t", deleted), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				l := c.lock("a", func(cfg *Config) { cfg.Workers = 9 }) // one for fetches
				h := mustLock(c.t, l)
				token := grantOf(c.t, h).Token
				done := make(chan struct{})
				l.m.client.Submit(zkio.Fetches, busy(done))
				synctest.Wait()
				next := waitBehind(c.t, h)
				mustRelease(c.t, h)
				synctest.Wait()
				pending(c.t, "the next round", next.Granted())
				c.wantNodes(1)
				later(150 * time.Millisecond)
				n := c.tally(l.m)
				if deleted {
					c.remove(dir + "/" + c.nodes()[0])
				}
				close(done)
				synctest.Wait()
				if !deleted {
					n.want("its turn", "getChildren2=1")
				}
				later(time.Second)
				c.wantNext("the next round", next, token)
				c.wantNodes(1)
				mustRelease(c.t, next)
			})
		})
	}
}

// busy is a task that takes until the channel is closed.
type busy chan struct{}

func (b busy) Run(*zkio.Session) { <-b }

// The writers' next round is in the queue already when readers of their process
// are granted the lock beside the writer that is leaving. New readers do not keep
// it out for ever: their round takes nobody any more when it has lasted a tenure.
func TestReadersBesideAHandOver(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a")
		w := mustLock(c.t, rw.Writer())
		next := waitBehind(c.t, w)
		// Their node is made beside the writer's; the look at it is answered
		// when the writer's deletion has been sent.
		slow := c.srv.Faults().DelayReply(zktest.Match{Op: zktest.OpGetData, Session: session(rw.writer.m), Path: dir + "/_c_"}, 10*time.Millisecond)
		handOver := c.barrier().hold(rw.writer.m, zktest.OpMulti, 2)
		r := rw.Reader().Acquire(c.t.Context())
		synctest.Wait()
		if slow.Hits() != 1 {
			c.t.Fatal("no look")
		}
		w.Release()
		handOver.await(c.t)
		later(20 * time.Millisecond)
		wantHeld(c.t, "the readers", r)
		wantPhase(c.t, rw.writer, state.Releasing)
		handOver.pass()
		wantWaiting(c.t, "the next writer", next)
		later(time.Second)
		late := rw.Reader().Acquire(c.t.Context())
		if late.round == r.round {
			c.t.Error("the readers' round takes newcomers, although a writer of this process has been waiting for a second")
		}
		mustRelease(c.t, r)
		synctest.Wait()
		wantHeld(c.t, "the next writer", next)
		wantHeld(c.t, "the late reader", late) // beside it
		mustRelease(c.t, next)
		mustRelease(c.t, late)
		c.wantNodes(0)
	})
}

// The readers' next round does not queue by the hand-over while their process has
// the write lock: it gets the writer's place.
func TestReadersHandOverBesideAWriter(t *testing.T) {
	bubble(t, func(c *cluster) {
		rw := c.rw("a")
		mustRelease(c.t, mustLock(c.t, rw.Reader())) // the directory is known from now on
		w := mustLock(c.t, rw.Writer())
		r := mustLock(c.t, rw.Reader())
		other := c.rw("b").Writer().Acquire(c.t.Context())
		synctest.Wait()
		next := waitBehind(c.t, r)
		n := c.tally(rw.reader.m)
		mustRelease(c.t, r)
		n.want("the readers' next round", "delete=1 getData=1 multi=1")
		if g := grantOf(c.t, next); g.Token != grantOf(c.t, w).Token {
			c.t.Errorf("token %d, the writer's is %d", g.Token, grantOf(c.t, w).Token)
		}
		mustRelease(c.t, w)
		wantWaiting(c.t, "another process's writer", other)
		mustRelease(c.t, next)
		synctest.Wait()
		wantHeld(c.t, "another process's writer", other)
		mustRelease(c.t, other)
		c.wantNodes(0)
	})
}

// A directory that has data is not written: two requests.
func TestHandOverWhereTheDirectoryHasData(t *testing.T) {
	bubble(t, func(c *cluster) {
		if err := c.srv.CreateAll(dir, []byte("somebody's")); err != nil {
			t.Fatal(err)
		}
		l := c.lock("a")
		h := mustLock(c.t, l)
		token := grantOf(c.t, h).Token
		next := waitBehind(c.t, h)
		n := c.tally(l.m)
		mustRelease(c.t, h)
		n.want("the release, and the next grant", "create=1 delete=1 getChildren2=1 getData=1")
		c.wantNext("the next round", next, token)
		if data, _, _ := c.srv.Get(dir); string(data) != "somebody's" {
			c.t.Errorf("the directory has %q", data)
		}
		mustRelease(c.t, next)
	})
}

// The directory's owner takes the right to write it away. The short way is
// closed from then on, the long one is not: the lock is released, and the next
// round queues by itself.
func TestHandOverWhereTheDirectoryMayNotBeWrittenAnyMore(t *testing.T) {
	everywhere(t, func(p *premises) {
		rest := zkio.PermCreate | zkio.PermRead | zkio.PermDelete
		m := p.open("a")
		theirs := exclusive(p.t, p.open("owner", owned(zkio.PermAll)), "jobs")
		mustRelease(p.t, mustLock(p.t, theirs))
		p.setACL(theirs.Path(), ownersACL(rest|zkio.PermWrite)...) // the last run on this server may have left another
		h := mustLock(p.t, exclusive(p.t, m, "jobs"))
		for i := range 3 {
			if i == 1 {
				p.setACL(theirs.Path(), ownersACL(rest)...)
			}
			token := grantOf(p.t, h).Token
			next := waitBehind(p.t, h)
			mustRelease(p.t, h)
			if g, err := next.Granted().Wait(p.t.Context()); err != nil || g.Token <= token {
				p.t.Errorf("token %d after %d, %v", g.Token, token, err)
			}
			if names, _, err := p.session(owner).Children(theirs.Path()); err != nil || len(names) != 1 {
				p.t.Errorf("the queue is %v, %v", names, err)
			}
			h = next
		}
		mustRelease(p.t, h)
		mustRelease(p.t, mustLock(p.t, theirs))
	})
}

// Whoever wakes a round whose turn has not come has no effect, and is no
// obstacle to the wake that comes with the turn.
func TestWakeBeforeItsTurn(t *testing.T) {
	for _, gaveUp := range []bool{false, true} {
		bubble(t, func(c *cluster) {
			l := c.lock("a")
			h := mustLock(c.t, l)
			stop := c.stopBefore(l.m, deleteNode)
			h.Release()
			stop.reached()
			next := l.Acquire(c.t.Context())
			if gaveUp {
				next.Release()
			}
			early := next.round.trip()
			early.PathChanged("/its/node", zkio.NodeDataChanged)
			(*listener)(l.m).SessionOver(nil, zkio.ErrSessionOver)
			synctest.Wait()
			if run := early.run.Load(); run != idle {
				c.t.Errorf("the trip is in state %d", run)
			}
			stop.goOn()
			if gaveUp {
				wantErr(c.t, "the next round's end", settled(c.t, "its end", next.Released()), ErrNotGranted)
				wantState(c.t, l, state.Free, 0)
				return
			}
			wantHeld(c.t, "the next round", next)
			mustRelease(c.t, next)
		})
	}
}

// A process may not delete its node. The release says so, and the next round does
// not queue behind it; nor does Shutdown wait for that round, even if the answer
// that tells that it has no node was lost.
func TestF083_HandOverWithoutPermission(t *testing.T) {
	for _, lost := range []bool{false, true} {
		bubble(t, func(c *cluster) {
			l := c.lock("a")
			other := mustLock(c.t, exclusive(c.t, l.m, "other")) // before the round, among those that Shutdown looks at
			owner := c.lock("owner", owned(zkio.PermCreate|zkio.PermRead|zkio.PermWrite))
			mustRelease(c.t, mustLock(c.t, owner))
			h := mustLock(c.t, l)
			next := waitBehind(c.t, h)
			var f *zktest.Fault
			if lost {
				f = c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpMulti, Session: session(l.m), Path: dir})
			}
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), zkio.ErrNoAuth)
			if lost && f.Hits() != 1 {
				c.t.Fatal("nothing was lost")
			}
			later(time.Second)
			wantState(c.t, l, state.Releasing, 0)
			pending(c.t, "the next round", next.Granted())
			c.wantNodes(1)
			mustRelease(c.t, other) // the last one is in its place then: the next round, if it is there

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
}
