// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

// What a Leadership has given a program, which keeps it, keeps no later Leadership alive, in
// whichever way that ends.
func TestOldLeadershipKeepsNoLaterOne(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, e *election.Election) *election.Leadership{
		"resigned": func(c *recipetest.Cluster, e *election.Election) *election.Leadership {
			l := campaign(c.T, e)
			resign(c.T, l)
			return l
		},
		"stood, and resigned": func(c *recipetest.Cluster, e *election.Election) *election.Leadership {
			l := e.Stand(c.T.Context())
			elected(c.T, l)
			resign(c.T, l)
			return l
		},
		"withdrawn": func(c *recipetest.Cluster, e *election.Election) *election.Leadership {
			ctx, cancel := context.WithCancel(c.T.Context())
			defer cancel()
			l := e.Stand(ctx)
			resign(c.T, l)
			return l
		},
		"lost": func(c *recipetest.Cluster, e *election.Election) *election.Leadership {
			l := campaign(c.T, e)
			c.Remove(lockDir + "/" + c.Srv.Children(lockDir)[0])
			<-l.Lost()
			recipetest.WantErr(c.T, "resign", l.Resign(c.T.Context()), election.ErrLost)
			return l
		},
	}, func(t *testing.T, c *recipetest.Cluster, later func(c *recipetest.Cluster, e *election.Election) *election.Leadership) {
		_, e := open(c, "a")
		first := campaign(t, e)
		ctx, done := first.Context(context.Background())
		old := []any{first, first.Elected(), first.Lost(), ctx, done}
		recipetest.WantErr(t, "proclaim", first.Proclaim(t.Context(), []byte("news")), nil)
		resign(t, first)
		recipetest.WantCollected(c, old, func() *election.Leadership { return later(c, e) })
		runtime.KeepAlive(e)
	})
}
