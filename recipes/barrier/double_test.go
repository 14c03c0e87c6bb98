// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/racing"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/access"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A process is a manager and its barrier.
type process struct {
	m *manager.Manager
	d *Double
}

// processOf returns the process of m, at a barrier of so many members.
func processOf(t *testing.T, m *manager.Manager, members int) process {
	t.Helper()
	d, err := NewDouble(m, "b", members)
	if err != nil {
		t.Fatal(err)
	}
	return process{m, d}
}

// processes opens n processes, called a, b, …
func processes(c *recipetest.Cluster, n, members int) []process {
	c.T.Helper()
	all := make([]process, n)
	for i := range all {
		all[i] = processOf(c.T, c.Open(string(rune('a'+i))), members)
	}
	return all
}

func enter(t *testing.T, ctx context.Context, p process) *recipetest.Pending[*Stage] { //nolint:revive // t comes first in tests
	return recipetest.Begin(t, func() (*Stage, error) { return p.d.Enter(ctx) })
}

func leave(t *testing.T, ctx context.Context, st *Stage) *recipetest.Pending[struct{}] { //nolint:revive // t comes first in tests
	return recipetest.BeginErr(t, func() error { return st.Leave(ctx) })
}

// enterAll has all enter one after the other, and returns their stages of one round.
func enterAll(c *recipetest.Cluster, all ...process) []*Stage {
	t := c.T
	t.Helper()
	var waits []*recipetest.Pending[*Stage]
	for i, p := range all {
		waits = append(waits, enter(t, t.Context(), p))
		c.Until("it has entered", func() bool { return len(inside(c, p.m, inPrefix)) > i || waits[0].Over() })
	}
	var stages []*Stage
	for _, w := range waits {
		st, err := w.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if stages = append(stages, st); st.Round != stages[0].Round || !slices.Equal(st.Members, stages[0].Members) {
			t.Errorf("one member of the round is in %d with %v, another in %d with %v", stages[0].Round, stages[0].Members, st.Round, st.Members)
		}
	}
	return stages
}

// leaveAll has all leave, and checks what they are told: nil, or which members have died.
func leaveAll(c *recipetest.Cluster, died []string, stages ...*Stage) {
	c.T.Helper()
	var waits []*recipetest.Pending[struct{}]
	for _, st := range stages {
		waits = append(waits, leave(c.T, c.T.Context(), st))
	}
	for _, w := range waits {
		_, err := w.Wait()
		wantDied(c.T, err, died...)
	}
}

// wantDied checks the error of Leave. Died has the labels of those that have died.
func wantDied(t *testing.T, err error, died ...string) {
	t.Helper()
	var got []string
	if broken, ok := errors.AsType[*BrokenError](err); ok {
		for _, id := range broken.Died {
			label, _, _ := strings.Cut(id, "@")
			got = append(got, label)
		}
	} else if err != nil {
		t.Error(err)
	}
	if slices.Sort(got); !slices.Equal(got, died) {
		t.Errorf("told that %q have died, and not %q: %v", got, died, err)
	}
}

// inside returns the names of the barrier's nodes with this prefix, as m's server has them.
func inside(c *recipetest.Cluster, m *manager.Manager, prefix string) []string {
	c.T.Helper()
	var names []string
	err := m.Access().Call(context.Background(), func(s *zkio.Session) error {
		if err := s.Sync(c.Root + "/b/members"); err != nil {
			return err
		}
		all, _, err := s.Children(c.Root + "/b/members")
		names = slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		return access.Unless(err, zkio.ErrNoNode)
	}, nil)
	if err != nil {
		c.T.Error(err)
	}
	return names
}

// untilInside waits until so many nodes have this prefix.
func untilInside(c *recipetest.Cluster, m *manager.Manager, prefix string, n int) {
	c.T.Helper()
	c.Until(fmt.Sprintf("there are %d nodes %s*", n, prefix), func() bool { return len(inside(c, m, prefix)) == n })
}

// wantWaiting checks that a call waits, in a bubble for so long that it has looked again ten
// times.
func wantWaiting[T any](c *recipetest.Cluster, what string, p *recipetest.Pending[T]) {
	c.T.Helper()
	wait := 200 * time.Millisecond
	if c.Srv != nil {
		wait = 2 * time.Minute
	}
	select {
	case <-p.Done():
		c.T.Errorf("%s: it did not wait: %v", what, p.Err())
	case <-time.After(wait):
	}
}

// Processes enter and leave together, round after round, and nothing is left.
func TestRounds(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 3, 3)
		for round := range uint64(3) {
			first := enter(t, t.Context(), all[0])
			second := enter(t, t.Context(), all[1])
			wantWaiting(c, "the first two", first)
			wantWaiting(c, "the first two", second)
			third := enter(t, t.Context(), all[2]).Must("the third")
			a := first.Must("the first")
			b := second.Must("the second")
			for _, st := range []*Stage{a, b, third} {
				if st.Round != round+1 || len(st.Members) != 3 || !strings.HasPrefix(st.Members[2], "c@") {
					t.Errorf("round %d with %q", st.Round, st.Members)
				}
				recipetest.WantErr(t, "inside", st.Err(), nil)
			}
			leaves := leave(t, t.Context(), a)
			leaves2 := leave(t, t.Context(), third)
			wantWaiting(c, "two leave", leaves)
			wantWaiting(c, "two leave", leaves2)
			recipetest.WantErr(t, "the last leaves", b.Leave(t.Context()), nil)
			leaves.WantErr("the first leaves", nil)
			leaves2.WantErr("the second leaves", nil)
			recipetest.WantErr(t, "again", a.Leave(t.Context()), nil)
		}
		untilInside(c, all[0].m, "", 0)
		c.WantNoWatches()
	})
}

