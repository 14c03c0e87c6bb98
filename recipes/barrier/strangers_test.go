// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Members that share a process leave in the order in which they came. Each watches another one,
// so they do not all look at each that leaves.
func TestF309_LeaveInOrder(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const n = 60
		p := processes(c, 1, n)[0]
		var entering []*recipetest.Pending[*Stage]
		for range n {
			entering = append(entering, enter(t, t.Context(), p))
			synctest.Wait()
		}
		looks := c.Count(func() {
			var leaving []*recipetest.Pending[struct{}]
			for _, e := range entering {
				st := e.Must("enter")
				leaving = append(leaving, leave(t, t.Context(), st))
				synctest.Wait()
			}
			for _, l := range leaving {
				l.WantErr("leave", nil)
			}
		})[zktest.OpGetChildren2]
		if most := 2 * n * math.Log(n); float64(looks) > most {
			t.Errorf("%d members have looked %d times to leave, and %.0f times should do", n, looks, most)
		}
	})
}

// Nodes that no process has made, or that cannot be deleted, are in the directory of the members.
func TestF311_Strangers(t *testing.T) {
	recipetest.Bubbles(t, map[string]string{
		"persistent, seems to wait":        "/holdfast/b/members/in-0",
		"persistent, seems to come last":   "/holdfast/b/members/in-x",
		"with a child, seems to have left": "/holdfast/b/members/left-0/child",
	}, func(t *testing.T, c *recipetest.Cluster, path string) {
		all := processes(c, 3, 3)
		recipetest.WantErr(t, "create", c.Srv.CreateAll(path, nil), nil)
		for range 3 {
			leaveAll(c, nil, enterAll(c, all...)...)
		}
		if !c.Srv.Exists(path) {
			t.Errorf("%s is gone", path)
		}
	})
}

// A member dies, and another client makes a persistent node in the place of its node.
func TestF311_PersistentMember(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		stages := enterAll(c, processes(c, 2, 2)...)
		node := stages[0].double.in(stages[0].name)
		c.Remove(node)
		recipetest.WantErr(t, "create", c.Srv.Create(node, nil), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantDied(t, stages[1].Leave(ctx), "a")
	})
}
