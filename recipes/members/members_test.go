// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

const dir = "/holdfast/workers"

func group(c *recipetest.Cluster, m *manager.Manager) *members.Group {
	c.T.Helper()
	g, err := members.New(m, "workers")
	if err != nil {
		c.T.Fatal(err)
	}
	return g
}

func join(c *recipetest.Cluster, g *members.Group, id, data string) *members.Member {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), time.Minute)
	defer cancel()
	m, err := g.Join(ctx, id, []byte(data))
	if err != nil {
		c.T.Fatal(err)
	}
	return m
}

func leave(c *recipetest.Cluster, m *members.Member) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	recipetest.WantErr(c.T, "leave", m.Leave(ctx), nil)
}

// text returns what members are, as "a=1 b=2".
func text(all []members.Info) string {
	var parts []string
	for _, m := range all {
		parts = append(parts, m.ID+"="+string(m.Data))
	}
	return strings.Join(parts, " ")
}

// wantList checks which members g has.
func wantList(c *recipetest.Cluster, g *members.Group, want string) {
	c.T.Helper()
	all, err := g.List(c.T.Context())
	recipetest.WantErr(c.T, "list", err, nil)
	if got := text(all); got != want {
		c.T.Errorf("members are %q, want %q", got, want)
	}
}

// wantNothingLeft checks that there is no node and no watch below the group.
func wantNothingLeft(c *recipetest.Cluster) {
	c.T.Helper()
	synctest.Wait()
	if left := c.Srv.Children(dir); len(left) > 0 {
		c.T.Errorf("nodes are left: %q", left)
	}
	c.WantNoWatches()
}

// seen has the newest view of a group, without waiting for another.
type seen struct {
	views <-chan members.View
	members.View
}

func watch(ctx context.Context, g *members.Group) *seen { return &seen{views: g.Watch(ctx)} }

// text returns the newest view.
func (s *seen) text() string {
	for {
		select {
		case v, ok := <-s.views:
			if !ok {
				return "closed"
			}
			s.View = v
		default:
			return text(s.Members)
		}
	}
}

func (s *seen) until(c *recipetest.Cluster, want string) {
	c.T.Helper()
	c.Until("the view is "+want, func() bool { return s.text() == want })
}

// Members join, change their data and leave, and watchers and lists show it.
func TestGroup(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := group(c, c.Open("a")), group(c, c.Open("b"))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		views := watch(ctx, b)
		views.until(c, "")
		one := join(c, a, "one", "1")
		views.until(c, "one=1")
		two := join(c, b, "a/b", "2")
		views.until(c, "a/b=2 one=1")
		wantList(c, b, "a/b=2 one=1")
		if v := views.View; v.Members[0].Since <= v.Members[1].Since || v.Members[1].Since != one.Since() {
			t.Errorf("the second is not younger: %+v, and the first joined at %d", v.Members, one.Since())
		}
		recipetest.WantErr(t, "set", one.Set(ctx, []byte("3")), nil)
		views.until(c, "a/b=2 one=3")
		recipetest.WantErr(t, "one", one.Err(), nil)
		leave(c, one)
		views.until(c, "a/b=2")
		recipetest.WantErr(t, "has left", one.Err(), members.ErrLeft)
		recipetest.WantErr(t, "set", one.Set(ctx, nil), members.ErrLeft)
		leave(c, one) // again
		leave(c, two)
		views.until(c, "")
		stop()
		for range views.views {
			continue
		}
		if c.Srv != nil {
			wantNothingLeft(c)
		}
	})
}

