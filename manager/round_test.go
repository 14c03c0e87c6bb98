// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// However many goroutines acquire at the same moment, they share one node, one
// future and one deletion.
func TestF071_OneTripPerRound(t *testing.T) {
	const goroutines = 200
	bubble(t, func(c *cluster) {
		l, other := c.lock("a"), c.lock("b")
		mustRelease(c.t, mustLock(c.t, l)) // the directory is known from now on
		for round := range 20 {
			contended := round%2 == 1
			var stranger Hold
			if contended {
				stranger = mustLock(c.t, other)
			}
			c.takeCounts()
			before := l.Stats()

			start := make(chan struct{})
			holds := make([]Hold, goroutines)
			var wg sync.WaitGroup
			for i := range holds {
				wg.Go(func() {
					<-start
					holds[i] = l.Acquire(c.t.Context())
				})
			}
			close(start)
			wg.Wait()
			synctest.Wait()
			if contended {
				wantState(c.t, l, state.Fetching, goroutines)
				for _, h := range holds {
					pending(c.t, "grant", h.Granted())
				}
				mustRelease(c.t, stranger)
				c.wantCounts("with the other's release", map[verb]int{createNode: 1, deleteNode: 1})
				synctest.Wait()
			} else {
				// After a round with others in the queue, a list comes along.
				c.wantCounts("grant", map[verb]int{createNode: 1, list: min(round, 1), lookAtNode: 0, lookAtDir: 0})
			}
			wantState(c.t, l, state.Retained, goroutines)
			token := grantOf(c.t, holds[0]).Token
			for _, h := range holds {
				if h.Granted() != holds[0].Granted() || h.Released() != holds[0].Released() || grantOf(c.t, h).Token != token {
					c.t.Fatal("the holders of one round do not share its futures and its grant")
				}
			}
			s := l.Stats()
			if s.Rounds != before.Rounds+1 || s.Grants != before.Grants+1 || s.Joins+s.Entries != before.Joins+before.Entries+goroutines-1 {
				c.t.Errorf("stats went from %+v to %+v", before, s)
			}

			c.takeCounts()
			released := make([]*futures.Future[struct{}], goroutines)
			for i, h := range holds {
				wg.Go(func() { released[i] = h.Release() })
			}
			wg.Wait()
			synctest.Wait()
			c.wantCounts("release", map[verb]int{createNode: 0, deleteNode: 1})
			for _, f := range released {
				if f != released[0] {
					c.t.Fatal("the holders of one round do not share its end")
				}
				wantErr(c.t, "release", settled(c.t, "release", f), nil)
			}
			wantState(c.t, l, state.Free, 0)
			c.wantNodes(0)
		}
	})
}

// chain returns the rounds of a lock, beginning with the present one.
func chain(l *Lock) []*round {
	var rounds []*round
	for r := l.cur.Load(); r != nil && r != passed; r = r.next.Load() {
		rounds = append(rounds, r)
	}
	return rounds
}

// words returns the words of these rounds.
func words(l *Lock) string {
	var s string
	for _, r := range chain(l) {
		s += r.word.Load().String() + " "
	}
	return s
}

