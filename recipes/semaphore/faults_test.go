// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// torment has a victim acquire two permits of two and release them, with a fault at each of its
// requests: alone on an empty server; where another process has one of the permits for another
// second; and by TryLock. Wants are the errors that it may be told of.
func torment(t *testing.T, faults map[string]recipetest.Fault, wants ...error) {
	for _, way := range []string{"alone", "waits", "try"} {
		t.Run(way, func(t *testing.T) {
			recipetest.EachRequest(t, faults, func(t *testing.T, v *recipetest.Victim) {
				u, other := tormented(v), open(v.Cluster, "other", 2)
				acquire := u.Lock
				switch way {
				case "waits":
					p := other.lock(1)
					defer time.AfterFunc(time.Second, func() { p.Release() }).Stop()
				case "try":
					unlock(t, other.lock(1))
					acquire = u.TryLock
				}
				fine := func(what string, err error) {
					t.Helper()
					if !slices.ContainsFunc(wants, func(want error) bool { return errors.Is(err, want) }) {
						recipetest.WantErr(t, what, err, nil)
					}
				}
				p, err := acquire(v.Ctx, 2)
				fine("acquire", err)
				if err == nil {
					recipetest.Later(time.Second)
					v.Until("its nodes are there, or it has learned of the loss", func() bool {
						return len(v.Srv.Children(u.leases)) == 2 || p.Err() != nil
					})
					fine("unlock", p.Unlock(context.Background()))
				}
				recipetest.Later(30 * time.Second) // answers that were delayed come
				v.Calm()
				unlock(t, other.lock(2))
				u.wantNothing(2)
			})
		})
	}
}

// tormented is the victim with its semaphore.
func tormented(v *recipetest.Victim) user {
	return newUser(must(New(v.M, "db", Options{Permits: 2})), v.Cluster, v.M)
}

func TestF240_LostRequests(t *testing.T) {
	torment(t, recipetest.Lost)
}

// A caller that gives up is told at once, and nothing of it is left, whichever request is
// under way.
func TestF241_GivesUp(t *testing.T) {
	torment(t, map[string]recipetest.Fault{
		"slow request": recipetest.Slow(300 * time.Millisecond).Then((*recipetest.Victim).GiveUp),
		"lost reply":   recipetest.Lost["reply dropped"].Then((*recipetest.Victim).GiveUp),
		"lost request": recipetest.Lost["request dropped"].Then((*recipetest.Victim).GiveUp),
		// What makes the nodes and what deletes them wait for a connection, side by side.
		"outage": recipetest.Lost["request dropped"].Then(func(v *recipetest.Victim) {
			v.Srv.Faults().RefuseFor(time.Second)
			<-time.After(500 * time.Millisecond)
			v.GiveUp()
		}),
	}, recipetest.ErrTired)
}

// The same while the connection is silent: Lock returns without ZooKeeper.
func TestF241_GivesUpInAnOutage(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		p := b.lock(1)
		ctx, cancel := context.WithCancel(t.Context())
		q := a.acquire(ctx, 2)
		c.Srv.Faults().Blackhole(recipetest.SessionOf(a.m))
		recipetest.Later(time.Second)
		cancel()
		synctest.Wait()
		if _, err, settled := q.Granted().Poll(); !settled || !errors.Is(err, context.Canceled) {
			t.Errorf("a second after the connection fell silent: %v, %v", settled, err)
		}
		c.Srv.Faults().Clear()
		b.wantState(2, 1, 0)
		recipetest.WantErr(t, "held", p.Err(), nil)
		recipetest.WantErr(t, "release", recipetest.ErrOf(q.Release().Wait(t.Context())), manager.ErrNotGranted)
		unlock(t, p)
		b.wantNothing(2)
	})
}