// While a session has an id, TryJoin is refused, and Join waits.
func TestF220_IdIsTaken(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		ctx := t.Context()
		m := c.Open("a")
		a, b := group(c, m), group(c, c.Open("b"))
		first := join(c, a, "x", "a")
		for name, g := range map[string]*members.Group{"by another process": b, "by its own": a, "by its own, in another Group": group(c, m)} {
			recipetest.WantErr(t, name, recipetest.ErrOf(g.TryJoin(ctx, "x", []byte(name))), members.ErrTaken)
			brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, err := g.Join(brief, "x", []byte(name))
			cancel()
			recipetest.WantErr(t, name, err, context.DeadlineExceeded)
			if c.Srv != nil { // a real server may not have answered by then
				recipetest.WantErr(t, name, err, members.ErrTaken)
			}
		}
		wantList(c, b, "x=a")
		joined := make(chan *members.Member)
		go func() { joined <- join(c, b, "x", "b") }()
		go func() { joined <- join(c, a, "x", "b") }()
		select {
		case <-joined:
			t.Error("joined")
		case <-time.After(200 * time.Millisecond):
		}
		recipetest.WantErr(t, "the first", first.Err(), nil)
		recipetest.WantErr(t, "set", first.Set(ctx, []byte("c")), nil) // wakes the waiters in vain
		leave(c, first)
		for range 2 {
			m := <-joined
			wantList(c, b, "x=b")
			leave(c, m)
		}
		if c.Srv != nil {
			wantNothingLeft(c)
		}
	})
}

// A member whose session ends joins again, and so does one whose node was deleted. It
// knows of the loss at once.
func TestF221_JoinsAgain(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, m *manager.Manager){
		"session": func(c *recipetest.Cluster, m *manager.Manager) { c.Srv.ExpireSession(recipetest.SessionOf(m)) },
		"deleted": func(c *recipetest.Cluster, _ *manager.Manager) { c.Remove(dir + "/x") },
		"all deleted": func(c *recipetest.Cluster, _ *manager.Manager) {
			recipetest.WantErr(c.T, "delete", c.Srv.DeleteAll(dir), nil)
		},
		"silence": func(c *recipetest.Cluster, m *manager.Manager) {
			defer c.Silence(m)()
			recipetest.Later(20 * time.Second)
		},
	}, func(t *testing.T, c *recipetest.Cluster, end func(c *recipetest.Cluster, m *manager.Manager)) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		x := join(c, g, "x", "1")
		views := watch(t.Context(), other)
		recipetest.WantErr(t, "set", x.Set(t.Context(), []byte("2")), nil)
		recipetest.Later(time.Minute)
		lost, since := x.Lost(), x.Since()
		recipetest.WantErr(t, "before", x.Err(), nil)
		end(c, m)
		<-lost
		recipetest.Later(15 * time.Second)
		recipetest.WantErr(t, "joined again", x.Err(), nil)
		if x.Since() <= since {
			t.Errorf("joined again at %d, before at %d", x.Since(), since)
		}
		if got := views.text(); got != "x=2" {
			t.Errorf("the view is %q", got)
		}
		leave(c, x)
	})
}

// A process that hears nothing knows that it is no member any more when its node goes.
func TestF221_LostBeforeTheNodeGoes(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		x := join(c, group(c, m), "x", "")
		end := c.Silence(m)
		for c.Srv.Exists(dir + "/x") {
			<-time.After(10 * time.Millisecond)
		}
		recipetest.WantErr(t, "its node is gone", x.Err(), members.ErrLost)
		if !recipetest.IsClosed(x.Lost()) {
			t.Error("Lost is open")
		}
		end()
		c.Until("it has joined again", func() bool { return x.Err() == nil })
		leave(c, x)
		wantNothingLeft(c)
	})
}

// takenMeanwhile returns a member whose node was deleted, and one of another process that has got
// its id, since ZooKeeper refused the first to join again. It does so no longer.
func takenMeanwhile(c *recipetest.Cluster, g, other *members.Group, m *manager.Manager) (x, y *members.Member) {
	c.T.Helper()
	x = join(c, g, "x", "a")
	refused := c.Srv.Faults().FailRequest(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: zktest.Every}, zktest.CodeNoAuth)
	c.Remove(dir + "/x")
	recipetest.Later(time.Second)
	recipetest.WantErr(c.T, "lost", x.Err(), members.ErrLost)
	recipetest.WantErr(c.T, "lost", x.Err(), zkio.ErrNoAuth)
	y = join(c, other, "x", "b")
	refused.Remove()
	recipetest.Later(time.Minute)
	return x, y
}

