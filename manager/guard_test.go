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

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// account is the node that the tests write under the lock's protection.
const account = "/account"

// account makes the node, and returns what a test looks at it with.
func (c *cluster) account() *ledger {
	c.t.Helper()
	if err := c.srv.Create(account, []byte("0")); err != nil {
		c.t.Fatal(err)
	}
	return &ledger{c}
}

type ledger struct{ c *cluster }

// want checks what is in the node, and how often it was written.
func (l *ledger) want(what, data string, version int32) {
	l.c.t.Helper()
	got, stat, _ := l.c.srv.Get(account)
	if string(got) != data || stat.Version != version {
		l.c.t.Errorf("%s: the node has %q, version %d; want %q, version %d", what, got, stat.Version, data, version)
	}
}

// write is a guarded write of data.
func write(ctx context.Context, h Hold, data string) error {
	_, err := h.Guard(ctx, zkio.SetOp(account, []byte(data), -1))
	return err
}

// A writing is a guarded write that runs while the test goes on.
type writing struct{ err chan error }

func (c *cluster) write(ctx context.Context, h Hold, data string) writing {
	w := writing{make(chan error, 1)}
	go func() { w.err <- write(ctx, h, data) }()
	synctest.Wait()
	return w
}

// pending checks that it has not ended.
func (w writing) pending(t *testing.T, what string) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-w.err:
		t.Errorf("%s: Guard has ended with %v", what, err)
		w.err <- err
	default:
	}
}

// want waits for its end.
func (w writing) want(t *testing.T, what string, want error) {
	t.Helper()
	err := <-w.err
	wantErr(t, what, err, want)
	for _, other := range []error{ErrUnknownOutcome, ErrLost, ErrReleased, ErrClosed} {
		if !errors.Is(want, other) && errors.Is(err, other) {
			t.Errorf("%s: %v is %v too", what, err, other)
		}
	}
	w.err <- err
}

// Holds of every kind guard what they write, in one request that also renews the
// lease.
func TestGuard(t *testing.T) {
	for _, test := range []struct {
		what string
		take func(c *cluster) Hold
	}{
		{"exclusive", func(c *cluster) Hold { return mustLock(c.t, c.lock("a")) }},
		{"read", func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Reader()) }},
		{"write", func(c *cluster) Hold { return mustLock(c.t, c.rw("a").Writer()) }},
		{"read beside write", func(c *cluster) Hold {
			rw := c.rw("a")
			w := mustLock(c.t, rw.Writer())
			defer w.Release()
			return mustLock(c.t, rw.Reader())
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				book := c.account()
				h := test.take(c)
				synctest.Wait()
				c.wantNodes(1)
				before := h.round.io().tenure.lease.Remaining()
				time.Sleep(time.Second)
				n := c.tally(h.Lock().m)
				results, err := h.Guard(c.t.Context(),
					zkio.CreateOp("/made", []byte("x"), nil), zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, 1), zkio.DeleteOp("/made", -1))
				if err != nil || len(results) != 4 || results[0].Path != "/made" || results[1].Stat.Version != 1 {
					c.t.Errorf("got %+v, %v", results, err)
				}
				n.want("a guarded transaction", "multi=1")
				book.want("after it", "1", 1)
				if left := h.round.io().tenure.lease.Remaining(); left < before-moment {
					c.t.Errorf("the lease has %v left, and had %v: it was not renewed", left, before)
				}
				nested, err := h.Reenter()
				wantErr(c.t, "reenter", err, nil)
				wantErr(c.t, "through another handle", write(c.t.Context(), nested, "2"), nil)
				nested.Release()
				mustRelease(c.t, h)
				wantErr(c.t, "after the release", write(c.t.Context(), h, "3"), ErrReleased)
				book.want("in the end", "2", 2)
			})
		})
	}
}

// What cannot be guarded is refused before anything is sent.
func TestGuardRefuses(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		own := grantOf(c.t, h).Path
		n := c.tally(l.m)
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
		n.want("what is refused", "")
		for _, path := range []string{"/zookeepers", dir + "/data", dir + "s", "/holdfast"} {
			if _, err := h.Guard(c.t.Context(), zkio.CheckOp(path, 77)); errors.Is(err, zkio.ErrBadArguments) {
				c.t.Errorf("%s: %v", path, err)
			}
		}
		mustRelease(c.t, h)
	})
}