// The documentation says what a round costs.
func TestCost(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 5
		all := processes(c, n, n)
		leaveAll(c, nil, enterAll(c, all...)...) // makes the directories
		var waits []*recipetest.Pending[*Stage]
		got := c.Count(func() {
			for _, p := range all {
				waits = append(waits, enter(t, t.Context(), p))
				synctest.Wait()
			}
		})
		// Each creates its node, and the last begins the round. Each reads the record and
		// looks, and looks when the round has begun, at its node, too.
		writes := got[zktest.OpCreate] + got[zktest.OpMulti] + got[zktest.OpDelete] + got[zktest.OpSetData]
		reads := got[zktest.OpGetData] + got[zktest.OpGetChildren2] + got[zktest.OpExists]
		if writes != n+1 || reads != 8*n || got[zktest.OpMultiRead] != 1 {
			t.Errorf("%d enter with %d writes and %d reads: %v", n, writes, reads, got)
		}
		got = c.Count(func() {
			var leaves []*recipetest.Pending[struct{}]
			for _, w := range waits {
				leaves = append(leaves, leave(t, t.Context(), w.Must("enter")))
				synctest.Wait()
			}
			for _, l := range leaves {
				l.WantErr("leave", nil)
			}
		})
		// Each leaves by a transaction, and one ends the round.
		writes = got[zktest.OpCreate] + got[zktest.OpMulti] + got[zktest.OpDelete] + got[zktest.OpSetData]
		if writes != n+1 {
			t.Errorf("%d leave with %d writes: %v", n, writes, got)
		}
		t.Logf("%d leave: %v", n, got)
	})
}

// Each request of one that enters and leaves is lost, or its answer, and nothing comes of it: of
// the one that waits for the other, and of the one that begins the round.
func TestF260_LostRequests(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "last": false} {
		t.Run(name, func(t *testing.T) {
			recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
				all := []process{processOf(t, v.M, 2), processOf(t, v.Open("other"), 2)}
				if !first {
					slices.Reverse(all)
				}
				for round := range 3 {
					if round == 2 {
						v.Calm()
					}
					stages := enterAll(v.Cluster, all...)
					if stages[0].Round > 3 {
						t.Errorf("round %d", stages[0].Round)
					}
					leaveAll(v.Cluster, nil, stages...)
				}
				recipetest.Later(time.Minute)
				untilInside(v.Cluster, v.M, "", 0)
			})
		})
	}
}

// A process that dies before the round begins does not count: another one is awaited.
func TestF261_DeathBeforeTheRound(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 4, 3)
		first := enter(t, t.Context(), all[0])
		untilInside(c, all[0].m, inPrefix, 1)
		dies := enter(t, t.Context(), all[1])
		untilInside(c, all[0].m, inPrefix, 2)
		recipetest.WantErr(t, "close", all[1].m.Close(), nil)
		dies.WantErr("the one that is closed", manager.ErrClosed)
		untilInside(c, all[0].m, inPrefix, 1)
		third := enter(t, t.Context(), all[2])
		wantWaiting(c, "two of three", third)
		fourth := enter(t, t.Context(), all[3]).Must("the fourth")
		a := first.Must("the first")
		b := third.Must("the third")
		leaveAll(c, nil, a, b, fourth)
	})
}

// A process dies when the last that enters knows already with which others it is to begin.
func TestF261_DeathAtTheBegin(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 4, 3)
		leaveAll(c, nil, enterAll(c, all[1:]...)...) // makes the directories
		dies := enter(t, t.Context(), all[0])
		synctest.Wait()
		waits := enter(t, t.Context(), all[1])
		synctest.Wait()
		requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(all[2].m))
		last := enter(t, t.Context(), all[2])
		for range 6 { // the record, its node, a look of three, and the nodes of all
			synctest.Wait()
			requests.Let(1)
		}
		synctest.Wait()
		recipetest.WantErr(t, "close", all[0].m.Close(), nil)
		dies.WantErr("the dead one", manager.ErrClosed)
		requests.Remove()
		wantWaiting(c, "two of three", last)
		d := enter(t, t.Context(), all[3]).Must("the fourth")
		b := waits.Must("the second")
		st := last.Must("the third")
		leaveAll(c, nil, b, st, d)
	})
}