// A member whose id another process got meanwhile says so, and waits for it.
func TestF221_IdIsTakenMeanwhile(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		x, y := takenMeanwhile(c, g, other, m)
		recipetest.WantErr(t, "taken", x.Err(), members.ErrLost)
		recipetest.WantErr(t, "taken", x.Err(), members.ErrTaken)
		wantList(c, g, "x=b")
		leave(c, y)
		recipetest.Later(time.Second)
		recipetest.WantErr(t, "free again", x.Err(), nil)
		wantList(c, g, "x=a")
		leave(c, x)
		wantNothingLeft(c)
	})
}

// A member whose id another process got meanwhile leaves that one's node alone when it leaves.
func TestF221_LeavesAnothersNode(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		x, y := takenMeanwhile(c, g, other, m)
		since := y.Since()
		leave(c, x)
		recipetest.Later(time.Second)
		if wantList(c, other, "x=b"); y.Since() != since {
			t.Error("the other has lost its node, and joined again")
		}
		leave(c, y)
		wantNothingLeft(c)
	})
}

// Whichever answer is lost, and whether its request was carried out or not, a member
// joins, changes its data and leaves.
func TestF222_EachAnswerLost(t *testing.T) {
	recipetest.EachRequest(t, recipetest.Lost, func(t *testing.T, v *recipetest.Victim) {
		c, g := v.Cluster, group(v.Cluster, v.M)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		views := watch(ctx, g)
		x := join(c, g, "x", "1")
		recipetest.WantErr(t, "set", x.Set(ctx, []byte("2")), nil)
		wantList(c, g, "x=2")
		views.until(c, "x=2")
		leave(c, x)
		views.until(c, "")
		cancel()
		recipetest.Later(15 * time.Second)
		v.Calm()
		wantNothingLeft(c)
	})
}

// A caller that gives up leaves no node, whatever its requests have done by then.
func TestF223_GivenUp(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{
		"answer late": func(f *zktest.Faults, m zktest.Match) *zktest.Fault { return f.DelayReply(m, time.Second) },
		"answer lost": (*zktest.Faults).SwallowReply, "connection lost": (*zktest.Faults).DropReply,
	}, func(t *testing.T, c *recipetest.Cluster, fault func(*zktest.Faults, zktest.Match) *zktest.Fault) {
		m := c.Open("a")
		g := group(c, m)
		leave(c, join(c, g, "w", "")) // makes the directory
		why := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		f := fault(c.Srv.Faults(), zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1})
		made := false // the caller is told of the context's end after it was set
		go func() {
			<-f.Hit()
			synctest.Wait() // the server acts on the request after it has chosen it
			made = c.Srv.Exists(dir + "/x")
			cancel(why)
		}()
		begun := time.Now()
		_, err := g.Join(ctx, "x", nil)
		recipetest.WantErr(t, "given up", err, why)
		recipetest.WantErr(t, "given up", err, context.Canceled)
		if took := time.Since(begun); took > 0 {
			t.Errorf("it returned after %v", took)
		}
		if !made {
			t.Error("there was no node: the test shows nothing")
		}
		recipetest.Later(30 * time.Second)
		wantNothingLeft(c)
		leave(c, join(c, g, "x", ""))
		recipetest.WantErr(t, "given up before", recipetest.ErrOf(g.Join(ctx, "x", nil)), why)
	})
}

// The session ends while Join waits for an id, and after its node was made.
func TestF224_SessionEndsWhileJoining(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		y := join(c, other, "x", "b")
		joined := make(chan *members.Member)
		go func() { joined <- join(c, g, "x", "a") }()
		synctest.Wait()
		c.Expire(m)
		leave(c, y)
		synctest.Wait()
		wantList(c, other, "x=a") // at once, although the first watch went with the session
		leave(c, <-joined)

		f := c.Srv.Faults().SwallowReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1})
		go func() { joined <- join(c, g, "x", "c") }()
		<-f.Hit()
		c.Expire(m)
		x := <-joined
		recipetest.WantErr(t, "in the next session", x.Err(), nil)
		wantList(c, other, "x=c")
		leave(c, x)
		wantNothingLeft(c)
	})
}