// The chain of rounds behind one that is being released. A round may not queue
// before its predecessor is released.
func TestChain(t *testing.T) {
	closed := &Error{Op: "test", Err: ErrClosed}
	arrive := func(l *Lock) Hold { return l.Acquire(context.Background()) }
	for _, test := range []struct {
		what string
		do   func(t *testing.T, l *Lock)
		want string
	}{
		{"no arrival", func(*testing.T, *Lock) {}, "releasing/0 "},
		{"one arrives", func(_ *testing.T, l *Lock) { arrive(l).Granted() }, "releasing/0 fetching/1 "},
		{"three arrive", func(_ *testing.T, l *Lock) { keep(arrive(l), arrive(l), arrive(l)) }, "releasing/0 fetching/3 "},
		{"one of two leaves", func(_ *testing.T, l *Lock) { keep(arrive(l)); arrive(l).Release() }, "releasing/0 fetching/1 "},
		{"all leave", func(_ *testing.T, l *Lock) { arrive(l).Release() }, "releasing/0 fetching/0 "},
		{"all leave, one comes back", func(_ *testing.T, l *Lock) { arrive(l).Release(); keep(arrive(l)) }, "releasing/0 fetching/1 "},
		{"a waiting round fails", func(_ *testing.T, l *Lock) { h := arrive(l); h.share.fail(closed) }, "releasing/0 releasing/0 "},
		{"a failed round takes no arrivals", func(_ *testing.T, l *Lock) {
			h := arrive(l)
			h.share.fail(closed)
			keep(arrive(l), arrive(l))
		}, "releasing/0 releasing/0 fetching/2 "},
		{"several fail in a row", func(_ *testing.T, l *Lock) {
			for range 3 {
				arrive(l).share.fail(closed)
			}
			keep(arrive(l))
		}, "releasing/0 releasing/0 releasing/0 releasing/0 fetching/1 "},
		{"an abandoned round fails", func(_ *testing.T, l *Lock) {
			h := arrive(l)
			h.Release()
			h.share.fail(closed)
			keep(arrive(l))
		}, "releasing/0 releasing/0 fetching/1 "},
		{"a free round cannot fail", func(t *testing.T, l *Lock) {
			n := l.cur.Load().following()
			n.fail(closed)
			if isClosed(n.io().signals().lost.Future().Done()) {
				t.Error("it failed")
			}
		}, "releasing/0 free/0 "},
		{"a round that is over cannot fail", func(t *testing.T, l *Lock) {
			r := l.cur.Load()
			r.fail(closed)
			r.failPending(closed)
			if isClosed(r.io().signals().lost.Future().Done()) {
				t.Error("it failed")
			}
		}, "releasing/0 "},
		{"the holds of a failed round touch nothing", func(_ *testing.T, l *Lock) {
			a, b := arrive(l), arrive(l)
			a.share.fail(closed)
			keep(arrive(l))
			a.Release()
			b.Release()
			b.Release()
		}, "releasing/0 releasing/0 fetching/1 "},
		{"behind a closed gate", func(_ *testing.T, l *Lock) {
			h := arrive(l)
			h.share.flags.Set(state.GateClosed)
			keep(arrive(l), arrive(l))
		}, "releasing/0 fetching/1 fetching/2 "},
		{"the first may start a round whose gate is closed", func(_ *testing.T, l *Lock) {
			l.cur.Load().following().flags.Set(state.GateClosed)
			keep(arrive(l), arrive(l))
		}, "releasing/0 fetching/1 fetching/1 "},
		{"share passes a closed gate", func(t *testing.T, l *Lock) {
			h := arrive(l)
			h.share.flags.Set(state.GateClosed)
			if _, err := h.Share(); err != nil {
				t.Error(err)
			}
		}, "releasing/0 fetching/2 "},
	} {
		t.Run(test.what, func(t *testing.T) {
			l, _ := logged(t)
			setWord(l, state.Pack(state.Releasing, 0))
			test.do(t, l)
			if got := words(l); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// keep marks holds that only have to exist.
func keep(...Hold) {}

// Rounds that fail while their predecessor is being released end in the order of
// the chain, and the first living one queues.
func TestChainOfFailedRounds(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		first := mustLock(c.t, l)
		stop := c.stopBefore(l.m, deleteNode)
		first.Release()
		stop.reached()
		var failed []Hold
		for i := range 5 {
			h := l.Acquire(c.t.Context())
			failed = append(failed, h)
			h.share.fail(&Error{Op: "test", Name: fmt.Sprint(i), Err: ErrClosed})
		}
		left := l.Acquire(c.t.Context())
		left.Release()
		alive := l.Acquire(c.t.Context())
		synctest.Wait()
		for _, h := range failed {
			wantErr(c.t, "grant", settled(c.t, "grant", h.Granted()), ErrClosed)
			pending(c.t, "end of a failed round", h.Released())
		}
		c.takeCounts()
		stop.goOn()
		for _, h := range failed {
			wantErr(c.t, "end of a failed round", settled(c.t, "end", h.Released()), ErrClosed)
		}
		wantErr(c.t, "the living round", alive.Err(), nil)
		c.wantCounts("all", map[verb]int{createNode: 1})
		if got := words(l); got != "retained/1 " {
			c.t.Errorf("the rounds are %s", got)
		}
		mustRelease(c.t, alive)
	})
}

// A dead round that an old Hold keeps reachable keeps no other round reachable: a
// program that keeps old holds does not accumulate rounds.
func TestOldHoldsKeepNoRounds(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		olds := make([]Hold, 0, 100)
		for range 100 {
			h := mustLock(c.t, l)
			olds = append(olds, h)
			mustRelease(c.t, h)
		}
		for _, h := range olds {
			if n := roundOf(h).next.Load(); n != passed {
				c.t.Fatal("a round that is over points to another one")
			}
			wantErr(c.t, "an old hold", h.Err(), ErrReleased)
		}
	})
}

// patience bounds waits for a new session or a retry.
const patience = time.Minute

// waitUntil lets virtual time pass until ok, up to patience.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within %v: %s", patience, what)
			return
		}
	}
	synctest.Wait()
}

// A round that fails for good ends in one step, however many newcomers keep
// arriving. They do not delay it, and each gets the answer of its own round.
func TestF072_FailingRoundsEndUnderLoad(t *testing.T) {
	bubble(t, func(c *cluster) {
		// An ephemeral directory cannot have children, so no round gets a node.
		m := c.open("a")
		if err := c.srv.CreateEphemeral(session(m), "/holdfast/jobs", nil); err != nil {
			c.t.Fatal(err)
		}
		l := exclusive(c.t, m, "jobs")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					h, err := l.Lock(c.t.Context())
					if err == nil {
						c.t.Error("got a lock that cannot be granted")
						h.Release()
					}
					var e *Error
					if !errors.As(err, &e) || e.Op != "lock" || e.Name != "jobs" {
						c.t.Errorf("got %v", err)
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)
	})
}