// If members die inside, the others are told when all of them have left, and the next round
// is as any other.
func TestF262_DeathInside(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 5, 4)
		stages := enterAll(c, all[:4]...)
		recipetest.WantErr(t, "close", all[1].m.Close(), nil)
		if !recipetest.IsClosed(stages[1].Lost()) {
			t.Error("the dead one is not lost")
		}
		recipetest.WantErr(t, "the dead one leaves", stages[1].Leave(t.Context()), manager.ErrClosed)
		waits := leave(t, t.Context(), stages[0])
		wantWaiting(c, "two are inside", waits)
		recipetest.WantErr(t, "close", all[3].m.Close(), nil)
		wantWaiting(c, "one is inside", waits)
		err := stages[2].Leave(t.Context())
		wantDied(t, err, "b", "d")
		wantDied(t, waits.Err(), "b", "d")
		if want := `holdfast: leave "b": round 1 is broken: 2 died inside: b@`; !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s…", err, want)
		}
		// The last one inside dies: who has left learns of it, and the next round begins although
		// this one has no end yet.
		again := processes(c, 2, 4)
		second := enterAll(c, all[0], all[2], again[0], all[4])
		first := leave(t, t.Context(), second[0])
		leaves := leave(t, t.Context(), second[1])
		leaves2 := leave(t, t.Context(), second[3])
		wantWaiting(c, "one is inside", first)
		recipetest.WantErr(t, "close", again[0].m.Close(), nil)
		for _, w := range []*recipetest.Pending[struct{}]{first, leaves, leaves2} {
			wantDied(t, w.Err(), "a")
		}
		leaveAll(c, nil, enterAll(c, all[0], all[2], again[1], all[4])...)
	})
}

// Of three, the first leaves, the second dies, and the third is inside: the first waits.
func TestF263_PrematureLeave(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 3, 3)
		for i := range times(c, 12) { // by their names, which are random, one or the other watches the dead one
			stages := enterAll(c, all...)
			leaves, dies, stays := i%3, (i+1)%3, (i+2)%3
			waits := leave(t, t.Context(), stages[leaves])
			untilInside(c, all[leaves].m, leftPrefix, 1)
			// An administrator deletes its node, which is death to the others.
			err := all[leaves].m.Access().Call(t.Context(), func(s *zkio.Session) error {
				return s.Delete(c.Root+"/b/members/"+inPrefix+stages[dies].name, -1)
			}, nil)
			recipetest.WantErr(t, "delete", err, nil)
			<-stages[dies].Lost()
			recipetest.WantErr(t, "the dead one", stages[dies].Err(), ErrLost)
			wantWaiting(c, "one is inside", waits)
			wantDied(t, stages[stays].Leave(t.Context()), string(rune('a'+dies)))
			wantDied(t, waits.Err(), string(rune('a'+dies)))
			recipetest.WantErr(t, "the dead one leaves", stages[dies].Leave(t.Context()), ErrLost)
		}
	})
}

// A member that has left sees that another one is inside, which leaves before the first can
// watch it: that does not end the round, since a further one is inside.
func TestF263_LeavesBeforeItIsWatched(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 4, 4)
		managers := map[string]*manager.Manager{}
		stages := enterAll(c, all...)
		for i, st := range stages {
			managers[st.name] = all[i].m
		}
		slices.SortFunc(stages, func(a, b *Stage) int { return strings.Compare(a.name, b.name) })
		waits := leave(t, t.Context(), stages[0])
		synctest.Wait() // it watches the second
		requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(managers[stages[0].name]))
		second := leave(t, t.Context(), stages[1])
		synctest.Wait()
		requests.Let(2) // the record and the list, in which the third is inside
		synctest.Wait()
		third := leave(t, t.Context(), stages[2])
		synctest.Wait()
		requests.Remove()
		wantWaiting(c, "one is inside", waits)
		wantDied(t, stages[3].Leave(t.Context()))
		for _, l := range []*recipetest.Pending[struct{}]{waits, second, third} {
			wantDied(t, l.Err())
		}
	})
}

// The session ends, or an administrator deletes the node: who waits enters again, and who is
// inside has lost its place.
func TestF264_SessionEnds(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, m *manager.Manager){
		"expired": func(c *recipetest.Cluster, m *manager.Manager) { c.Expire(m) },
		"deleted": func(c *recipetest.Cluster, m *manager.Manager) {
			for _, name := range c.Srv.Children("/holdfast/b/members") {
				if _, stat, _ := c.Srv.Get("/holdfast/b/members/" + name); stat.EphemeralOwner == recipetest.SessionOf(m) {
					c.Remove("/holdfast/b/members/" + name)
				}
			}
			recipetest.Later(20 * time.Second)
		},
	}, func(t *testing.T, c *recipetest.Cluster, end func(c *recipetest.Cluster, m *manager.Manager)) {
		all := processes(c, 2, 2)
		first := enter(t, t.Context(), all[0])
		synctest.Wait()
		end(c, all[0].m)
		wantWaiting(c, "alone", first)
		if n := len(inside(c, all[0].m, inPrefix)); n != 1 {
			t.Errorf("%d nodes", n)
		}
		b := enter(t, t.Context(), all[1]).Must("the second")
		a := first.Must("the first")
		ctx, done := a.Context(t.Context())
		defer done()
		end(c, all[0].m)
		<-a.Lost()
		recipetest.WantErr(t, "lost", a.Err(), ErrLost)
		synctest.Wait()
		recipetest.WantErr(t, "its context", context.Cause(ctx), ErrLost)
		wantDied(t, b.Leave(t.Context()), "a")
		recipetest.WantErr(t, "leave", a.Leave(t.Context()), ErrLost)
	})
}