// Close ends memberships, waits and watches.
func TestF225_Close(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		x, y := join(c, g, "x", ""), join(c, other, "y", "")
		views := g.Watch(context.Background())
		<-views
		waited := make(chan error)
		go func() { _, err := g.Join(context.Background(), "y", nil); waited <- err }()
		synctest.Wait()
		recipetest.WantErr(t, "close", m.Close(), nil)
		recipetest.WantErr(t, "wait", <-waited, manager.ErrClosed)
		if _, ok := <-views; ok {
			t.Error("the watch goes on")
		}
		if !recipetest.IsClosed(x.Lost()) {
			t.Error("the member is not lost")
		}
		recipetest.WantErr(t, "the member", x.Err(), manager.ErrClosed)
		recipetest.WantErr(t, "join", recipetest.ErrOf(g.Join(t.Context(), "z", nil)), manager.ErrClosed)
		recipetest.WantErr(t, "new", recipetest.ErrOf(members.New(m, "workers")), manager.ErrClosed)
		if _, ok := <-g.Watch(t.Context()); ok {
			t.Error("a closed manager's watch shows something")
		}
		wantList(c, other, "y=")
		leave(c, y)
	})
}

// Shutdown fails the callers that wait for an id, whichever process has it, and does so at once,
// although it waits for a lock.
func TestF225_Shutdown(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		join(c, g, "x", "")
		y := join(c, other, "y", "")
		lock, err := m.Exclusive("lock")
		recipetest.WantErr(t, "open a lock", err, nil)
		held, err := lock.Lock(t.Context())
		recipetest.WantErr(t, "lock", err, nil)
		waiting := make(map[string]*recipetest.Pending[*members.Member])
		for _, id := range []string{"x", "y"} {
			waiting[id] = recipetest.Begin(t, func() (*members.Member, error) { return g.Join(t.Context(), id, nil) })
		}
		synctest.Wait()
		shutdown := recipetest.BeginErr(t, func() error { return m.Shutdown(t.Context()) })
		for id, join := range waiting {
			join.WantErr("join as "+id, manager.ErrClosed)
		}
		wantList(c, other, "x= y=")
		held.Release()
		shutdown.WantErr("shutdown", nil)
		leave(c, y)
		wantNothingLeft(c)
	})
}

// A member's session is over for its process, and not for ZooKeeper yet. While Set is under way
// it ends there, too, and another process gets the id: it keeps its own data.
func TestF221_SetsAnothersData(t *testing.T) {
	recipetest.OnLike(t, zktest.Quirks{NoResume: true}, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		x := join(c, group(c, m), "x", "a")
		other := group(c, c.Open("b"))
		theirs := recipetest.Begin(t, func() (*members.Member, error) { return other.Join(t.Context(), "x", []byte("b")) })
		old := m.Access().Session()
		c.Srv.Faults().Cut(old.ID())
		c.Until("there is a new session", func() bool { return m.Access().Session() != old })
		if !c.Srv.Exists(dir + "/x") {
			t.Fatal("the old session has ended at the server")
		}
		recipetest.Later(time.Second) // the member has found its id taken, by the old session
		ours := recipetest.SessionOf(m)
		c.Srv.OnRequest(func(session int64, op zktest.Op, path string) {
			if session == ours && path == dir+"/x" && (op == zktest.OpSetData || op == zktest.OpMulti) {
				c.Srv.ExpireSession(old.ID())
				recipetest.Rest(100 * time.Millisecond) // the other comes first
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		setting := recipetest.BeginErr(t, func() error { return x.Set(ctx, []byte("new")) })
		recipetest.Later(time.Second)
		c.Srv.ExpireSession(old.ID())
		y := theirs.Must("join")
		recipetest.Later(time.Second)
		wantList(c, other, "x=b")
		leave(c, y)
		setting.WantErr("set", nil)
		wantList(c, other, "x=new")
	})
}

// A server that lags behind shows an id as free that is taken, and the other way round.
func TestF226_Lag(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		lag := c.Srv.Faults().Lag(3, recipetest.SessionOf(m))
		y := join(c, other, "x", "b")
		recipetest.WantErr(t, "taken", recipetest.ErrOf(g.TryJoin(t.Context(), "x", nil)), members.ErrTaken)
		leave(c, y)
		x, err := g.TryJoin(t.Context(), "x", nil)
		recipetest.WantErr(t, "free", err, nil)
		lag.Remove()
		wantList(c, other, "x=")
		leave(c, x)
		recipetest.Later(time.Second)
		wantNothingLeft(c)
	})
}

