// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// account is the node that the tests write under the lock's protection.
const account = "/account"

type ledger struct{ *cluster }

// account makes the node.
func (c *cluster) account() ledger {
	c.t.Helper()
	wantErr(c.t, "create", c.srv.Create(account, []byte("0")), nil)
	return ledger{c}
}

// want checks what is in the node, and how often it was written.
func (l ledger) want(what, data string, version int32) {
	l.t.Helper()
	got, stat, _ := l.srv.Get(account)
	if string(got) != data || stat.Version != version {
		l.t.Errorf("%s: the node has %q, version %d; want %q, version %d", what, got, stat.Version, data, version)
	}
}

// write is a guarded write of data.
func write(ctx context.Context, h Hold, data string) error {
	_, err := h.Guard(ctx, zkio.SetOp(account, []byte(data), -1))
	return err
}

// A writing is a guarded write that runs while the test goes on.
type writing struct {
	t   *testing.T
	err chan error
}

func (c *cluster) write(ctx context.Context, h Hold, data string) writing {
	w := writing{c.t, make(chan error, 1)}
	go func() { w.err <- write(ctx, h, data) }()
	synctest.Wait()
	return w
}

// pending checks that it has not returned.
func (w writing) pending() {
	w.t.Helper()
	synctest.Wait()
	if len(w.err) > 0 {
		w.t.Errorf("Guard has returned %v", <-w.err)
	}
}

// want waits for its error and checks it: it is all of want, and no other of the
// errors that Guard tells apart.
func (w writing) want(what string, want ...error) {
	w.t.Helper()
	err := <-w.err
	for _, e := range want {
		wantErr(w.t, what, err, e)
	}
	for _, other := range []error{ErrUnknownOutcome, ErrLost, ErrReleased, ErrClosed} {
		if !slices.Contains(want, other) && errors.Is(err, other) {
			w.t.Errorf("%s: %v is %v, too", what, err, other)
		}
	}
}

// Holds of every kind guard what they write, in one request that also renews the
// lease.
func TestGuard(t *testing.T) {
	each(t, map[string]func(c *cluster) Hold{
		"exclusive": func(c *cluster) Hold { return mustLock(c.t, c.lock("a")) },
		"read":      func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Reader()) },
		"write":     func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Writer()) },
		"read beside write": func(c *cluster) Hold {
			rw := c.rw("a")
			w := mustLock(c.t, rw.Writer())
			defer w.Release()
			return mustLock(c.t, rw.Reader())
		},
	}, func(c *cluster, take func(c *cluster) Hold) {
		book := c.account()
		h := take(c)
		synctest.Wait()
		c.wantNodes(1)
		time.Sleep(time.Second)
		n, proofs := c.tally(h.Lock().m), h.Lock().m.client.Stats().Proofs
		results, err := h.Guard(c.t.Context(),
			zkio.CreateOp("/made", []byte("x"), nil), zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, 1), zkio.DeleteOp("/made", -1))
		if err != nil || len(results) != 4 || results[0].Path != "/made" || results[1].Stat.Version != 1 {
			c.t.Errorf("got %+v, %v", results, err)
		}
		n.want("a guarded transaction", "multi=1")
		if now := h.Lock().m.client.Stats().Proofs; now != proofs+1 {
			c.t.Errorf("the lease was renewed %d times, want once", now-proofs)
		}
		book.want("after it", "1", 1)
		nested, err := h.Reenter()
		wantErr(c.t, "reenter", err, nil)
		wantErr(c.t, "through another handle", write(c.t.Context(), nested, "2"), nil)
		nested.Release()
		mustRelease(c.t, h)
		wantErr(c.t, "after the release", write(c.t.Context(), h, "3"), ErrReleased)
		book.want("in the end", "2", 2)
	})
}