// Released while it is pending, at any time: nothing is left either.
func TestF241_ReleasedWhilePending(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		p := b.lock(1)
		waits := a.acquire(t.Context(), 2)
		// The first in line goes last: the second could have its one permit then.
		for _, q := range slices.Backward([]*Permits{waits, a.acquire(t.Context(), 1), a.Acquire(t.Context(), 2)}) {
			recipetest.WantErr(t, "unlock", q.Unlock(t.Context()), manager.ErrNotGranted)
			recipetest.WantErr(t, "granted", recipetest.ErrOf(q.Granted().Wait(t.Context())), manager.ErrReleased)
			if !recipetest.IsClosed(q.Lost()) {
				t.Error("Lost is open")
			}
		}
		b.wantState(2, 1, 0)
		unlock(t, p)
		b.wantNothing(2)
	})
}

// openSlow opens a semaphore with one permit. The answer to its next claim takes a second.
func openSlow(c *recipetest.Cluster) user {
	a := open(c, "a", 1)
	unlock(c.T, a.lock(1))
	c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(a.m), Op: zktest.OpMulti, Path: a.leases + "/", Times: 1}, time.Second)
	return a
}

// ZooKeeper makes the nodes between the two steps of a Release: the grant has failed, and the
// request is not withdrawn yet, which the test never does.
func TestF305_GrantMeetsRelease(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := openSlow(c)
		p := a.Acquire(t.Context(), 1)
		recipetest.Later(500 * time.Millisecond)
		if !p.fail(manager.ErrReleased) {
			t.Error("the grant had settled")
		}
		recipetest.Later(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		recipetest.WantErr(t, "unlock", p.Unlock(ctx), manager.ErrNotGranted)
		a.wantNothing(1)
	})
}

// A caller gives up before the permits are granted, and the goroutine that tells it so is late.
func TestF305_GrantMeetsTheEnd(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := openSlow(c)
		ctx, giveUp := context.WithCancel(t.Context())
		p, pending := newPermits(ctx, a.Semaphore, "acquire", 1)
		r := &request{Permits: p, sem: a.Semaphore, access: a.access, ctx: pending} // as start does
		a.access.Go(r.run)
		recipetest.Later(500 * time.Millisecond)
		giveUp()
		recipetest.Later(time.Second)
		_, err, _ := p.Granted().Poll()
		recipetest.WantErr(t, "acquire", err, context.Canceled)
		a.wantNothing(1)
	})
}

func TestF242_SessionEnds(t *testing.T) {
	torment(t, map[string]recipetest.Fault{"ends": recipetest.Slow(time.Millisecond).Then(recipetest.Ends["its session ends"])}, ErrLost)
}

// The session ends between the transaction that creates the nodes and the grant: other
// processes have the permits then, and the caller gets others.
func TestF242_SessionEndsAtTheGrant(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 1), open(c, "b", 1)
		unlock(t, a.lock(1))
		synctest.Wait() // it takes its watch of the node back
		session := recipetest.SessionOf(a.m)
		f := c.Srv.Faults().SwallowReply(zktest.Match{Session: session, Path: a.leases + "/", Times: 1})
		p := a.Acquire(t.Context(), 1)
		<-f.Hit()
		synctest.Wait() // the server has made the node by now
		if n := len(c.Srv.Children(a.leases)); n != 1 {
			t.Fatalf("%d nodes", n)
		}
		q := b.acquire(t.Context(), 1)
		c.Srv.ExpireSession(session)
		b.granted(q)
		a.pending(p)
		unlock(t, q)
		a.granted(p)
		unlock(t, p)
		a.wantNothing(1)
	})
}

// Permits end before other processes can have them: when the session expires, and when the
// connection falls silent.
func TestF242_SessionEndsInside(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		for _, silent := range []bool{false, true} {
			p := a.lock(2)
			q := b.acquire(t.Context(), 1)
			q.Granted().OnDone(func(struct{}, error) {
				if silent && p.Err() == nil {
					t.Error("granted beside permits that are held")
				}
			})
			if silent {
				c.Srv.Faults().Blackhole(recipetest.SessionOf(a.m))
				<-p.Lost()
				b.pending(q)
				b.granted(q)
				c.Srv.Faults().Clear()
			} else {
				c.Expire(a.m)
			}
			if !recipetest.IsClosed(p.Lost()) {
				t.Error("Lost is open")
			}
			recipetest.WantErr(t, "lost", p.Err(), ErrLost)
			recipetest.WantErr(t, "unlock", p.Unlock(t.Context()), ErrLost)
			b.granted(q)
			unlock(t, q)
			b.wantNothing(2)
		}
	})
}