// Who does not hold the lock cannot write, and is told why.
func TestGuardWithoutTheLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		a, b := c.lock("a"), c.lock("b")
		wantErr(c.t, "the zero Hold", write(c.t.Context(), Hold{}, "1"), ErrReleased)
		h := mustLock(c.t, a)
		waiting := b.Acquire(c.t.Context())
		synctest.Wait()
		n := c.tally(b.m)
		wantErr(c.t, "while it waits", write(c.t.Context(), waiting, "1"), ErrNotGranted)
		n.want("while it waits", "")
		ended, cancel := context.WithCancelCause(c.t.Context())
		cancel(errGaveUp)
		n = c.tally(a.m)
		wantErr(c.t, "with a context that has ended", write(ended, h, "1"), errGaveUp)
		n.want("with a context that has ended", "")
		mustRelease(c.t, h)
		wantErr(c.t, "released", write(c.t.Context(), h, "1"), ErrReleased)
		synctest.Wait()
		wantErr(c.t, "granted by now", write(c.t.Context(), waiting, "1"), nil)
		c.expire(b.m)
		wantErr(c.t, "the session is over", write(c.t.Context(), waiting, "2"), ErrLost)
		book.want("in the end", "1", 1)
	})
}

// ZooKeeper refuses one of the operations: which, and why. Nothing is changed,
// and the lock is held on.
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
				ops := []zkio.Op{zkio.SetOp(account, []byte("1"), 0), zkio.CheckOp(account, -1)}
				ops = append(ops[:at:at], append([]zkio.Op{test.op}, ops[at:]...)...)
				results, err := h.Guard(c.t.Context(), ops...)
				wantErr(c.t, test.op.Path(), err, test.want)
				if errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownOutcome) || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("operation %d: ", at)) {
					c.t.Errorf("operation %d: got %v", at, err)
				}
				for i, res := range results {
					if (res.Err != nil) != (i == at) || i == at && !errors.Is(res.Err, test.want) {
						c.t.Errorf("operation %d: results %+v", at, results)
					}
				}
				if len(results) != len(ops) {
					c.t.Errorf("operation %d: %d results", at, len(results))
				}
			}
		}
		book.want("in the end", "0", 0)
		wantHeld(c.t, "the holder", h)
		mustRelease(c.t, h)
	})
}

// The holder is stopped between its last check and the write, and another
// process has the lock when the write arrives: it has no effect. That is what no
// check and no clock can do.
func TestF055_GuardOfAStaleHolder(t *testing.T) {
	for _, test := range []struct {
		what string
		lose func(c *cluster, m *Manager, node string)
		want error
	}{
		{"its node was deleted", func(c *cluster, _ *Manager, node string) { c.remove(node) }, ErrLost},
		// Its answer cannot reach the session any more, so nobody can know.
		{"its session expired", func(c *cluster, m *Manager, _ string) { c.expire(m) }, ErrUnknownOutcome},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				book := c.account()
				a, b := c.lock("a"), c.lock("b")
				h := mustLock(c.t, a)
				also := mustLock(c.t, a)
				waiting := b.Acquire(c.t.Context())
				synctest.Wait()
				stop := c.stopBefore(a.m, prove)
				w := c.write(c.t.Context(), h, "stale")
				stop.reached()
				test.lose(c, a.m, grantOf(c.t, h).Path)
				_, err := waiting.Granted().Wait(c.t.Context())
				wantErr(c.t, "the next holder's grant", err, nil)
				wantErr(c.t, "the next holder", write(c.t.Context(), waiting, "new"), nil)
				stop.goOn()
				w.want(c.t, "the stale holder", test.want)
				wantErr(c.t, "and again", write(c.t.Context(), h, "stale again"), ErrLost)
				wantErr(c.t, "its other holder", also.Err(), ErrLost)
				book.want("in the end", "new", 1)
				wantHeld(c.t, "the next holder", waiting)
				mustRelease(c.t, waiting)
				h.Release()
				also.Release()
				mustRelease(c.t, mustLock(c.t, a))
			})
		})
	}
}

