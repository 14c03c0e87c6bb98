// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// These tests are about faults while a process waits for its turn; docs/faults.md
// has the catalogue.

// The contender ahead dies without ever having held the lock: that is no grant.
func TestF022_ContenderAheadDiesWaiting(t *testing.T) {
	contenderAheadLeaves(t, map[string]func(c *cluster, waits *Lock, cancel context.CancelFunc){
		"its session expires": func(c *cluster, waits *Lock, _ context.CancelFunc) { c.srv.ExpireSession(session(waits.m)) },
		"its node is deleted": func(c *cluster, waits *Lock, _ context.CancelFunc) { c.remove(c.nodeOf(waits.m)) },
		"its manager is closed": func(c *cluster, waits *Lock, _ context.CancelFunc) {
			wantErr(c.t, "close", waits.m.Close(), nil)
		},
	})
}

// The contender ahead gives up: the one behind it does not take that for its turn.
func TestF023_ContenderAheadGivesUp(t *testing.T) {
	contenderAheadLeaves(t, map[string]func(c *cluster, waits *Lock, cancel context.CancelFunc){
		"its context ends": func(_ *cluster, _ *Lock, cancel context.CancelFunc) { cancel() },
		"its context ends, and another process queues": func(c *cluster, _ *Lock, cancel context.CancelFunc) {
			cancel()
			l := c.lock("late")
			ctx, stop := context.WithTimeout(c.t.Context(), 30*time.Second)
			defer stop()
			_, err := l.Lock(ctx)
			wantErr(c.t, "who comes late", err, context.DeadlineExceeded)
		},
	})
}

// contenderAheadLeaves has one of two contenders ahead leave, which waited like us.
func contenderAheadLeaves(t *testing.T, ways map[string]func(c *cluster, waits *Lock, cancel context.CancelFunc)) {
	t.Helper()
	for what, leave := range ways {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				r := newReferee(c.t)
				holds, waits, behind := c.lock("holds"), c.lock("waits"), c.lock("behind")
				h := mustLock(c.t, holds)
				r.enter(holds.m, h)
				ctx, cancel := context.WithCancel(c.t.Context())
				defer cancel()
				waits.Acquire(ctx)
				synctest.Wait()
				w := behind.Acquire(c.t.Context())
				synctest.Wait()
				if p := w.round.io().position.Load(); p == nil || p.ahead != 2 {
					c.t.Fatalf("the place is %+v, want one behind two", p)
				}
				leave(c, waits, cancel)
				later(time.Second)
				wantErr(c.t, "the one behind", w.Err(), ErrNotGranted)
				r.leave(h)
				mustRelease(c.t, h)
				synctest.Wait()
				wantErr(c.t, "the one behind", w.Err(), nil)
				r.enter(behind.m, w)
				r.leave(w)
				mustRelease(c.t, w)
			})
		})
	}
}

// The lock becomes free at each moment between the request that queues and the
// look that leaves the watch, before each request is carried out and before its
// answer arrives. No such moment is missed: nobody has to wait for the look that
// is taken once in a while.
func TestF027_WakeAtEachStep(t *testing.T) {
	steps := []struct {
		verb verb
		op   zktest.Op
		skip int
	}{
		{createNode, zktest.OpMulti, 0},
		{list, zktest.OpGetChildren2, 0},
		{lookAtNode, zktest.OpGetData, 0}, // the one ahead
		{lookAtNode, zktest.OpGetData, 1}, // our own
	}
	for _, step := range steps {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %d/answered=%t", step.verb, step.skip, answered), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b := c.lock("a"), c.lock("b")
					mustRelease(c.t, mustLock(c.t, a)) // the directory is known from now on
					h := mustLock(c.t, b)
					goOn := func() {}
					var w Hold
					if answered {
						slow := c.srv.Faults().DelayReply(zktest.Match{Op: step.op, Session: session(a.m), Path: dir, Nth: step.skip + 1}, 100*time.Millisecond)
						w = a.Acquire(c.t.Context())
						<-slow.Hit()
						synctest.Wait() // it has been carried out
					} else {
						stop := c.stopBefore(a.m, step.verb)
						c.mu.Lock()
						stop.skip = step.skip
						c.mu.Unlock()
						w = a.Acquire(c.t.Context())
						stop.reached()
						goOn = stop.goOn
					}
					mustRelease(c.t, h)
					goOn()
					later(200 * time.Millisecond)
					wantErr(c.t, "the waiter", w.Err(), nil)
					mustRelease(c.t, w)
					c.wantNodes(0)
				})
			})
		}
	}
}

// Somebody deletes the node of a process that waits behind more than two others.
// It queues again when the nearest of them goes, or when the wait is looked at
// again; and at once if that has been done before.
func TestF028_WaiterFurtherBackIsDeleted(t *testing.T) {
	for _, test := range []struct {
		what   string
		before time.Duration // how long it has waited
		leaves bool          // the nearest one, then
		within time.Duration
	}{
		{"the one ahead goes", time.Second, true, time.Second},
		{"nobody goes", time.Second, false, 15 * time.Second},
		{"it has waited for long", time.Minute, false, time.Second},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				holds, between, ahead, waits := c.lock("holds"), c.lock("between"), c.lock("ahead"), c.lock("waits")
				h := mustLock(c.t, holds)
				first := between.Acquire(c.t.Context())
				synctest.Wait()
				second := ahead.Acquire(c.t.Context())
				synctest.Wait()
				w := waits.Acquire(c.t.Context())
				later(test.before)
				gone := c.nodeOf(waits.m)
				c.remove(gone)
				if test.leaves {
					second.Release()
				}
				later(test.within)
				if now := c.nodeOf(waits.m); now == gone || now == "" {
					c.t.Fatalf("it has not queued again: %v", c.nodes())
				}
				mustRelease(c.t, h)
				synctest.Wait()
				mustRelease(c.t, first)
				synctest.Wait()
				if !test.leaves {
					wantHeld(c.t, "the one ahead", second)
					mustRelease(c.t, second)
					synctest.Wait()
				}
				wantHeld(c.t, "who waits", w)
				mustRelease(c.t, w)
				c.wantNodes(0)
			})
		})
	}
}