// What cannot be guarded is refused before anything is sent.
func TestGuardRefuses(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := mustLock(c.t, c.lock("a"))
		own := grantOf(c.t, h).Path
		n := c.tally(h.Lock().m)
		good := zkio.SetOp(account, nil, -1)
		for _, test := range []struct {
			says string
			ops  []zkio.Op
		}{
			{"no operations", nil},
			{"operation 1: ", []zkio.Op{good, {}}},
			{"operation 0: ", []zkio.Op{zkio.SetOp("account", nil, -1)}},
			{"operation 0: ", []zkio.Op{zkio.SetOp("", nil, -1)}},
			{"operation 2: ", []zkio.Op{good, good, zkio.DeleteOp("/a//b", -1)}},
			{"operation 0: ", []zkio.Op{zkio.CreateOp("/a/", nil, nil)}},
			{"operation 0: ", []zkio.Op{zkio.CheckOp("/a/../b", -1)}},
			{"operation 0: ", []zkio.Op{zkio.CheckOp("/a/\x07", -1)}},
			{"operation 0: ", []zkio.Op{zkio.CheckOp("/a/\xff", -1)}},
			{"ZooKeeper's own", []zkio.Op{zkio.CreateOp("/zookeeper/quota/x", nil, nil)}},
			{"ZooKeeper's own", []zkio.Op{zkio.DeleteOp("/zookeeper", -1)}},
			{"belongs to the lock", []zkio.Op{good, zkio.DeleteOp(own, -1)}},
			{"belongs to the lock", []zkio.Op{zkio.DeleteOp(dir, -1)}},
			{"belongs to the lock", []zkio.Op{zkio.CreateOp(dir+"/lock-0000000001", nil, nil)}},
			{"more than the 1040384 that a server takes", []zkio.Op{zkio.SetOp(account, make([]byte, 1<<20), -1)}},
		} {
			results, err := h.Guard(c.t.Context(), test.ops...)
			var e *Error
			if !errors.Is(err, zkio.ErrBadArguments) || !errors.As(err, &e) || e.Op != "guard" || e.Name != "jobs" || !strings.Contains(err.Error(), test.says) || results != nil {
				c.t.Errorf("got %v, %v; want an error that says %q", results, err, test.says)
			}
		}
		n.want("refusing", "")
		for _, path := range []string{"/zookeepers", dir + "/data", dir + "s", "/holdfast"} {
			if _, err := h.Guard(c.t.Context(), zkio.CheckOp(path, 77)); errors.Is(err, zkio.ErrBadArguments) {
				c.t.Errorf("%s: %v", path, err)
			}
		}
		c.unlock(h)
	})
}

// A process that does not hold the lock cannot write, and is told why.
func TestGuardWithoutTheLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		a, b := c.lock("a"), c.lock("b")
		wantErr(c.t, "the zero Hold", write(c.t.Context(), Hold{}, "1"), ErrReleased)
		h, waiting := c.acquire(a), c.acquire(b)
		n := c.tally(a.m, b.m)
		wantErr(c.t, "waiting", write(c.t.Context(), waiting, "1"), ErrNotGranted)
		ended, cancel := context.WithCancelCause(c.t.Context())
		cancel(errGaveUp)
		wantErr(c.t, "with a context that has ended", write(ended, h, "1"), errGaveUp)
		n.want("so far", "")
		c.unlock(h)
		wantErr(c.t, "released", write(c.t.Context(), h, "1"), ErrReleased)
		wantErr(c.t, "granted by now", write(c.t.Context(), waiting, "1"), nil)
		c.expire(b.m)
		wantErr(c.t, "the session is over", write(c.t.Context(), waiting, "2"), ErrLost)
		book.want("in the end", "1", 1)
	})
}