// The session ends with a request under way by which the process begins the round, or leaves.
// Afterwards it finds out what has become of it.
func TestF264_SessionEndsUnderWay(t *testing.T) {
	recipetest.Bubbles(t, map[string]bool{"the request is lost": false, "the answer is lost": true}, func(t *testing.T, c *recipetest.Cluster, done bool) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		session := recipetest.SessionOf(all[0].m)
		match := zktest.Match{Session: session, Op: zktest.OpMulti, Path: "/holdfast/b/members", Times: 1}
		strike := c.Srv.Faults().DropRequest
		if done {
			strike = c.Srv.Faults().DropReply
		}
		f := strike(match)
		c.Srv.OnRequest(func(s int64, op zktest.Op, _ string) {
			if s == session && op == zktest.OpMulti {
				c.Srv.Faults().Refuse()
			}
		})
		leaves := leave(t, t.Context(), stages[0])
		<-f.Hit()
		recipetest.Later(time.Second)
		c.Srv.OnRequest(nil)
		c.Srv.ExpireSession(session)
		c.Srv.Faults().Clear()
		if err := stages[1].Leave(t.Context()); done {
			wantDied(t, err)
			leaves.WantErr("leave", nil)
		} else {
			wantDied(t, err, "a")
			leaves.WantErr("leave", ErrLost)
		}
	})
}

// A caller that gives up while it waits to enter leaves no node. If the round has begun, it
// has entered and left.
func TestF265_GivesUp(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		gives := enter(t, ctx, all[0])
		untilInside(c, all[0].m, inPrefix, 1)
		cancel(why)
		_, err := gives.Wait()
		recipetest.WantErr(t, "given up", err, context.Canceled)
		recipetest.WantErr(t, "given up", err, why)
		untilInside(c, all[0].m, inPrefix, 0)
		second := enter(t, t.Context(), all[1])
		wantWaiting(c, "the other", second)

		// A member that gives up while it waits for the others has left.
		a := enter(t, t.Context(), all[0]).Must("enter")
		b := second.Must("enter")
		recipetest.WantErr(t, "over from the start", recipetest.ErrOf(all[0].d.Enter(ctx)), why)
		recipetest.WantErr(t, "leave", a.Leave(ctx), why)
		untilInside(c, all[0].m, leftPrefix, 1)
		recipetest.WantErr(t, "leave", b.Leave(t.Context()), nil)
		recipetest.WantErr(t, "leave again", a.Leave(t.Context()), nil)
		leaveAll(c, nil, enterAll(c, all...)...)
		untilInside(c, all[0].m, "", 0)
		c.WantNoWatches()
	})
}

// A caller that has given up before it enters asks ZooKeeper nothing: its node could make up the
// number of a round.
func TestF265_GivenUpBefore(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		p := processes(c, 1, 1)[0]
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		requests := c.Count(func() {
			recipetest.WantErr(t, "enter", recipetest.ErrOf(p.d.Enter(ctx)), why)
			recipetest.Later(time.Minute)
		})
		if len(requests) > 0 {
			t.Errorf("the requests are %v", requests)
		}
	})
}

// givesUp has a caller of p enter, and give up. What p asks of the server after that is held back.
func givesUp(t *testing.T, c *recipetest.Cluster, p process) *zktest.Block {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	gives := enter(t, ctx, p)
	synctest.Wait()
	requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(p.m))
	cancel()
	gives.WantErr("given up", context.Canceled)
	return requests
}

// A caller gives up, and the round begins with it before its node is gone. It has left, and
// has not died.
func TestF265_GivesUpAsTheRoundBegins(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		requests := givesUp(t, c, all[0])
		for range 2 { // ends its watch, and reads the record
			synctest.Wait()
			requests.Let(1)
		}
		synctest.Wait()
		st := enter(t, t.Context(), all[1]).Must("enter")
		requests.Remove()
		recipetest.WantErr(t, "leave", st.Leave(t.Context()), nil)
		untilInside(c, all[0].m, inPrefix, 0)
	})
}

// A caller gives up at each moment. Either it has entered, or it is out, and the others are
// not told that it has died.
func TestF265_GivesUpAtEachStep(t *testing.T) {
	for step := range 40 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
				all := processes(c, 3, 2)
				leaveAll(c, nil, enterAll(c, all[:2]...)...)
				other := enter(t, t.Context(), all[0])
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				// Each request and each answer takes a while, so that steps have an order in time.
				c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(all[1].m), Times: zktest.Every}, 10*time.Millisecond)
				time.AfterFunc(time.Duration(step)*2*time.Millisecond, cancel)
				st, err := all[1].d.Enter(ctx)
				recipetest.Later(time.Second)
				c.Srv.Faults().Clear()
				if !other.Over() {
					st, err = all[2].d.Enter(t.Context())
					recipetest.WantErr(t, "another", err, nil)
				}
				first := other.Must("the other")
				if err == nil {
					leaveAll(c, nil, first, st)
				} else {
					leaveAll(c, nil, first) // the round has begun with the one that gave up
				}
				untilInside(c, all[0].m, "", 0)
			})
		})
	}
}