// Somebody deletes the node of the process that is next. It hears of that and queues
// again. Only if its turn comes so soon that it has not looked yet does it enter
// without a node, and learns it at its first look.
func TestF028_NextOnesNodeIsDeleted(t *testing.T) {
	for _, test := range []struct {
		what   string
		before time.Duration // how long it has waited when its node goes
		after  time.Duration // and how long after that its turn comes
		enters bool
	}{
		{"its turn comes at once", 0, 0, true},
		{"its turn comes soon", 0, defaultTenure - time.Millisecond, true},
		{"it has looked in vain", 0, defaultTenure + time.Millisecond, false},
		{"it has looked before", time.Second, 0, false},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				first := mustLock(c.t, c.lock("first"))
				next := c.lock("next")
				h := next.Acquire(c.t.Context())
				synctest.Wait()
				last := c.lock("last").Acquire(c.t.Context())
				later(test.before)
				c.remove(c.nodeOf(next.m))
				later(test.after)
				mustRelease(c.t, first)
				synctest.Wait()
				if test.enters {
					wantHeld(c.t, "who was next", h)
					later(defaultTenure + time.Millisecond)
					wantErr(c.t, "who was next, after its first look", h.Err(), ErrLost)
					mustRelease(c.t, last)
				} else {
					wantHeld(c.t, "who was behind it", last)
					wantWaiting(c.t, "who was next", h)
					mustRelease(c.t, last)
					synctest.Wait()
					wantHeld(c.t, "who was next, and queued again", h)
					mustRelease(c.t, h)
				}
				c.wantNodes(0)
			})
		})
	}
}

// TryLock answers that the lock is taken, and the deletion of its node is lost,
// or its creation's answer was. In the background the node goes all the same: it
// is not in the way of the next process, and its own next attempt is fresh.
func TestF034_TryLockLeavesNoNode(t *testing.T) {
	for _, op := range []zktest.Op{zktest.OpMulti, zktest.OpGetChildren2, zktest.OpGetData, zktest.OpDelete} {
		for name, loss := range losses {
			t.Run(op.String()+"/"+name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a, b, next := c.lock("a"), c.lock("b"), c.lock("next")
					mustRelease(c.t, mustLock(c.t, a)) // the directory is known from now on
					h := mustLock(c.t, b)
					f := loss(c, zktest.Match{Session: session(a.m), Op: op, Path: dir})
					_, err := a.TryLock(c.t.Context())
					wantErr(c.t, "trylock", err, ErrLocked)
					waitUntil(c.t, "the node is known to be gone", func() bool {
						p, _ := a.State()
						return p == state.Free && len(c.nodes()) == 1
					})
					if f.Hits() != 1 {
						c.t.Errorf("it was lost %d times", f.Hits())
					}
					mustRelease(c.t, h)
					for _, l := range []*Lock{next, a} {
						h, err := l.TryLock(c.t.Context())
						wantErr(c.t, "trylock, when nobody is there", err, nil)
						mustRelease(c.t, h)
					}
				})
			})
		}
	}
}

// A wait of many hours, with many reconnects: the watches do not pile up, neither
// here nor at the server.
func TestF035_LongWait(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		watches, onServer := a.m.client.Stats().Watches, c.srv.AllWatches()
		if watches != 2 { // the contender ahead, and our own node
			c.t.Errorf("%d watches, want 2", watches)
		}
		for range 300 {
			c.srv.Faults().Cut(session(a.m))
			later(time.Minute)
		}
		if n := a.m.client.Stats(); n.Watches != watches || n.Reconnects != 300 {
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

// Readers of other processes that come while a writer waits get in behind it,
// however many they are and although readers are inside.
func TestF037_WriterAmongReaders(t *testing.T) {
	bubble(t, func(c *cluster) {
		first := mustLock(c.t, c.rw("first").Reader())
		writer := c.rw("writer").Writer().Acquire(c.t.Context())
		synctest.Wait()
		var readers []Hold
		for i := range 30 {
			readers = append(readers, c.rw(fmt.Sprint(i)).Reader().Acquire(c.t.Context()))
			later(time.Second)
			pending(c.t, "the writer", writer.Granted())
			pending(c.t, "a reader behind it", readers[i].Granted())
		}
		mustRelease(c.t, first)
		synctest.Wait()
		wantHeld(c.t, "the writer", writer)
		for _, h := range readers {
			pending(c.t, "a reader behind it", h.Granted())
		}
		mustRelease(c.t, writer)
		synctest.Wait()
		for _, h := range readers {
			wantHeld(c.t, "a reader", h)
			mustRelease(c.t, h)
		}
		c.wantNodes(0)
	})
}

// A thousand readers in ten processes wait for one writer. All get in when it
// leaves, and each process lists the queue once at the most.
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
		count := c.countRequests(dir)
		mustRelease(c.t, write)
		synctest.Wait()
		for _, h := range holds {
			wantHeld(c.t, "a reader", h)
		}
		if got := count.take(); got["getChildren2"] > processes || got["getData"] > 0 || got["multi"] > 0 {
			c.t.Errorf("requests: %v", got)
		}
		for _, h := range holds {
			h.Release()
		}
		synctest.Wait()
		c.wantNodes(0)
	})
}