// The first news that the node is gone comes with the transaction's answer: the
// round is over for everybody.
func TestGuardFindsTheNodeGone(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		a := c.lock("a")
		h, also := mustLock(c.t, a), mustLock(c.t, a)
		// At once: the node has no watch yet.
		c.remove(grantOf(c.t, h).Path)
		wantHeld(c.t, "nobody knows", h)
		wantErr(c.t, "the write", write(c.t.Context(), h, "1"), ErrLost)
		if !isClosed(also.Lost()) {
			c.t.Error("the other holder is not told")
		}
		wantErr(c.t, "the other holder", also.Err(), ErrLost)
		book.want("in the end", "0", 0)
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		also.Release()
		mustRelease(c.t, mustLock(c.t, a))
	})
}

// The answer is lost: nobody knows whether the write happened. It is not tried
// again, and the lock is held on.
func TestGuardWithoutAnAnswer(t *testing.T) {
	for name, loss := range losses {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				book := c.account()
				h := mustLock(c.t, c.lock("a", func(cfg *Config) { cfg.SessionTimeout = 30 * time.Second }))
				f := loss(c, zktest.Match{Session: session(h.Lock().m), Path: account})
				c.write(c.t.Context(), h, "1").want(c.t, "the write", ErrUnknownOutcome)
				if f.Hits() != 1 {
					c.t.Errorf("%d requests were lost, want 1", f.Hits())
				}
				later(time.Minute)
				wantHeld(c.t, "the holder", h)
				if strings.HasPrefix(name, "reply") {
					book.want("it happened, once", "1", 1)
				} else {
					book.want("it did not happen", "0", 0)
				}
				wantErr(c.t, "the next write", write(c.t.Context(), h, "2"), nil)
				mustRelease(c.t, h)
			})
		})
	}
}

// The context ends before the request is sent: it is not sent. If it ends after
// that, nobody knows.
func TestGuardGivenUp(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		h := mustLock(c.t, c.lock("a", func(cfg *Config) { cfg.SessionTimeout = 30 * time.Second }))
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(ctx, h, "1")
		w.pending(c.t, "without a connection")
		later(2 * time.Second)
		w.want(c.t, "before it was sent", errGaveUp)
		w.want(c.t, "before it was sent", context.DeadlineExceeded)
		later(10 * time.Second)
		wantHeld(c.t, "the holder", h)
		book.want("before it was sent", "0", 0)

		ctx, giveUp := context.WithCancelCause(c.t.Context())
		stop := c.stopBefore(h.Lock().m, prove)
		w = c.write(ctx, h, "2")
		stop.reached()
		w.pending(c.t, "while the server thinks")
		giveUp(errGaveUp)
		synctest.Wait()
		err := <-w.err
		wantErr(c.t, "after it was sent", err, ErrUnknownOutcome)
		wantErr(c.t, "after it was sent", err, errGaveUp)
		wantErr(c.t, "after it was sent", err, context.Canceled)
		book.want("not yet", "0", 0)
		stop.goOn()
		book.want("late", "2", 1)
		wantHeld(c.t, "the holder", h)
		mustRelease(c.t, h)
	})
}

// While there is no connection Guard waits, as long as the lock can be held.
func TestGuardDuringAnOutage(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		later(2 * time.Second)
		w.pending(c.t, "without a connection")
		later(4 * time.Second)
		w.want(c.t, "after the outage", nil)
		book.want("after the outage", "1", 1)

		// The lock is lost meanwhile: the writer is told then.
		c.away("a", 20*time.Second)
		synctest.Wait()
		start := time.Now()
		w = c.write(c.t.Context(), h, "2")
		w.want(c.t, "the lease's end", ErrLost)
		if d := time.Since(start); d > 6*time.Second {
			c.t.Errorf("it took %v", d)
		}
		wantErr(c.t, "the holder", h.Err(), ErrLost)
		later(time.Minute)
		again := mustLock(c.t, l)
		later(time.Minute)
		book.want("in a later round", "1", 1)
		mustRelease(c.t, again)
	})
}

// The session that the lock was granted in is over: what was asked for in it is
// not done in the next one, although that may hold the lock again.
func TestGuardStaysInItsSession(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		g := &guarded{hold: h, ops: []zkio.Op{zkio.CheckOp("/", -1), zkio.SetOp(account, []byte("1"), -1)}, done: make(chan struct{})}
		c.expire(l.m)
		again := mustLock(c.t, l)
		// Even if nobody had noticed: the call itself cannot succeed.
		g.hold = again
		again.round.io().tenure.session = h.round.io().tenure.session
		g.Run(l.m.client.Session())
		wantErr(c.t, "in another session", g.err, ErrLost)
		book.want("in another session", "0", 0)
		again.round.io().tenure.session = l.m.client.Session()
		mustRelease(c.t, again)
		h.Release()
	})
}

