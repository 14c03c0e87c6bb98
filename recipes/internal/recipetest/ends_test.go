// SPDX-License-Identifier: Apache-2.0

package recipetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/shards"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// uses begin something with a recipe, and end it twice, by two goroutines at the same time.
var uses = map[string]func(ctx context.Context, m *manager.Manager) error{
	"election": func(ctx context.Context, m *manager.Manager) error {
		e, err := election.New(m, "e", election.Options{})
		if err != nil {
			return err
		}
		l := e.Stand(ctx)
		_, err = l.Elected().Wait(ctx)
		twice(func() { _ = l.Resign(ctx) })
		return err
	},
	"members": func(ctx context.Context, m *manager.Manager) error {
		g, err := members.New(m, "g")
		if err != nil {
			return err
		}
		me, err := g.Join(ctx, "me", []byte("data"))
		if err == nil {
			twice(func() { _ = me.Leave(ctx) })
		}
		return err
	},
	"barrier": func(ctx context.Context, m *manager.Manager) error {
		d, err := barrier.NewDouble(m, "b", 1)
		if err != nil {
			return err
		}
		stage, err := d.Enter(ctx)
		if err == nil {
			twice(func() { _ = stage.Leave(ctx) })
		}
		return err
	},
	"shards": func(ctx context.Context, m *manager.Manager) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		const n = 2
		owned := make(chan int, n)
		err := shards.Run(ctx, m, shards.Options{Name: "s", N: n, ID: "me"}, func(ctx context.Context, s shards.Shard) error {
			select {
			case owned <- s.Index:
			default: // one of them was lost before
			}
			<-ctx.Done()
			return nil
		})
		if len(owned) < n {
			return fmt.Errorf("%d of %d shards were owned: %w", len(owned), n, err)
		}
		return nil
	},
}

func twice(end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
	}()
	end()
	<-done
}

// Whatever happens between two requests of a process that uses a recipe: its calls return,
// nothing of it is left, and another process can use the recipe at once.
func TestEndsBetweenTwoRequests(t *testing.T) {
	faults := map[string]func(*zktest.Faults, zktest.Match) *zktest.Fault{
		"slow reply": func(f *zktest.Faults, at zktest.Match) *zktest.Fault { return f.DelayReply(at, 300*time.Millisecond) },
		"lost reply": (*zktest.Faults).DropReply,
	}
	events := map[string]func(c *recipetest.Cluster, m *manager.Manager, cancel context.CancelFunc){
		"nothing":     func(*recipetest.Cluster, *manager.Manager, context.CancelFunc) {},
		"the context": func(_ *recipetest.Cluster, _ *manager.Manager, cancel context.CancelFunc) { cancel() },
		"Shutdown": func(_ *recipetest.Cluster, m *manager.Manager, _ context.CancelFunc) {
			_ = m.Shutdown(context.Background())
		},
		"Close": func(_ *recipetest.Cluster, m *manager.Manager, _ context.CancelFunc) { _ = m.Close() },
		"the session's end": func(c *recipetest.Cluster, m *manager.Manager, _ context.CancelFunc) {
			c.Srv.ExpireSession(recipetest.SessionOf(m))
		},
	}
	if testing.Short() {
		delete(faults, "slow reply")
	}
	for recipe, use := range uses {
		for kind, fault := range faults {
			for event, happen := range events {
				for n := 1; ; n++ {
					struck := false
					t.Run(fmt.Sprintf("%s/%s/%s/%d", recipe, event, kind, n), func(t *testing.T) {
						recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
							victim, other := c.Open("victim"), c.Open("other")
							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							f := fault(c.Srv.Faults(), zktest.Match{Session: recipetest.SessionOf(victim), Nth: n})
							used, happened := make(chan struct{}), make(chan struct{})
							go func() {
								defer close(happened)
								select {
								case <-f.Hit():
								case <-used:
								}
								select {
								case <-f.Hit(): // perhaps just before the use has ended
									struck = true
									happen(c, victim, cancel)
								default:
								}
							}()
							go func() {
								defer close(used)
								_ = use(ctx, victim) // whether it has succeeded or not
							}()
							for what, done := range map[string]chan struct{}{"the use": used, "what happened to it": happened} {
								select {
								case <-done:
								case <-time.After(time.Minute):
									t.Errorf("%s has not come to an end", what)
								}
							}
							recipetest.Later(time.Second) // what has outlived a context ends
							for _, s := range c.Srv.Sessions() {
								if len(s.Ephemerals) > 0 {
									t.Errorf("session %#x has left %v", s.ID, s.Ephemerals)
								}
							}
							soon, stop := context.WithTimeout(t.Context(), time.Minute)
							defer stop()
							begun := time.Now()
							recipetest.WantErr(t, "the use by another process", use(soon, other), nil)
							if took := time.Since(begun); took > 2500*time.Millisecond {
								t.Errorf("the use by another process took %v", took)
							}
						})
					})
					if !struck || t.Failed() {
						if !struck && n < 3 {
							t.Errorf("%s: nothing happened at request %d", recipe, n)
						}
						break
					}
				}
			}
		}
	}
}