// ZooKeeper refuses one of the operations: the error says which, and why. Nothing is
// changed, and the lock is held on.
func TestGuardedOperationFails(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		h := mustLock(c.t, c.lock("a"))
		for _, test := range []struct {
			op   zkio.Op
			want error
		}{
			{zkio.SetOp(account, []byte("x"), 7), zkio.ErrBadVersion},
			{zkio.SetOp("/none", nil, -1), zkio.ErrNoNode},
			{zkio.CheckOp("/none", -1), zkio.ErrNoNode},
			{zkio.CreateOp(account, nil, nil), zkio.ErrNodeExists},
			{zkio.DeleteOp("/holdfast", -1), zkio.ErrNotEmpty},
		} {
			for at := range 3 {
				ops := slices.Insert([]zkio.Op{zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, -1)}, at, test.op)
				results, err := h.Guard(c.t.Context(), ops...)
				wantErr(c.t, test.op.Path(), err, test.want)
				if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownOutcome) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("operation %d: ", at)) {
					c.t.Errorf("operation %d: got %v", at, err)
				}
				if len(results) != len(ops) {
					c.t.Errorf("operation %d: %d results", at, len(results))
				}
				for i, res := range results {
					if (res.Err != nil) != (i == at) || i == at && !errors.Is(res.Err, test.want) {
						c.t.Errorf("operation %d: results %+v", at, results)
					}
				}
			}
		}
		book.want("in the end", "0", 0)
		c.held(h)
		c.unlock(h)
	})
}

// A holder is stopped between its last check and its write, and another process has
// the lock when the write arrives: it has no effect. No check and no clock can do
// that.
func TestF055_GuardOfAStaleHolder(t *testing.T) {
	type loss struct {
		lose func(c *cluster, m *Manager)
		want error
	}
	each(t, map[string]loss{
		"its node was deleted": {func(c *cluster, m *Manager) { c.remove(c.nodeOf(m)) }, ErrLost},
		// The answer cannot reach the session any more.
		"its session expired": {func(c *cluster, m *Manager) { c.expire(m) }, ErrUnknownOutcome},
	}, func(c *cluster, test loss) {
		book := c.account()
		a, b := c.lock("a"), c.lock("b")
		h, also := mustLock(c.t, a), mustLock(c.t, a)
		waiting := c.acquire(b)
		stop := c.stopBefore(a.m, prove)
		w := c.write(c.t.Context(), h, "stale")
		stop.reached()
		test.lose(c, a.m)
		_, err := waiting.Granted().Wait(c.t.Context())
		wantErr(c.t, "the next holder's grant", err, nil)
		wantErr(c.t, "the next holder", write(c.t.Context(), waiting, "new"), nil)
		stop.goOn()
		w.want("the stale holder", test.want)
		wantErr(c.t, "and again", write(c.t.Context(), h, "stale again"), ErrLost)
		wantErr(c.t, "its other holder", also.Err(), ErrLost)
		book.want("in the end", "new", 1)
		c.held(waiting)
		c.unlock(waiting)
		h.Release()
		also.Release()
		c.cycle(a)
	})
}

// The transaction's answer is the first news that the node is gone: all holders of
// the process have lost the lock.
func TestGuardFindsTheNodeGone(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		a := c.lock("a")
		h, also := mustLock(c.t, a), mustLock(c.t, a)
		c.remove(c.nodeOf(a.m)) // it has no watch yet
		c.held(h)
		wantErr(c.t, "the write", write(c.t.Context(), h, "1"), ErrLost)
		if !isClosed(also.Lost()) {
			c.t.Error("the other holder is not told")
		}
		wantErr(c.t, "the other holder", also.Err(), ErrLost)
		book.want("in the end", "0", 0)
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		also.Release()
		c.cycle(a)
	})
}

// withTimeout sets the session timeout.
func withTimeout(d time.Duration) func(*Config) { return func(cfg *Config) { cfg.SessionTimeout = d } }

// The answer is lost, so the write may or may not have happened. It is not tried
// again, and the lock is held on.
func TestGuardWithoutAnAnswer(t *testing.T) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				book := c.account()
				h := mustLock(c.t, c.lock("a", withTimeout(30*time.Second)))
				f := loss(c, zktest.Match{Session: session(h.Lock().m), Path: account})
				c.write(c.t.Context(), h, "1").want("the write", ErrUnknownOutcome)
				if f.Hits() != 1 {
					c.t.Errorf("%d requests were lost, want 1", f.Hits())
				}
				later(time.Minute)
				c.held(h)
				if strings.HasPrefix(name, "reply") {
					book.want("it happened, once", "1", 1)
				} else {
					book.want("it did not happen", "0", 0)
				}
				wantErr(c.t, "the next write", write(c.t.Context(), h, "2"), nil)
				c.unlock(h)
			})
		})
	}
}

