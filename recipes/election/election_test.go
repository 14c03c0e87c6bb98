// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

var leaves = flag.Int("leaves", 3, "how often 14 of 16 candidates leave at once")

const (
	name       = "jobs/leader"
	recordPath = "/holdfast/jobs/leader/leader"
	lockDir    = "/holdfast/jobs/leader/lock"
)

// open opens a process with an Election.
func open(c *recipetest.Cluster, id string) (*manager.Manager, *election.Election) {
	c.T.Helper()
	m := c.Open(id)
	return m, newElection(c.T, m, id)
}

func newElection(t *testing.T, m *manager.Manager, id string) *election.Election {
	t.Helper()
	e, err := election.New(m, name, election.Options{ID: id, Data: []byte("of " + id)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// campaign campaigns, for up to a minute.
func campaign(t *testing.T, e *election.Election) *election.Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := e.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func resign(t *testing.T, l *election.Leadership) {
	t.Helper()
	recipetest.WantErr(t, "resign", l.Resign(context.Background()), nil)
}

// elected waits until l leads.
func elected(t *testing.T, l *election.Leadership) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.Elected().Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// next returns the next leader of an observation.
func next(t *testing.T, leaders <-chan election.Leader) election.Leader {
	t.Helper()
	select {
	case l, ok := <-leaders:
		if !ok {
			t.Fatal("the observation has ended")
		}
		return l
	case <-time.After(time.Minute):
		t.Fatal("the observer is told nothing for a minute")
	}
	panic("unreachable")
}

// One process leads at a time, its goroutines share the term, and the next is elected when
// all of them have resigned.
func TestTerms(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		_, b := open(c, "b")
		first := campaign(t, a)
		shared := campaign(t, a)
		waits := b.Stand(t.Context())
		recipetest.WantErr(t, "leads", first.Err(), nil)
		recipetest.WantErr(t, "waits", waits.Err(), election.ErrNotElected)
		if first.Token() != shared.Token() || first.Token() == 0 || waits.Token() != 0 {
			t.Errorf("tokens %d, %d and %d", first.Token(), shared.Token(), waits.Token())
		}
		resign(t, first)
		recipetest.WantErr(t, "resigned", first.Err(), election.ErrResigned)
		recipetest.WantErr(t, "the other goroutine's", shared.Err(), nil)
		resign(t, shared)
		elected(t, waits)
		if waits.Token() <= first.Token() {
			t.Errorf("the token falls from %d to %d", first.Token(), waits.Token())
		}
		if recipetest.IsClosed(first.Lost()) {
			t.Error("resigned, and told that it is lost")
		}
		recipetest.WantErr(t, "again", first.Resign(t.Context()), election.ErrResigned)
		resign(t, waits)
	})
}

func TestObserve(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		_, b := open(c, "b")
		_, observer := open(c, "observer")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leaders := observer.Observe(ctx)
		want := func(id, data string, token uint64) {
			t.Helper()
			for { // between two terms there is none
				got := next(t, leaders)
				if got.Token == 0 && token != 0 {
					continue
				}
				if got.ID != id || string(got.Data) != data || got.Token != token || got.Err != nil {
					t.Fatalf("told %+v, want %s, %q, %d", got, id, data, token)
				}
				return
			}
		}
		want("", "", 0)
		l := campaign(t, a)
		want("a", "of a", l.Token())
		recipetest.WantErr(t, "proclaim", l.Proclaim(ctx, []byte("news")), nil)
		want("a", "news", l.Token())
		heir := b.Stand(ctx)
		resign(t, l)
		elected(t, heir)
		want("b", "of b", heir.Token())
		resign(t, heir)
		want("", "", 0)
		cancel()
		if l, more := <-leaders; more {
			t.Errorf("told %+v at the end", l)
		}
	})
}

// A hand-over costs what the lock's does and the record. An observer reads four times.
func TestCost(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		_, b := open(c, "b")
		handOver := func(l *election.Leadership) (heir *election.Leadership, cost map[zktest.Op]uint64) {
			l2 := b.Stand(t.Context())
			recipetest.Later(time.Second)
			return l2, c.Count(func() { resign(t, l); elected(t, l2); recipetest.Later(time.Second) })
		}
		l, _ := handOver(campaign(t, a)) // creates the record
		resign(t, l)
		l, alone := handOver(campaign(t, a))
		resign(t, l)
		// The node goes, the heir writes its record, and the lock looks for waiters.
		if want := map[zktest.Op]uint64{zktest.OpDelete: 1, zktest.OpMulti: 1, zktest.OpGetChildren2: 1}; !maps.Equal(alone, want) {
			t.Errorf("a hand-over: %v, want %v", alone, want)
		}
		_, observer := open(c, "observer")
		leaders := observer.Observe(t.Context())
		recipetest.Later(time.Second) // else it may watch the queue as well as its head
		l = campaign(t, a)
		for next(t, leaders).Token != l.Token() {
		}
		recipetest.Later(time.Second) // else it may look once more, and find the heir in the queue
		l, observed := handOver(l)
		resign(t, l)
		for op, n := range alone {
			observed[op] -= n
		}
		if want := map[zktest.Op]uint64{zktest.OpDelete: 0, zktest.OpMulti: 0, zktest.OpGetChildren2: 2, zktest.OpGetData: 2}; !maps.Equal(observed, want) {
			t.Errorf("an observer: %v, want %v", observed, want)
		}
	})
}

// A goroutine that shares the term sends nothing.
func TestSharingIsFree(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		l := campaign(t, a)
		cost := c.Count(func() { resign(t, campaign(t, a)) })
		if len(cost) != 0 {
			t.Errorf("sent %v", cost)
		}
		resign(t, l)
	})
}