// The lease ends while the connection is silent, and the session lives on. The place is lost,
// and the node goes: the others would wait for it.
func TestF266_LeaseEnds(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		session := all[0].m.Access().Session()
		f := c.Srv.Faults().Blackhole(session.ID())
		<-stages[0].Lost()
		recipetest.WantErr(t, "lost", stages[0].Err(), ErrLost)
		f.Remove()
		c.Srv.Faults().Cut(session.ID())
		wantDied(t, stages[1].Leave(t.Context()), "a")
		if all[0].m.Access().Session() != session {
			t.Error("the session is over: the test shows nothing")
		}
		leaveAll(c, nil, enterAll(c, all...)...)
	})
}

// A server that lags behind shows neither that the round has begun nor who has left.
func TestF267_LaggingServer(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 3, 3)
		for range 3 {
			lag := c.Srv.Faults().Lag(-1, recipetest.SessionOf(all[0].m))
			first := enter(t, t.Context(), all[0])
			second := enter(t, t.Context(), all[1])
			synctest.Wait()
			third := enter(t, t.Context(), all[2]).Must("enter")
			b := second.Must("enter")
			lag.CatchUp()
			a := first.Must("enter")
			leaves := leave(t, t.Context(), a)
			leaves2 := leave(t, t.Context(), b)
			synctest.Wait()
			recipetest.WantErr(t, "leave", third.Leave(t.Context()), nil)
			leaves2.WantErr("leave", nil)
			lag.Remove()
			leaves.WantErr("leave", nil)
		}
	})
}

// The round ends, and the nodes of those that have left go, between the reads of a member that
// looks. It does not take them for dead.
func TestF267_ListOfAnotherMoment(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		first := leave(t, t.Context(), stages[0])
		synctest.Wait()
		requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(all[0].m))
		others := c.Srv.Faults().BlockRequests(recipetest.SessionOf(all[1].m))
		last := leave(t, t.Context(), stages[1])
		synctest.Wait()
		others.Let(1) // it has left
		synctest.Wait()
		requests.Let(1) // the first reads that the round is under way
		synctest.Wait()
		others.Remove()
		wantDied(t, last.Err())
		requests.Remove()
		wantDied(t, first.Err())
	})
}

// All processes must agree on the number of members, and the record must be one.
func TestF268_Mismatch(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 1, 2)
		waits := enter(t, t.Context(), all[0])
		untilInside(c, all[0].m, inPrefix, 1)
		other := c.Open("other")
		d := processOf(t, other, 3).d
		_, err := d.Enter(t.Context())
		recipetest.WantErr(t, "another number", err, ErrMismatch)
		if want := `holdfast: enter "b": the barrier has another number of members: 2, and this process says 3`; fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
		wantWaiting(c, "alone", waits)
		if c.Srv != nil {
			cost := c.Count(func() { _, err = d.Enter(t.Context()) })
			recipetest.WantErr(t, "another number", err, ErrMismatch)
			if cost[zktest.OpCreate]+cost[zktest.OpMulti] > 0 {
				t.Errorf("it counts as waiting before it is refused: sent %v", cost)
			}
		}

		err = other.Access().Call(t.Context(), func(s *zkio.Session) error {
			_, err := s.Set(c.Root+"/b/round", []byte("nonsense"), -1)
			return err
		}, nil)
		recipetest.WantErr(t, "set", err, nil)
		if _, err := waits.Wait(); !strings.Contains(fmt.Sprint(err), "/b/round is not the record of a barrier") {
			t.Error(err)
		}
		untilInside(c, other, inPrefix, 0)
		for _, n := range []int{-1, 0, MaxMembers + 1} {
			recipetest.WantErr(t, "members", recipetest.ErrOf(NewDouble(other, "b", n)), ErrBadMembers)
		}
		recipetest.WantErr(t, "name", recipetest.ErrOf(NewDouble(other, "//", 2)), manager.ErrBadName)
		recipetest.WantErr(t, "long name", recipetest.ErrOf(NewDouble(other, strings.Repeat("x", 500), 2)), manager.ErrBadName)
	})
}

// An administrator deletes the record. Who waits makes another one; who is inside is told that
// the outcome is not known.
func TestF268_RecordDeleted(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		first := enter(t, t.Context(), all[0])
		synctest.Wait()
		c.Remove("/holdfast/b/round")
		synctest.Wait()
		b := enter(t, t.Context(), all[1]).Must("enter")
		a := first.Must("enter")
		c.Remove("/holdfast/b/round")
		recipetest.WantErr(t, "leave", a.Leave(t.Context()), manager.ErrUnknownOutcome)
		recipetest.WantErr(t, "leave", b.Leave(t.Context()), manager.ErrUnknownOutcome)
		leaveAll(c, nil, enterAll(c, all...)...)
		untilInside(c, all[0].m, "", 0)
	})
}