// What cannot be a member is refused before anything is sent.
func TestF227_Limits(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g := group(c, m)
		x := join(c, g, "x", "")
		requests := c.Count(func() {
			for id, want := range map[string]error{
				"": members.ErrBadID, strings.Repeat("x", 256): members.ErrBadID, strings.Repeat("/", 86): members.ErrBadID,
			} {
				recipetest.WantErr(t, fmt.Sprintf("id %.10q", id), recipetest.ErrOf(g.Join(t.Context(), id, nil)), want)
			}
			large := bytes.Repeat([]byte("x"), members.MaxData+1)
			recipetest.WantErr(t, "large", recipetest.ErrOf(g.TryJoin(t.Context(), "y", large)), members.ErrTooLarge)
			recipetest.WantErr(t, "large", x.Set(t.Context(), large), members.ErrTooLarge)
			recipetest.WantErr(t, "name", recipetest.ErrOf(members.New(m, "a//b")), manager.ErrBadName)
		})
		if len(requests) > 0 {
			t.Errorf("requests were sent: %v", requests)
		}
		for _, id := range []string{".", "zookeeper", "100%", "%", "%41", "ä/ö", strings.Repeat("x", 255), "\xff"} {
			y := join(c, g, id, "y")
			if all, err := g.List(t.Context()); err != nil || len(all) != 2 || all[0].ID != id && all[1].ID != id {
				t.Errorf("id %q: the members are %+v (%v)", id, all, err)
			}
			leave(c, y)
		}
		leave(c, x)
	})
}

// fill makes a group with n members, all of one other session.
func fill(c *recipetest.Cluster, n int) {
	c.T.Helper()
	recipetest.WantErr(c.T, "create", c.Srv.CreateAll(dir, nil), nil)
	others := recipetest.SessionOf(c.Open("others"))
	for i := range n {
		recipetest.WantErr(c.T, "create", c.Srv.CreateEphemeral(others, fmt.Sprintf("%s/other-%d", dir, i), nil), nil)
	}
}

// A full group admits no member, and no node stays of the attempt.
func TestF227_Full(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		g := group(c, c.Open("a"))
		fill(c, members.MaxMembers-1)
		last := join(c, g, "last", "")
		recipetest.WantErr(t, "full", recipetest.ErrOf(g.Join(t.Context(), "one more", nil)), members.ErrFull)
		if got := len(c.Srv.Children(dir)); got != members.MaxMembers {
			t.Errorf("%d nodes are there", got)
		}
		leave(c, last)
		leave(c, join(c, g, "one more", ""))
	})
}

// Two join at a time where there is room for one: one of them fits, and stays.
func TestF227_LastPlace(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		fill(c, members.MaxMembers-1)
		type outcome struct {
			m   *members.Member
			err error
		}
		outcomes := make(chan outcome, 2)
		// Both have made their nodes before one of them is told how many there are.
		for _, name := range []string{"a", "b"} {
			m := c.Open(name)
			g := group(c, m)
			c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: 1}, time.Second)
			c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpCreate, Times: 1}, time.Second)
			block := c.Srv.Faults().BlockRequests(recipetest.SessionOf(m))
			go func() {
				joined, err := g.Join(t.Context(), name, nil)
				outcomes <- outcome{joined, err}
			}()
			synctest.Wait()
			block.Let(1) // the transaction, and not the reads behind it
			defer block.Remove()
		}
		synctest.Wait()
		c.Srv.Faults().Clear()
		var fits *members.Member
		for range 2 {
			switch o := <-outcomes; {
			case o.err == nil && fits == nil:
				fits = o.m
			case o.err == nil:
				t.Error("both have joined")
			default:
				recipetest.WantErr(t, "the other", o.err, members.ErrFull)
			}
		}
		if fits == nil {
			t.Fatal("none has joined")
		}
		recipetest.Later(time.Minute)
		recipetest.WantErr(t, "the one that fits", fits.Err(), nil)
		if got := len(c.Srv.Children(dir)); got != members.MaxMembers {
			t.Errorf("%d nodes are there", got)
		}
		leave(c, fits)
	})
}