func TestContext(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		b, heir := open(c, "b")
		l := campaign(t, a)
		ctx, done := l.Context(t.Context())
		defer done()
		inner, err := a.Campaign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		resign(t, inner)
		recipetest.WantErr(t, "while it leads", ctx.Err(), nil)
		waits := heir.Stand(t.Context())
		early, done := waits.Context(t.Context())
		defer done()
		recipetest.WantErr(t, "before the election", context.Cause(early), election.ErrNotElected)
		resign(t, l)
		recipetest.WantErr(t, "resigned", context.Cause(ctx), election.ErrResigned)
		elected(t, waits)
		ctx, done = waits.Context(t.Context())
		defer done()
		c.Expire(b)
		recipetest.WantErr(t, "lost", context.Cause(ctx), election.ErrLost)
		recipetest.WantErr(t, "guard", recipetest.ErrOf(waits.Guard(t.Context(), zkio.CheckOp("/", -1))), election.ErrLost)
		recipetest.WantErr(t, "proclaim", waits.Proclaim(t.Context(), nil), election.ErrLost)
		recipetest.WantErr(t, "resign", waits.Resign(t.Context()), election.ErrLost)
	})
}

func TestBadInput(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, e := open(c, "a")
		for _, tt := range []struct {
			name string
			opts election.Options
			want error
		}{
			{"", election.Options{}, manager.ErrBadName},
			{"a//b", election.Options{}, manager.ErrBadName},
			{name, election.Options{ID: strings.Repeat("x", 1025)}, election.ErrTooLarge},
			{name, election.Options{Data: make([]byte, 64<<10+1)}, election.ErrTooLarge},
		} {
			recipetest.WantErr(t, "new", recipetest.ErrOf(election.New(m, tt.name, tt.opts)), tt.want)
		}
		if _, err := m.ReadWrite("rw/lock"); err != nil {
			t.Fatal(err)
		}
		recipetest.WantErr(t, "a lock of another kind", recipetest.ErrOf(election.New(m, "rw", election.Options{})), manager.ErrKind)
		l := campaign(t, e)
		recipetest.WantErr(t, "proclaim", l.Proclaim(t.Context(), make([]byte, 64<<10+1)), election.ErrTooLarge)
		recipetest.WantErr(t, "proclaim as much as fits", l.Proclaim(t.Context(), make([]byte, 64<<10)), nil)
		resign(t, l)
	})
}

func TestRun(t *testing.T) {
	errWork := errors.New("the work failed")
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m, a := open(c, "a")
		_, b := open(c, "b")

		var tokens []uint64
		err := a.Run(t.Context(), func(ctx context.Context, l *election.Leadership) error {
			tokens = append(tokens, l.Token())
			if len(tokens) == 1 {
				c.Srv.ExpireSession(recipetest.SessionOf(m))
				<-ctx.Done()
				heir := campaign(t, b) // while fn has not returned, this process stands for nothing
				resign(t, heir)
				tokens = append(tokens, heir.Token())
				return context.Cause(ctx)
			}
			return errWork
		})
		recipetest.WantErr(t, "run", err, errWork)
		if len(tokens) != 3 || !slices.IsSorted(tokens) {
			t.Errorf("tokens %d, want three that rise", tokens)
		}

		func() {
			defer func() { _ = recover() }()
			_ = a.Run(t.Context(), func(context.Context, *election.Leadership) error { panic("a panic of fn") })
		}()
		resign(t, campaign(t, b)) // the process that has panicked has resigned

		ctx, cancel := context.WithCancel(t.Context())
		err = a.Run(ctx, func(ctx context.Context, _ *election.Leadership) error {
			cancel()
			<-ctx.Done()
			return nil
		})
		recipetest.WantErr(t, "the end of ctx while it leads", err, nil)
		recipetest.WantErr(t, "the end of ctx before", a.Run(ctx, nil), context.Canceled)
		err = a.Run(t.Context(), func(ctx context.Context, _ *election.Leadership) error {
			go m.Close()
			<-ctx.Done()
			return errWork
		})
		recipetest.WantErr(t, "close", err, manager.ErrClosed)
		recipetest.WantErr(t, "close", err, errWork)
	})
}

// However many candidates leave at once, another leads.
func TestManyLeaveAtOnce(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		rounds := *leaves
		var all []*election.Election
		for i := range 16 {
			_, e := open(c, fmt.Sprint(i))
			all = append(all, e)
		}
		for range rounds {
			stay := rand.Perm(len(all))[:2] // of 16; the leader may leave
			var standing []*election.Leadership
			for _, e := range all {
				standing = append(standing, e.Stand(t.Context()))
			}
			var wg sync.WaitGroup
			for i, l := range standing {
				if !slices.Contains(stay, i) {
					wg.Go(func() { _ = l.Resign(context.Background()) })
				}
			}
			first, second := standing[stay[0]], standing[stay[1]]
			leader := func() *election.Leadership {
				for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
					switch {
					case first.Err() == nil:
						return first
					case second.Err() == nil:
						return second
					case time.Now().After(deadline):
						t.Fatalf("14 of 16 have left, and no process leads: %v, %v", first.Err(), second.Err())
					}
				}
			}
			resign(t, leader())
			if first.Err() != nil && second.Err() != nil {
				elected(t, map[bool]*election.Leadership{true: second, false: first}[first.Token() != 0])
			}
			_ = first.Resign(context.Background())
			_ = second.Resign(context.Background())
			wg.Wait()
		}
		t.Logf("%d of %d times a process led", rounds, rounds)
	})
}