// An administrator deletes the barrier's directory between any two requests of a process that
// enters. It enters all the same.
func TestF268_DirectoryDeleted(t *testing.T) {
	for n, struck := 1, true; struck; n++ {
		recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
			p := processes(c, 1, 1)[0]
			did := c.RemovedBefore(p.m, n, "/holdfast/b")
			_, err := enter(t, t.Context(), p).Wait()
			recipetest.WantErr(t, fmt.Sprintf("enter, if all is deleted before request %d", n), err, nil)
			struck = did()
		})
	}
}

// More processes enter than the round has members. The others go into the next rounds, in
// the order in which they came, also if some of them give up.
func TestF269_MoreThanMembers(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 7, 2)
		first := enterAll(c, all[:2]...)
		var waits []*recipetest.Pending[*Stage]
		gives, cancel := context.WithCancel(t.Context())
		for i, p := range all[2:] {
			ctx := t.Context()
			if i == 2 {
				ctx = gives
			}
			waits = append(waits, enter(t, ctx, p))
			untilInside(c, p.m, inPrefix, 3+i)
		}
		cancel()
		waits[2].WantErr("given up", context.Canceled)
		untilInside(c, all[0].m, inPrefix, 6)
		waits = slices.Delete(waits, 2, 3)
		leaveAll(c, nil, first...)
		for len(waits) > 0 {
			a := waits[0].Must("enter")
			b := waits[1].Must("enter")
			if a.Round != b.Round {
				t.Fatalf("rounds %d and %d", a.Round, b.Round)
			}
			if waits = waits[2:]; len(waits) > 0 && (waits[0].Over() || waits[1].Over()) {
				t.Error("later ones have entered")
			}
			leaveAll(c, nil, a, b)
		}
	})
}

// All that have left a round give up their wait, and the last one inside dies. Those that
// wait for the next round learn that it can begin.
func TestF269_RoundWithoutAnEnd(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 4, 2)
		stages := enterAll(c, all[:2]...)
		ctx, cancel := context.WithCancel(t.Context())
		leaves := leave(t, ctx, stages[0])
		synctest.Wait()
		cancel()
		leaves.WantErr("leave", context.Canceled)
		var waits []*recipetest.Pending[*Stage]
		for _, p := range all[2:] {
			waits = append(waits, enter(t, t.Context(), p))
			synctest.Wait()
		}
		begun := time.Now()
		recipetest.WantErr(t, "close", all[1].m.Close(), nil)
		for _, w := range waits {
			w.WantErr("enter", nil)
		}
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("the next round began after %v", d)
		}
		wantDied(t, stages[0].Leave(t.Context()), "b")
	})
}

// Members of one process are members as any others.
func TestOneProcess(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		p := processes(c, 1, 50)[0]
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for round := range uint64(3) {
					st, err := p.d.Enter(t.Context())
					if err != nil || st.Round != round+1 {
						t.Errorf("round %v: %v", st, err)
						return
					}
					if err := st.Leave(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// Close ends what waits.
func TestClose(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 3, 2)
		stages := enterAll(c, all[:2]...)
		leaves := leave(t, t.Context(), stages[0])
		waits := enter(t, t.Context(), all[2])
		synctest.Wait()
		for _, p := range all {
			recipetest.WantErr(t, "close", p.m.Close(), nil)
		}
		leaves.WantErr("leave", manager.ErrClosed)
		waits.WantErr("enter", manager.ErrClosed)
		recipetest.WantErr(t, "inside", stages[1].Err(), manager.ErrClosed)
		recipetest.WantErr(t, "enter", recipetest.ErrOf(all[2].d.Enter(t.Context())), manager.ErrClosed)
		recipetest.WantErr(t, "new", recipetest.ErrOf(NewDouble(all[2].m, "b", 2)), manager.ErrClosed)
	})
}