// Nodes that are not ephemeral are no members. One in the way of an id is named.
func TestF228_Strangers(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		g := group(c, c.Open("a"))
		views := watch(t.Context(), g)
		recipetest.WantErr(t, "create", c.Srv.CreateAll(dir+"/config", nil), nil)
		x := join(c, g, "x", "1")
		views.until(c, "x=1")
		wantList(c, g, "x=1")
		_, err := g.TryJoin(t.Context(), "config", nil)
		recipetest.WantErr(t, "in the way", err, members.ErrTaken)
		if err == nil || !strings.Contains(err.Error(), dir+"/config") {
			t.Errorf("the error does not name the node: %v", err)
		}
		// GroupMember with the same id.
		recipetest.WantErr(t, "set", c.Srv.Set(dir+"/x", []byte("theirs")), nil)
		views.until(c, "x=theirs")
		recipetest.WantErr(t, "set", x.Set(t.Context(), []byte("2")), nil)
		views.until(c, "x=2")
		leave(c, x)
	})
}

// A watch shows why ZooKeeper refuses it, and goes on.
func TestF228_WatchRefused(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g := group(c, m)
		x := join(c, g, "x", "1")
		f := c.Srv.Faults().FailRequest(zktest.Match{Op: zktest.OpGetChildren2, Times: 1}, zktest.CodeNoAuth)
		views := g.Watch(t.Context())
		v := <-views
		recipetest.WantErr(t, "refused", v.Err, zkio.ErrNoAuth)
		f.Remove()
		if v = <-views; v.Err != nil || text(v.Members) != "x=1" {
			t.Errorf("then the view is %+v", v)
		}
		leave(c, x)
	})
}

// What the documentation says that calls cost.
func TestCost(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		g, other := group(c, m), group(c, c.Open("b"))
		views := watch(t.Context(), other)
		leave(c, join(c, g, "w", ""))
		recipetest.Later(time.Second)
		views.text()
		var x *members.Member
		for _, step := range []struct {
			what string
			do   func()
			want map[zktest.Op]uint64
		}{
			// The watcher's list and read are among them.
			{"join", func() { x = join(c, g, "x", "") }, map[zktest.Op]uint64{zktest.OpMulti: 1, zktest.OpExists: 2, zktest.OpGetChildren2: 1, zktest.OpGetData: 1}},
			{"set", func() { recipetest.WantErr(t, "set", x.Set(t.Context(), []byte("1")), nil) }, map[zktest.Op]uint64{zktest.OpMultiRead: 1, zktest.OpSetData: 1, zktest.OpGetData: 1}},
			{"list", func() { wantList(c, g, "x=1") }, map[zktest.Op]uint64{zktest.OpGetChildren2: 1, zktest.OpMultiRead: 1}},
			{"leave", func() { leave(c, x) }, map[zktest.Op]uint64{zktest.OpDelete: 1, zktest.OpGetChildren2: 1}},
		} {
			got := c.Count(step.do)
			if step.what == "leave" && got[zktest.OpGetData] == 1 {
				// The watcher has heard that the node is gone before it heard that its
				// directory has changed: two events, of which it may know one when it looks.
				delete(got, zktest.OpGetData)
			}
			if fmt.Sprint(got) != fmt.Sprint(step.want) {
				t.Errorf("%s: the requests are %v, want %v", step.what, got, step.want)
			}
		}
	})
}

// The group's directory has many nodes that are no members. They leave room for members, and a
// watcher reads them once.
func TestF310_ManyStrangers(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		for i := range members.MaxMembers + 10 {
			recipetest.WantErr(t, "create", c.Srv.CreateAll(fmt.Sprintf("%s/old-%d", dir, i), nil), nil)
		}
		g := group(c, c.Open("a"))
		views := watch(t.Context(), g)
		views.until(c, "")
		counts := c.Count(func() {
			brief, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			recipetest.WantErr(t, "join", recipetest.ErrOf(group(c, c.Open("b")).Join(brief, "x", []byte("1"))), nil)
			views.until(c, "x=1")
		})
		if got := counts[zktest.OpGetData]; got > 20 {
			t.Errorf("one has joined, and %d nodes are read", got)
		}
	})
}