// A context that ends before the request is sent prevents it. One that ends later
// leaves the outcome unknown.
func TestGuardGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		h := mustLock(c.t, c.lock("a", withTimeout(30*time.Second)))
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(ctx, h, "1")
		w.pending()
		later(2 * time.Second)
		w.want("before it was sent", errGaveUp, context.DeadlineExceeded)
		later(10 * time.Second)
		c.held(h)
		book.want("before it was sent", "0", 0)

		ctx, giveUp := context.WithCancelCause(c.t.Context())
		stop := c.stopBefore(h.Lock().m, prove)
		w = c.write(ctx, h, "2")
		stop.reached()
		w.pending()
		giveUp(errGaveUp)
		w.want("after it was sent", ErrUnknownOutcome, errGaveUp, context.Canceled)
		book.want("not yet", "0", 0)
		stop.goOn()
		book.want("late", "2", 1)
		c.held(h)
		c.unlock(h)
	})
}

// Without a connection Guard waits for as long as the lock is held. A write is not
// carried over into a later session, although that may hold the lock again.
func TestGuardDuringAnOutage(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		later(2 * time.Second)
		w.pending()
		later(4 * time.Second)
		w.want("after the outage", nil)
		book.want("after the outage", "1", 1)

		c.away("a", 20*time.Second)
		synctest.Wait()
		start := time.Now()
		c.write(c.t.Context(), h, "2").want("the lease's end", ErrLost)
		if d := time.Since(start); d > 6*time.Second {
			c.t.Errorf("it took %v", d)
		}
		wantErr(c.t, "the holder", h.Err(), ErrLost)
		later(time.Minute)
		again := mustLock(c.t, l)
		later(time.Minute)
		book.want("in a later session", "1", 1)
		c.unlock(again)
	})
}

// A write that was not sent is tried again, as long as its caller waits and the lock
// is held.
func TestGuardTriesAgainWhatWasNotSent(t *testing.T) {
	type trial struct {
		away     time.Duration
		meantime func(g *guarded)
		want     error
		data     string
	}
	each(t, map[string]trial{
		"the caller waits":     {3 * time.Second, func(*guarded) {}, nil, "1"},
		"the caller has gone":  {3 * time.Second, func(g *guarded) { g.stage.Store(guardGivenUp) }, nil, "0"},
		"the lock is released": {3 * time.Second, func(g *guarded) { g.hold.Release() }, ErrReleased, "0"},
		"the lock is lost":     {20 * time.Second, func(*guarded) {}, ErrLost, "0"},
	}, func(c *cluster, test trial) {
		c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		g := &guarded{hold: h, ops: []zkio.Op{zkio.CheckOp(grantOf(c.t, h).Path, -1), zkio.SetOp(account, []byte("1"), -1)}, done: make(chan struct{})}
		c.away("a", test.away)
		synctest.Wait()
		// As if the connection had broken when a worker had taken the task: while
		// there is none, workers take no tasks.
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			g.Run(l.m.client.Session())
		}()
		for g.stage.Load() != guardSent {
			time.Sleep(time.Millisecond)
		}
		test.meantime(g)
		<-ran
		later(time.Minute)
		if g.stage.Load() != guardGivenUp {
			<-g.done
			wantErr(c.t, "guard", g.err, test.want)
		} else if isClosed(g.done) {
			c.t.Error("it went on")
		}
		if got, _, _ := c.srv.Get(account); string(got) != test.data {
			c.t.Errorf("the node has %q, want %q", got, test.data)
		}
		h.Release()
	})
}

