// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/shards"
)

// A Shard and its context, which a program keeps, keep nothing of a later grant of the same
// shard alive. The shard is lost each time, and the process gets it again. Shard.Revoked
// tells: all that a grant has leads to that channel, and the channel to nothing.
func TestOldShardKeepsNoLaterOne(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		type given struct {
			ctx   context.Context //nolint:containedctx // what a program keeps
			shard shards.Shard
		}
		got := make(chan given)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		m := c.Open("a")
		go func() {
			ended <- shards.Run(ctx, m, shards.Options{Name: "orders", N: 1}, func(ctx context.Context, s shards.Shard) error {
				got <- given{ctx, s}
				<-ctx.Done()
				return nil
			})
		}()
		lose := func() given {
			g := <-got
			grant, err := g.shard.Hold.Grant()
			recipetest.WantErr(t, "grant", err, nil)
			c.Remove(grant.Path)
			<-g.ctx.Done()
			return g
		}
		old := lose()
		recipetest.WantCollected(c, old, func() *byte { return (*byte)(reflect.ValueOf(lose().shard.Revoked).UnsafePointer()) })
		stop()
		<-got // the last
		recipetest.WantErr(t, "run", <-ended, context.Canceled)
	})
}