// What was surely not sent is tried again, as long as somebody waits for it and
// the lock is held.
func TestGuardTriesAgainWhatWasNotSent(t *testing.T) {
	for _, test := range []struct {
		what     string
		away     time.Duration
		meantime func(g *guarded)
		want     error
		data     string
	}{
		{"somebody waits", 3 * time.Second, func(*guarded) {}, nil, "1"},
		{"nobody waits", 3 * time.Second, func(g *guarded) { g.stage.Store(guardGivenUp) }, nil, "0"},
		{"released", 3 * time.Second, func(g *guarded) { g.hold.Release() }, ErrReleased, "0"},
		{"lost", 20 * time.Second, func(*guarded) {}, ErrLost, "0"},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				c.account()
				l := c.lock("a")
				h := mustLock(c.t, l)
				g := &guarded{hold: h, ops: []zkio.Op{zkio.CheckOp(grantOf(c.t, h).Path, -1), zkio.SetOp(account, []byte("1"), -1)}, done: make(chan struct{})}
				c.away("a", test.away)
				synctest.Wait()
				// As if the connection had broken after a worker had taken the task:
				// without one, workers take nothing.
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
				if test.what == "nobody waits" {
					if isClosed(g.done) {
						c.t.Error("it went on")
					}
				} else {
					<-g.done
					wantErr(c.t, "guard", g.err, test.want)
				}
				got, _, _ := c.srv.Get(account)
				if string(got) != test.data {
					c.t.Errorf("the node has %q, want %q", got, test.data)
				}
				h.Release()
			})
		})
	}
}

// Close and Shutdown while a write is under way.
func TestGuardAndClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a")
		h := mustLock(c.t, l)
		c.away("a", time.Minute)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		_ = l.m.Close() // nobody can confirm it
		w.want(c.t, "closed before it was sent", ErrClosed)
		wantErr(c.t, "closed", write(c.t.Context(), h, "1"), ErrClosed)
		book.want("closed before it was sent", "0", 0)

		l = c.lock("b")
		h = mustLock(c.t, l)
		f := c.srv.Faults().SwallowReply(zktest.Match{Session: session(l.m), Path: account})
		w = c.write(c.t.Context(), h, "2")
		<-f.Hit()
		w.pending(c.t, "without an answer")
		_ = l.m.Close() // as above
		w.want(c.t, "closed after it was sent", ErrUnknownOutcome)
		book.want("closed after it was sent", "2", 1)

		l = c.lock("c")
		h = mustLock(c.t, l)
		done := make(chan error, 1)
		go func() { done <- l.m.Shutdown(c.t.Context()) }()
		synctest.Wait()
		wantErr(c.t, "a holder during Shutdown", write(c.t.Context(), h, "3"), nil)
		h.Release()
		wantErr(c.t, "shutdown", <-done, nil)
		book.want("in the end", "3", 2)
	})
}

// The hold is released while its write waits to be sent.
func TestGuardReleasedMeanwhile(t *testing.T) {
	bubble(t, func(c *cluster) {
		book := c.account()
		l := c.lock("a", func(cfg *Config) { cfg.SessionTimeout = 30 * time.Second })
		h, other := mustLock(c.t, l), mustLock(c.t, l)
		c.away("a", 3*time.Second)
		synctest.Wait()
		w := c.write(c.t.Context(), h, "1")
		h.Release()
		later(10 * time.Second)
		w.want(c.t, "released before it was sent", ErrReleased)
		book.want("released before it was sent", "0", 0)
		stop := c.stopBefore(l.m, prove)
		w = c.write(c.t.Context(), other, "2")
		stop.reached()
		end := other.Release()
		stop.goOn()
		w.want(c.t, "released after it was sent", nil) // the node goes after it
		later(time.Second)
		wantErr(c.t, "release", settled(c.t, "release", end), nil)
		book.want("in the end", "2", 1)
		wantState(c.t, l, state.Free, 0)
	})
}

// Many goroutines write at the same time, through all that can happen: every
// write that is said to have happened did, and none that is said not to have.
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
