// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
			expect(c.t, s.Rounds == before.Rounds+1 && s.Grants == before.Grants+1 && s.Joins+s.Entries == before.Joins+before.Entries+goroutines-1,
				"stats went from %+v to %+v", before, s)

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
	for what, test := range map[string]struct{ history, want string }{
		"no arrival":                                {"", "releasing/0 "},
		"one arrives":                               {"arrive ask", "releasing/0 fetching/1 "},
		"three arrive":                              {"arrive arrive arrive", "releasing/0 fetching/3 "},
		"one of two leaves":                         {"arrive arrive leave", "releasing/0 fetching/1 "},
		"all leave":                                 {"arrive leave", "releasing/0 fetching/0 "},
		"all leave, one comes back":                 {"arrive leave arrive", "releasing/0 fetching/1 "},
		"a waiting round fails":                     {"arrive fail", "releasing/0 releasing/0 "},
		"a failed round takes no arrivals":          {"arrive fail arrive arrive", "releasing/0 releasing/0 fetching/2 "},
		"an abandoned round fails":                  {"arrive leave fail arrive", "releasing/0 releasing/0 fetching/1 "},
		"a free round cannot fail":                  {"free fails", "releasing/0 free/0 "},
		"a round that is over cannot fail":          {"over fails", "releasing/0 "},
		"the holds of a failed round touch nothing": {"arrive arrive fail arrive 1 leave 2 leave leave", "releasing/0 releasing/0 fetching/1 "},
		"behind a closed gate":                      {"arrive shut arrive arrive", "releasing/0 fetching/1 fetching/2 "},
		"share passes a closed gate":                {"arrive shut share", "releasing/0 fetching/2 "},
		"several fail in a row": {
			"arrive fail arrive fail arrive fail arrive", "releasing/0 releasing/0 releasing/0 releasing/0 fetching/1 ",
		},
		"the first may start a round whose gate is closed": {"next shut arrive arrive", "releasing/0 fetching/1 fetching/1 "},
	} {
		t.Run(what, func(t *testing.T) {
			l, _ := logged(t)
			setWord(l, state.Pack(state.Releasing, 0))
			playChain(t, l, test.history)
			wantEq(t, "the rounds", words(l), test.want)
		})
	}
}

// playChain does what a history says: holds arrive, and the last that has come, or the one
// whose number stands before, asks for its grant or leaves, or its round fails, or its gate is shut. Or the round
// that is over, or the one behind it, which is free, fails, which has no effect.
func playChain(t *testing.T, l *Lock, history string) {
	t.Helper()
	closed := &Error{Op: "test", Err: ErrClosed}
	var holds []Hold
	var h Hold
	r := l.cur.Load()
	for step := range strings.FieldsSeq(history) {
		switch step {
		case "arrive":
			h = l.Acquire(context.Background())
			holds = append(holds, h)
		case "ask":
			h.Granted()
		case "1", "2":
			h = holds[step[0]-'1']
		case "leave":
			h.Release()
		case "share":
			wantErr(t, "share", errOf(h.Share()), nil)
		case "free", "next":
			r = r.following()
		case "shut":
			if len(holds) > 0 {
				h.share.flags.Set(state.GateClosed)
			} else {
				r.flags.Set(state.GateClosed)
			}
		case "fail":
			h.share.fail(closed)
		case "over":
		case "fails":
			r.fail(closed)
			r.failPending(closed)
			expect(t, !isClosed(r.io().signals().lost.Future().Done()), "it failed")
		}
	}
}

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
		got := words(l)
		expect(c.t, got == "retained/1 ", "the rounds are %s", got)
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
					expect(c.t, errors.As(err, &e) && e.Op == "lock" && e.Name == "jobs", "got %v", err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		wantState(c.t, l, state.Free, 0)
	})
}