// An administrator deletes what there is, at every request.
func TestF243_Deleted(t *testing.T) {
	torment(t, recipetest.Then(map[string]recipetest.Fault{"an answer is slow": recipetest.Slow(10 * time.Millisecond)}, map[string]func(v *recipetest.Victim){
		"a lease": func(v *recipetest.Victim) {
			dir := tormented(v).leases
			if nodes := v.Srv.Children(dir); len(nodes) > 0 {
				_ = v.Srv.Delete(dir + "/" + nodes[len(nodes)-1]) // or the victim does just now
			}
		},
		"the leases":      func(v *recipetest.Victim) { _ = v.Srv.DeleteAll(tormented(v).leases) },
		"the line":        func(v *recipetest.Victim) { _ = v.Srv.DeleteAll(tormented(v).dir + "/locks") },
		"the number":      func(v *recipetest.Victim) { _ = v.Srv.Delete(tormented(v).number) },
		"the whole of it": func(v *recipetest.Victim) { _ = v.Srv.DeleteAll(tormented(v).dir) },
		"a foreign witness": func(v *recipetest.Victim) {
			path := tormented(v).leases + "/foreign"
			_ = v.Srv.CreateAll(path, nil)
			_ = v.Srv.Delete(path)
		},
	}), ErrLost)
}

// A process that has lost one of its permits learns of it, and keeps the others until it has
// released them. One that waits keeps its place in line.
func TestF243_LeaseDeleted(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 3), open(c, "b", 3)
		p, q := a.lock(3), b.acquire(t.Context(), 2)
		b.wantState(3, 5, 1)
		third := a.acquire(t.Context(), 3)
		b.wantState(3, 5, 2)
		admin := a.m.Access()
		remove := func(path string) {
			t.Helper()
			err := admin.Call(t.Context(), func(s *zkio.Session) error { return s.Delete(path, -1) }, nil)
			recipetest.WantErr(t, "delete", err, nil)
		}
		st := must(b.State(t.Context()))
		remove(st.Leases[4].Path) // b's
		b.wantState(3, 4, 2)
		remove(p.claim.paths[1])
		<-p.Lost()
		recipetest.WantErr(t, "deleted", p.Err(), ErrLost)
		recipetest.WantErr(t, "unlock", p.Unlock(t.Context()), ErrLost)
		b.granted(q)
		a.pending(third)
		b.wantState(3, 5, 1)
		unlock(t, q)
		a.granted(third)
		unlock(t, third)
		a.wantNothing(3)
	})
}

func TestF245_AnotherNumber(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		any := open(c, "any", 0)
		recipetest.WantErr(t, "no number yet", recipetest.ErrOf(any.Lock(t.Context(), 1)), ErrMismatch)
		a, b := open(c, "a", 3), open(c, "b", 4)
		p := a.lock(1)
		recipetest.WantErr(t, "another number", recipetest.ErrOf(b.Lock(t.Context(), 1)), ErrMismatch)
		_, err := b.TryLock(t.Context(), 1)
		recipetest.WantErr(t, "another number", err, ErrMismatch)
		unlock(t, p)
		unlock(t, any.lock(3))
		recipetest.WantErr(t, "resize", a.Resize(t.Context(), 4), nil)
		for _, u := range []user{b, a, any} {
			unlock(t, u.lock(4))
		}
		for _, data := range []string{"", "three", "\xff\xff\xff\xff"} {
			err := a.m.Access().Call(t.Context(), func(s *zkio.Session) error { _, err := s.Set(a.number, []byte(data), -1); return err }, nil)
			recipetest.WantErr(t, "set", err, nil)
			recipetest.WantErr(t, "garbage", recipetest.ErrOf(a.Lock(t.Context(), 1)), ErrMismatch)
		}
		recipetest.WantErr(t, "resize", a.Resize(t.Context(), 2), nil)
		unlock(t, a.lock(2))
		a.wantNothing(2)
	})
}

