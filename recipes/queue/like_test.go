// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A server whose Cversion counts changes of children's data, too, and whose Pzxid hides deletions:
// no attempt goes uncounted, two count as three at most, and what a dead consumer had is taken.
func TestF364_QueueCounts(t *testing.T) {
	recipetest.OnLike(t, zktest.Quirks{OtherStats: true}, func(t *testing.T, c *recipetest.Cluster) {
		dying := c.Open("dying")
		a, b := open(t, dying, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		for attempt := 1; attempt <= 3; attempt++ {
			e := take(t, b, "1")
			if n := e.Attempt(); n < attempt || n > attempt*3/2 {
				t.Errorf("attempt %d is told as %d", attempt, n)
			}
			if err := e.Return(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take(t, a, "1")
		taken := takeLater(t.Context(), b)
		recipetest.Later(3 * time.Second)
		refused := c.Srv.Faults().Refuse()
		c.Srv.ExpireSession(recipetest.SessionOf(dying))
		recipetest.Later(5 * time.Second)
		refused.Remove()
		if e := received(taken); e == nil {
			t.Error("the element is free, and a consumer waits")
		} else {
			ack(t, e)
		}
	})
}