// A process is told to stop: its callers give up, and it shuts its Manager down at once. Its
// member has left, and has not died, whatever has become of the request that says so.
func TestF270_LeavesAndShutsDown(t *testing.T) {
	recipetest.Bubbles(t, map[string]zktest.Match{
		"at once":               {},
		"its request is lost":   {Op: zktest.OpMulti, Nth: 1},
		"so is its second one":  {Op: zktest.OpMulti, Nth: 1, Times: 2},
		"it looks for its node": {Op: zktest.OpGetData, Nth: 1},
	}, func(t *testing.T, c *recipetest.Cluster, match zktest.Match) {
		all := processes(c, 3, 2)
		stages := enterAll(c, all[:2]...)
		if match.Op != 0 {
			match.Session = recipetest.SessionOf(all[0].m)
			c.Srv.Faults().DropRequest(match)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		recipetest.WantErr(t, "leave", stages[0].Leave(ctx), context.Canceled)
		recipetest.WantErr(t, "shut down", all[0].m.Shutdown(t.Context()), nil)
		leaveAll(c, nil, stages[1])
		leaveAll(c, nil, enterAll(c, all[1:]...)...)
	})
}

// The same while the callers wait to enter, and a round begins with one of them at the very
// moment: Shutdown has it leave.
func TestF270_EntersAndShutsDown(t *testing.T) {
	recipetest.Bubbles(t, map[string]bool{"its caller gives up": true, "its caller waits": false}, func(t *testing.T, c *recipetest.Cluster, gives bool) {
		all := processes(c, 2, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		enters := enter(t, ctx, all[0])
		synctest.Wait()
		requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(all[0].m))
		want := manager.ErrClosed
		if gives {
			want = context.Canceled
			cancel()
			_, _ = enters.Wait()
		}
		shuts := recipetest.BeginErr(t, func() error { return all[0].m.Shutdown(t.Context()) })
		enters.WantErr("enter", want)
		synctest.Wait()
		st := enter(t, t.Context(), all[1]).Must("the other enters")
		requests.Remove()
		shuts.WantErr("shut down", nil)
		leaveAll(c, nil, st)
		untilInside(c, all[1].m, "", 0)
	})
}

// Shutdown fails a member that waits for the others to leave. It has left.
func TestF270_ShutsDownWhileOthersAreInside(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		leaves := leave(t, t.Context(), stages[0])
		synctest.Wait()
		recipetest.WantErr(t, "shut down", all[0].m.Shutdown(t.Context()), nil)
		leaves.WantErr("leave", manager.ErrClosed)
		leaveAll(c, nil, stages[1])
	})
}

// While Shutdown waits for a lock, what waits for other processes has failed already, and a new
// caller fails at once.
func TestF270_ShutsDownWhileALockIsHeld(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		p := processes(c, 1, 2)[0]
		lock, err := p.m.Exclusive("lock")
		recipetest.WantErr(t, "open", err, nil)
		h, err := lock.Lock(t.Context())
		recipetest.WantErr(t, "lock", err, nil)
		gate, err := NewGate(p.m, "gate")
		recipetest.WantErr(t, "gate", err, nil)
		recipetest.WantErr(t, "shut", gate.Shut(t.Context()), nil)
		enters := enter(t, t.Context(), p)
		waits := recipetest.BeginErr(t, func() error { return gate.Wait(t.Context()) })
		synctest.Wait()
		shuts := recipetest.BeginErr(t, func() error { return p.m.Shutdown(t.Context()) })
		enters.WantErr("enter", manager.ErrClosed)
		waits.WantErr("wait", manager.ErrClosed)
		got := c.Count(func() {
			recipetest.WantErr(t, "enter anew", recipetest.ErrOf(p.d.Enter(t.Context())), manager.ErrClosed)
		})
		if len(got) > 0 {
			t.Errorf("a caller that was refused has sent %v", got)
		}
		if shuts.Over() {
			t.Error("Shutdown has not waited for the lock")
		}
		recipetest.WantErr(t, "unlock", h.Unlock(t.Context()), nil)
		shuts.WantErr("shut down", nil)
	})
}

// In an outage Shutdown gives up what ZooKeeper was to be told, and says so. The member has
// died when its session ends.
func TestF270_ShutsDownInAnOutage(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		session := recipetest.SessionOf(all[0].m)
		silence := c.Srv.Faults().Blackhole(session)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		recipetest.WantErr(t, "leave", stages[0].Leave(ctx), context.Canceled)
		start := time.Now()
		recipetest.WantErr(t, "shut down", all[0].m.Shutdown(t.Context()), context.DeadlineExceeded)
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("Shutdown took %v", took)
		}
		silence.Remove()
		_, err := leave(t, t.Context(), stages[1]).Wait()
		wantDied(t, err, "a")
	})
}

// Close does not wait for a look at who is inside, which ends after the call that wanted it.
func TestCloseAsAMemberLooks(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		stages := enterAll(c, all...)
		synctest.Wait()
		requests := c.Srv.Faults().BlockRequests(recipetest.SessionOf(all[0].m))
		defer requests.Remove()
		leaves := leave(t, t.Context(), stages[0])
		synctest.Wait()
		requests.Let(1) // it leaves
		synctest.Wait()
		if err := all[0].m.Close(); err == nil {
			t.Error("the session's end was confirmed, and the requests before it were blocked")
		}
		leaves.WantErr("leave", manager.ErrClosed)
	})
}

// The record keeps the outcomes of the last rounds, and stays small.
func TestRecord(t *testing.T) {
	r := record{Size: 400}
	var members []member
	for i := range 400 {
		members = append(members, member{Name: fmt.Sprint("m", i), ID: "x"})
	}
	for round := range uint64(20) {
		r = r.begin(outcome{Round: round}, members)
	}
	if n := len(r.Outcomes); n != keptOutcomes || r.Outcomes[n-1].Round != 19 || r.Round != 20 {
		t.Errorf("%d outcomes in round %d", n, r.Round)
	}
	if _, ok := r.outcomeOf(20); ok {
		t.Error("the round under way has an outcome")
	}
	for round := uint64(20); round < 30; round++ {
		r = r.end(outcome{Round: round, Died: members}).begin(outcome{}, members)
	}
	if n := len(r.Outcomes); n != 2 || r.Outcomes[n-1].Round != 29 {
		t.Errorf("%d outcomes", n)
	}
	if o, ok := r.outcomeOf(28); !ok || len(o.Died) != 400 {
		t.Error("an outcome is missing")
	}
}

