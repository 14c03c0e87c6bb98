// SPDX-License-Identifier: Apache-2.0

package recipetest_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/barrier"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
	"github.com/holdfast-go/holdfast/recipes/shards"
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
	replies := map[string]recipetest.Fault{
		"lost reply": recipetest.Lost["reply dropped"],
		"slow reply": recipetest.Slow(300 * time.Millisecond),
	}
	faults := recipetest.Then(replies, recipetest.Ends)
	maps.Copy(faults, replies)
	for recipe, use := range uses {
		t.Run(recipe, func(t *testing.T) {
			recipetest.EachRequest(t, faults, func(t *testing.T, v *recipetest.Victim) {
				other := v.Open("other")
				recipetest.BeginErr(t, func() error {
					_ = use(v.Ctx, v.M) // whether it has succeeded or not
					return nil
				}).WantErr("the use", nil)
				v.Calm()
				recipetest.Later(time.Second) // what has outlived a context ends
				for _, s := range v.Srv.Sessions() {
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
	}
}