// With more permits those who wait get theirs; with fewer, new ones are granted when few
// enough are in use, and callers that want more than there are, are refused.
func TestF246_Resize(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		resize := func(n int) {
			t.Helper()
			recipetest.WantErr(t, fmt.Sprint("resize ", n), b.Resize(t.Context(), n), nil)
		}
		p, q := a.lock(1), a.lock(1)
		r := a.acquire(t.Context(), 2)
		resize(3)
		b.wantState(3, 4, 1)
		a.pending(r)
		resize(4)
		a.granted(r)
		resize(2)
		recipetest.WantErr(t, "nothing is taken away", errors.Join(p.Err(), q.Err(), r.Err()), nil)
		s := a.acquire(t.Context(), 2)
		unlock(t, p, q)
		b.wantState(2, 4, 1)
		a.pending(s)
		unlock(t, r)
		a.granted(s)

		tooMany := a.acquire(t.Context(), 2)
		resize(1)
		recipetest.WantErr(t, "two of one", recipetest.ErrOf(tooMany.Granted().Wait(t.Context())), ErrTooMany)
		recipetest.WantErr(t, "two of one", recipetest.ErrOf(b.Lock(t.Context(), 2)), ErrTooMany)
		unlock(t, s)
		resize(1) // as it is
		a.wantNothing(1)
	})
}

// The first in line hears of a higher number, although no permit comes free.
func TestF246_ResizeWakes(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 1), open(c, "b", 1)
		p, q := a.lock(1), a.acquire(t.Context(), 1)
		a.wantState(1, 2, 1)
		recipetest.WantErr(t, "resize", b.Resize(t.Context(), 2), nil)
		synctest.Wait()
		recipetest.WantErr(t, "granted", q.Err(), nil)
		unlock(t, p, q)
		a.wantNothing(2)
	})
}

// A process that does not know of the new number yet grants nothing by the old one: neither
// at once nor when it has waited. Nor does a TryLock.
func TestF246_StaleNumber(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b, d := open(c, "a", 4), open(c, "b", 4), open(c, "d", 4)
		unlock(t, a.lock(1)) // knows that they are 4
		unlock(t, d.lock(1))
		p := b.lock(2)
		recipetest.WantErr(t, "resize", b.Resize(t.Context(), 2), nil)
		lag := c.Srv.Faults().Lag(1000, recipetest.SessionOf(a.m), recipetest.SessionOf(d.m))
		recipetest.WantErr(t, "trylock", recipetest.ErrOf(d.TryLock(t.Context(), 1)), ErrNoPermits)
		q := a.acquire(t.Context(), 1)
		recipetest.Later(time.Minute)
		a.pending(q)
		lag.Remove()
		recipetest.Later(time.Minute)
		a.pending(q)
		unlock(t, p)
		a.granted(q)
		unlock(t, q)
		a.wantNothing(2)
	})
}

// The number changes at every request of a process that acquires permits.
func TestF246_ResizedMeanwhile(t *testing.T) {
	torment(t, map[string]recipetest.Fault{"resized": recipetest.Slow(10 * time.Millisecond).Then(func(v *recipetest.Victim) {
		u := tormented(v)
		for _, n := range []int{1, 5, 2} {
			for u.Resize(context.Background(), n) != nil {
				<-time.After(time.Second)
			}
		}
	})}, ErrTooMany, ErrMismatch) // the latter until it has agreed to the first number
}

