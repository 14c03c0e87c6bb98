// SPDX-License-Identifier: Apache-2.0

package members_test

import (
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/members"
)

// An old Member, which a program still has, keeps no later one of its group alive, in whichever
// way that ends.
func TestOldMemberKeepsNoLaterOne(t *testing.T) {
	recipetest.Bubbles(t, map[string]func(c *recipetest.Cluster, m *members.Member){
		"left": func(*recipetest.Cluster, *members.Member) {},
		"changed its data, and left": func(c *recipetest.Cluster, m *members.Member) {
			recipetest.WantErr(c.T, "set", m.Set(c.T.Context(), []byte("new")), nil)
		},
		"lost, joined again, and left": func(c *recipetest.Cluster, m *members.Member) {
			lost := m.Lost()
			c.Remove(dir + "/later")
			<-lost
			c.Until("it has joined again", func() bool { return m.Err() == nil })
		},
	}, func(t *testing.T, c *recipetest.Cluster, end func(c *recipetest.Cluster, m *members.Member)) {
		g := group(c, c.Open("a"))
		first := join(c, g, "first", "")
		old := []any{first, first.Lost()}
		leave(c, first)
		recipetest.WantCollected(c, old, func() *members.Member {
			m := join(c, g, "later", "")
			end(c, m)
			leave(c, m)
			return m
		})
		runtime.KeepAlive(g)
	})
}