// Close and Shutdown while a write is under way.
func TestGuardAndClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		h := mustLock(c.t, c.lock("a"))
		c.away("a", time.Minute)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		_ = h.Lock().m.Close() // no server can confirm it
		w.want("closed before it was sent", ErrClosed)
		wantErr(c.t, "closed", write(c.t.Context(), h, "1"), ErrClosed)
		book.want("closed before it was sent", "0", 0)

		h = mustLock(c.t, c.lock("b"))
		f := c.srv.Faults().SwallowReply(zktest.Match{Session: session(h.Lock().m), Path: account})
		w = c.write(c.t.Context(), h, "2")
		<-f.Hit()
		w.pending()
		_ = h.Lock().m.Close() // likewise
		w.want("closed after it was sent", ErrUnknownOutcome)
		book.want("closed after it was sent", "2", 1)

		h = mustLock(c.t, c.lock("c"))
		done := make(chan error, 1)
		go func() { done <- h.Lock().m.Shutdown(c.t.Context()) }()
		synctest.Wait()
		wantErr(c.t, "a holder during Shutdown", write(c.t.Context(), h, "3"), nil)
		h.Release()
		wantErr(c.t, "shutdown", <-done, nil)
		book.want("in the end", "3", 2)
	})
}

// The hold is released while its write waits to be sent, or is under way.
func TestGuardReleasedMeanwhile(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a", withTimeout(30*time.Second))
		h, other := mustLock(c.t, l), mustLock(c.t, l)
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		h.Release()
		later(10 * time.Second)
		w.want("released before it was sent", ErrReleased)
		book.want("released before it was sent", "0", 0)
		stop := c.stopBefore(l.m, prove)
		w = c.write(c.t.Context(), other, "2")
		stop.reached()
		end := other.Release()
		stop.goOn()
		w.want("released after it was sent", nil) // the node goes after it
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), nil)
		book.want("in the end", "2", 1)
		wantState(c.t, l, state.Free, 0)
	})
}

// Many goroutines write at the same time, through faults of all kinds: each write
// that is said to have happened did, and none that is said not to have.
func TestF055_GuardedWritesAreTrue(t *testing.T) {
	bubble(t, func(c *cluster) {
		c.account()
		l := c.lock("a")
		type count struct{ done, refused, unknown int }
		counts := make(chan count, 16)
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
		defer cancel()
		for range cap(counts) {
			go func() {
				var n count
				for ctx.Err() == nil {
					h, err := l.Lock(ctx)
					if err != nil {
						continue
					}
					for range 3 {
						bounded, stop := context.WithTimeout(ctx, 700*time.Millisecond)
						switch err := write(bounded, h, "x"); {
						case err == nil:
							n.done++
						case errors.Is(err, ErrUnknownOutcome):
							n.unknown++
						default:
							n.refused++
						}
						stop()
						time.Sleep(50 * time.Millisecond)
					}
					h.Release()
				}
				counts <- n
			}()
		}
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Second)
			switch i % 6 {
			case 0:
				c.srv.Faults().Cut(session(l.m))
			case 1:
				c.srv.Faults().DropReply(zktest.Match{Session: session(l.m), Path: account, Times: 3})
			case 2:
				c.srv.Faults().DropRequest(zktest.Match{Session: session(l.m), Path: account, Times: 3})
			case 3:
				c.away("a", 2*time.Second)
			case 4:
				for _, name := range c.nodes() {
					_ = c.srv.Delete(dir + "/" + name) // it may have gone by itself
				}
			case 5:
				c.srv.ExpireSession(session(l.m))
			}
		}
		var all count
		for range cap(counts) {
			n := <-counts
			all.done += n.done
			all.refused += n.refused
			all.unknown += n.unknown
		}
		later(time.Minute)
		_, stat, _ := c.srv.Get(account)
		if n := int(stat.Version); n < all.done || n > all.done+all.unknown {
			c.t.Errorf("%d writes happened; %d are said to have, and of %d it is not known", n, all.done, all.unknown)
		}
		if all.done < 100 || all.refused < 10 || all.unknown < 10 {
			c.t.Errorf("too little happened: %+v", all)
		}
	})
}
