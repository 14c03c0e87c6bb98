// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

// What a Stage has given a program, which keeps it, keeps no Stage of a later round alive, in
// whichever way that ends.
func TestOldStageKeepsNoLaterOne(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, st *Stage){
		"left": func(c *recipetest.Cluster, st *Stage) {
			recipetest.WantErr(c.T, "leave", st.Leave(c.T.Context()), nil)
		},
		"lost": func(c *recipetest.Cluster, st *Stage) {
			c.Remove(st.node.Path())
			<-st.Lost()
			recipetest.WantErr(c.T, "leave", st.Leave(c.T.Context()), ErrLost)
		},
	}, func(t *testing.T, c *recipetest.Cluster, end func(c *recipetest.Cluster, st *Stage)) {
		all := processes(c, 1, 1)
		first := enterAll(c, all...)[0]
		ctx, done := first.Context(context.Background())
		old := []any{first, first.Lost(), ctx, done}
		recipetest.WantErr(t, "leave", first.Leave(t.Context()), nil)
		recipetest.WantCollected(c, old, func() *Stage {
			st := enterAll(c, all...)[0]
			end(c, st)
			return st
		})
		runtime.KeepAlive(all)
	})
}