// A Resize whose request or answer is lost is carried out once at most, and says so if it
// cannot tell.
func TestF246_LostResize(t *testing.T) {
	for name, fault := range map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{
		"request": (*zktest.Faults).DropRequest, "reply": (*zktest.Faults).DropReply,
	} {
		for _, op := range []zktest.Op{zktest.OpCreate, zktest.OpSetData} {
			for _, rival := range []int{0, 5} {
				for _, expire := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/rival=%d/expire=%v", name, op, rival, expire), func(t *testing.T) {
						recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
							a, b := open(c, "a", 4), open(c, "b", 0)
							if op == zktest.OpSetData {
								unlock(t, a.lock(1))
							}
							session := recipetest.SessionOf(a.m)
							f := fault(c.Srv.Faults(), zktest.Match{Session: session, Op: op, Path: a.number, Times: 1})
							resized := recipetest.BeginErr(t, func() error { return a.Resize(t.Context(), 3) })
							<-f.Hit()
							hole := c.Srv.Faults().Blackhole(session)
							if rival > 0 {
								recipetest.WantErr(t, "rival", b.Resize(t.Context(), rival), nil)
							}
							if expire {
								c.Srv.ExpireSession(session)
							}
							hole.Remove()
							err := resized.Err()
							want, unknown := 3, rival > 0
							if unknown {
								want = rival
								recipetest.WantErr(t, "resize", err, manager.ErrUnknownOutcome)
							} else {
								recipetest.WantErr(t, "resize", err, nil)
							}
							b.wantState(want, 0, 0)
						})
					})
				}
			}
		}
	}
}

// When ctx ends, Resize returns at once, and says whether anything may have been changed.
func TestF246_ResizeGivesUp(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a := open(c, "a", 2)
		unlock(t, a.lock(1))
		for op, unknown := range map[zktest.Op]bool{zktest.OpSync: false, zktest.OpSetData: true} {
			ctx, cancel := context.WithCancel(t.Context())
			f := c.Srv.Faults().SwallowRequest(zktest.Match{Session: recipetest.SessionOf(a.m), Op: op, Times: 1})
			resized := recipetest.BeginErr(t, func() error { return a.Resize(ctx, 3) })
			<-f.Hit()
			cancel()
			err := resized.Err()
			recipetest.WantErr(t, "resize", err, context.Canceled)
			if errors.Is(err, manager.ErrUnknownOutcome) != unknown {
				t.Errorf("%v: %v", op, err)
			}
			recipetest.Later(time.Minute)
		}
	})
}

// A process that has lost its place at the head of the line, and does not know it yet,
// creates nothing.
func TestF247_StaleHead(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 1), open(c, "b", 1)
		unlock(t, a.lock(1))
		created := 0
		c.Srv.OnRequest(func(session int64, op zktest.Op, path string) {
			if n := len(c.Srv.Children(a.leases)); n > created {
				created = n
			}
		})
		synctest.Wait() // it takes its watch of the node back
		// Its transaction waits at the server while an administrator deletes its node.
		block := c.Srv.Faults().BlockRequests(recipetest.SessionOf(a.m))
		p := a.Acquire(t.Context(), 1)
		<-block.Hit()
		block.Let(1) // it is first in line
		c.Until("it has sent the transaction", func() bool { return block.Waiting() > 0 })
		line := c.Srv.Children(a.dir + "/locks")
		if len(line) != 1 {
			t.Fatalf("in line: %v", line)
		}
		c.Remove(a.dir + "/locks/" + line[0])
		q := b.lock(1)
		block.Let(1)
		synctest.Wait()
		if nodes := c.Srv.Children(a.leases); len(nodes) != 1 {
			t.Errorf("the nodes are %v", nodes)
		}
		block.Remove()
		synctest.Wait()
		a.pending(p)
		unlock(t, q)
		a.granted(p)
		unlock(t, p)
		if created > 2 {
			t.Errorf("there were %d nodes", created)
		}
		a.wantNothing(1)
	})
}