// A process that has lost its node while it waited makes up the number with its new one, and
// so begins the round: the others have no reason to look.
func TestF264_ComesBackLast(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, m *manager.Manager, meanwhile func()){
		"expired": func(c *recipetest.Cluster, m *manager.Manager, meanwhile func()) {
			refused := c.Srv.Faults().Refuse()
			c.Srv.ExpireSession(recipetest.SessionOf(m))
			meanwhile()
			refused.Remove()
		},
		"deleted": func(c *recipetest.Cluster, m *manager.Manager, meanwhile func()) {
			c.Remove("/holdfast/b/members/" + inside(c, m, inPrefix)[0])
			meanwhile()
		},
	}, func(t *testing.T, c *recipetest.Cluster, lose func(c *recipetest.Cluster, m *manager.Manager, meanwhile func())) {
		all := processes(c, 2, 2)
		// The order of their names must not matter. It is another in about half the rounds.
		for i := range max(racing.Fewer(20), 4) {
			one, other := all[i%2], all[1-i%2]
			first := enter(t, t.Context(), one)
			synctest.Wait()
			var second *recipetest.Pending[*Stage]
			lose(c, one.m, func() {
				second = enter(t, t.Context(), other)
				synctest.Wait()
			})
			c.Until("both are there", func() bool { return len(inside(c, other.m, inPrefix)) == 2 })
			recipetest.Later(time.Second)
			if !first.Over() || !second.Over() {
				t.Error("the round does not begin at once")
			}
			a := first.Must("the first")
			b := second.Must("the second")
			leaveAll(c, nil, a, b)
		}
	})
}

// Who has lost its place is told so, even if it does not want to wait.
func TestF265_LostAndGivesUp(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		all := processes(c, 2, 2)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 8 { // it mattered which of two goroutines was faster
			stages := enterAll(c, all...)
			c.Expire(all[0].m)
			recipetest.WantErr(t, "leave", stages[0].Leave(over), ErrLost)
			wantDied(t, stages[1].Leave(t.Context()), "a")
		}
	})
}

// ZooKeeper refuses to let a member leave. Its node goes all the same, so the others do not wait
// for it: they are told that it has died.
func TestF265_LeaveIsRefused(t *testing.T) {
	recipetest.Bubbles(t, map[string]bool{"leave": false, "enter, and gives up": true}, func(t *testing.T, c *recipetest.Cluster, waits bool) {
		all := processes(c, 2, 2)
		refuse := func() {
			c.Srv.Faults().FailRequest(zktest.Match{Session: recipetest.SessionOf(all[0].m), Op: zktest.OpMulti, Times: zktest.Every}, zktest.CodeNoAuth)
		}
		var other *Stage
		if waits {
			requests := givesUp(t, c, all[0])
			var err error
			if other, err = all[1].d.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
			refuse()
			requests.Remove()
		} else {
			stages := enterAll(c, all...)
			other = stages[1]
			refuse()
			err := stages[0].Leave(t.Context())
			recipetest.WantErr(t, "leave", err, zkio.ErrNoAuth)
			recipetest.WantErr(t, "leave", err, ErrLost)
			recipetest.WantErr(t, "leave again", stages[0].Leave(t.Context()), ErrLost)
		}
		_, err := leave(t, t.Context(), other).Wait()
		wantDied(t, err, "a")
		c.Srv.Faults().Clear()
		leaveAll(c, nil, enterAll(c, all...)...)
		untilInside(c, all[0].m, "", 0)
	})
}

// The record is deleted while processes wait, and others make one for another number of members
// before those that wait have seen that it was gone. Each that says another number is told so,
// also if the round of the others has begun with it.
func TestF268_MismatchWhileWaiting(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		three := processes(c, 2, 3)
		var waits []*recipetest.Pending[*Stage]
		for _, p := range three {
			waits = append(waits, enter(t, t.Context(), p))
			synctest.Wait()
		}
		var unblock []func()
		for _, p := range three {
			unblock = append(unblock, c.Srv.Faults().BlockRequests(recipetest.SessionOf(p.m)).Remove)
		}
		c.Remove("/holdfast/b/round")
		other := c.Open("other")
		second := enter(t, t.Context(), processOf(t, other, 2))
		synctest.Wait() // it begins a round with the two that came first
		for _, f := range unblock {
			f()
		}
		for _, w := range waits {
			if _, err := w.Wait(); !errors.Is(err, ErrMismatch) {
				t.Fatalf("one that says three: got error %v, want %v", err, ErrMismatch)
			}
		}
		wantWaiting(c, "the one that says two", second)
		st := enter(t, t.Context(), processOf(t, c.Open("third"), 2)).Must("enter")
		first := second.Must("enter")
		leaveAll(c, nil, first, st)
		untilInside(c, other, "", 0)
	})
}
