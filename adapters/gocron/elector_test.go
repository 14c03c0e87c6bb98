// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/adapters/internal/adaptertest"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// stand has m's process stand for the election "cron".
func stand(t *testing.T, m *manager.Manager) *Elector {
	t.Helper()
	e, err := election.New(m, "cron", election.Options{})
	if err != nil {
		t.Fatal(err)
	}
	el := NewElector(e)
	t.Cleanup(func() { _ = el.Close(context.Background()) })
	return el
}

// The leader runs the job, and when it has gone, the next one does.
func TestElectorOfTwoSchedulers(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		first, second := adaptertest.Open(t, srv), adaptertest.Open(t, srv)
		r := &runs{t: t, at: map[time.Time]int{}}
		r.schedule(0, time.Millisecond, gocron.WithDistributedElector(stand(t, first)))
		synctest.Wait()
		follower := stand(t, second)
		r.schedule(30*time.Second, time.Millisecond, gocron.WithDistributedElector(follower))
		time.Sleep(10*time.Minute + 45*time.Second)
		if n := r.count(1); n != 10 {
			t.Errorf("the leader has run the job %d times, want 10", n)
		}
		if err := follower.IsLeader(t.Context()); !errors.Is(err, election.ErrNotElected) {
			t.Errorf("the follower: %v, want ErrNotElected", err)
		}
		_ = first.Close()
		time.Sleep(10 * time.Minute)
		if once, twice := r.count(1), r.count(2); once != 20 || twice != 0 {
			t.Errorf("%d runs once, %d twice; want 20, 0", once, twice)
		}
		if err := follower.IsLeader(t.Context()); err != nil {
			t.Errorf("the second: %v, want it to lead", err)
		}
	})
}

// A leader that has lost its session leads again without being asked.
func TestElectorStandsAgain(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		el := stand(t, adaptertest.Open(t, srv))
		synctest.Wait()
		for range 2 {
			if err := el.IsLeader(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := el.Leadership().Context(t.Context())
			srv.ExpireSession(srv.Sessions()[0].ID)
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, election.ErrLost) {
				t.Errorf("the context ended with %v, want ErrLost", err)
			}
			cancel()
			if err := el.IsLeader(t.Context()); !errors.Is(err, election.ErrNotElected) {
				t.Errorf("after the loss: %v, want ErrNotElected", err)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestElectorClose(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		leader, waiting := stand(t, m), stand(t, adaptertest.Open(t, srv))
		synctest.Wait()
		for _, el := range []*Elector{waiting, leader, leader} {
			synctest.Wait() // one that waits withdraws its node without waiting for the answer
			if err := el.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := el.IsLeader(t.Context()); !errors.Is(err, election.ErrResigned) {
				t.Errorf("after Close: %v, want ErrResigned", err)
			}
		}
		if nodes := srv.Children("/holdfast/cron/lock"); len(nodes) != 0 {
			t.Errorf("left in the queue: %v", nodes)
		}
		// One whose Manager is closed says so.
		last := stand(t, m)
		synctest.Wait()
		_ = m.Close()
		synctest.Wait()
		if err := last.IsLeader(t.Context()); !errors.Is(err, manager.ErrClosed) {
			t.Errorf("after the Manager's Close: %v, want ErrClosed", err)
		}
		if err := last.Close(t.Context()); !errors.Is(err, manager.ErrClosed) {
			t.Errorf("close after the Manager's Close: %v, want ErrClosed", err)
		}
	})
}

// An elector that ZooKeeper refuses says so, and stands again until it is elected.
func TestElectorIsRefused(t *testing.T) {
	adaptertest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		m := adaptertest.Open(t, srv)
		f := srv.Faults().FailRequest(zktest.Match{Session: m.Access().Session().ID(), Path: "/holdfast/cron", Times: zktest.Every}, zktest.CodeNoAuth)
		el := stand(t, m)
		time.Sleep(5*time.Minute + 50*time.Millisecond)
		if err := el.IsLeader(t.Context()); !errors.Is(err, zkio.ErrNoAuth) {
			t.Errorf("while it is refused: %v, want ErrNoAuth", err)
		}
		if n := f.Hits(); n < 30 || n > 50 {
			t.Errorf("it stood %d times within 5 minutes, want once every 10 s in the end", n)
		}
		f.Remove()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := el.IsLeader(t.Context()); err != nil {
			t.Errorf("afterwards: %v, want it to lead", err)
		}
		if err := el.Close(t.Context()); err != nil {
			t.Error(err)
		}

		f = srv.Faults().FailRequest(zktest.Match{Session: m.Access().Session().ID(), Path: "/holdfast/cron", Times: zktest.Every}, zktest.CodeNoAuth)
		defer f.Remove()
		refused := stand(t, m)
		time.Sleep(time.Minute)
		start := time.Now()
		if err := refused.Close(t.Context()); !errors.Is(err, zkio.ErrNoAuth) || time.Since(start) != 0 {
			t.Errorf("close after %v: %v, want ErrNoAuth at once", time.Since(start), err)
		}
	})
}