// A server that lags behind delays a grant. It never makes one too many.
func TestF248_Lag(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		p := b.lock(2)
		q := a.acquire(t.Context(), 1)
		lag := c.Srv.Faults().Lag(1000, recipetest.SessionOf(a.m))
		unlock(t, p)
		recipetest.Later(100 * time.Millisecond) // a proof of the session catches up, too
		a.pending(q)
		lag.CatchUp()
		a.granted(q)
		lag.Remove()
		// The release of another process counts at once.
		lag = c.Srv.Faults().Lag(1000, recipetest.SessionOf(b.m))
		unlock(t, q)
		r, err := b.TryLock(t.Context(), 2)
		recipetest.WantErr(t, "trylock", err, nil)
		lag.Remove()
		unlock(t, r)
		a.wantNothing(2)
	})
}

// What the server shows may be out of date by the time of the grant, which counts anew.
func TestF248_LagBehindResize(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 4), open(c, "b", 4)
		held := b.lock(3)
		p := b.lock(1)
		q := a.acquire(t.Context(), 1)
		b.wantState(4, 5, 1)
		lag := c.Srv.Faults().Lag(1000, recipetest.SessionOf(a.m))
		unlock(t, p)
		recipetest.WantErr(t, "resize", b.Resize(t.Context(), 3), nil)
		lag.Advance(1) // it shows four of four
		recipetest.Later(time.Second)
		a.pending(q)
		lag.Remove()
		recipetest.Later(time.Minute)
		a.pending(q)
		unlock(t, held)
		a.granted(q)
		unlock(t, q)
		a.wantNothing(3)
	})
}

func TestF249_Close(t *testing.T) {
	recipetest.Everywhere(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 2), open(c, "b", 2)
		p, first, second := a.lock(1), a.acquire(t.Context(), 2), a.Acquire(t.Context(), 1)
		q := b.acquire(t.Context(), 2)
		recipetest.WantErr(t, "close", a.m.Close(), nil)
		for _, x := range []*Permits{p, first, second} {
			if !recipetest.IsClosed(x.Lost()) {
				t.Error("Lost is open after Close")
			}
			recipetest.WantErr(t, "closed", x.Err(), manager.ErrClosed)
		}
		recipetest.WantErr(t, "unlock", p.Unlock(t.Context()), manager.ErrClosed)
		b.granted(q)
		unlock(t, q)
		b.wantNothing(2)
	})
}

// A caller that was told that nothing was changed can rely on it: the answer for which
// Resize waited when ctx ended may come later.
func TestF246_ResizeGivenUpChangesNothing(t *testing.T) {
	recipetest.Bubbles(t, map[string]zktest.Op{"sync": zktest.OpSync, "read": zktest.OpGetData}, func(t *testing.T, c *recipetest.Cluster, op zktest.Op) {
		a := open(c, "a", 2)
		unlock(t, a.lock(1))
		ctx, cancel := context.WithCancel(t.Context())
		f := c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(a.m), Op: op, Times: 1}, time.Second)
		resized := recipetest.BeginErr(t, func() error { return a.Resize(ctx, 3) })
		<-f.Hit()
		cancel()
		err := resized.Err()
		recipetest.WantErr(t, "resize", err, context.Canceled)
		if errors.Is(err, manager.ErrUnknownOutcome) {
			t.Errorf("nothing was sent: %v", err)
		}
		recipetest.Later(time.Minute)
		a.wantState(2, 0, 0)
	})
}

// Shutdown fails the callers that wait, the first in line included, and refuses newcomers: it
// waits for no other process.
func TestF249_Shutdown(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(c, "a", 1), open(c, "b", 1)
		p := a.lock(1)
		first, second := b.acquire(t.Context(), 1), b.acquire(t.Context(), 1)
		c.Shutdown(b.m)
		for _, q := range []*Permits{first, second} {
			recipetest.WantErr(t, "waits", recipetest.ErrOf(q.Granted().Wait(t.Context())), manager.ErrClosed)
		}
		recipetest.WantErr(t, "held", p.Err(), nil)
		unlock(t, p)
	})
}
