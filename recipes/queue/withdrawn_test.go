// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

// A caller gives up, and the session ends between the claim of an element and its being taken
// back. The consumer's node is needed by the caller only, and goes when it is not needed any more.
func TestF255_LostAsItIsTakenBack(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		queue, err := New(m, "q", Options{})
		recipetest.WantErr(t, "new", err, nil)
		recipetest.WantErr(t, "offer", queue.Offer(t.Context(), []byte("1")), nil)
		q := queue.consumer
		q.use()
		_, err = q.refresh(t.Context(), plainly)
		recipetest.WantErr(t, "list", err, nil)
		name, _ := q.pick()
		claim := q.newClaim(name)
		recipetest.WantErr(t, "claim", q.access.Call(t.Context(), claim.do, nil), nil)
		c.Expire(m)
		recipetest.WantErr(t, "undo", q.access.Call(t.Context(), claim.undo, nil), nil)
		q.drop(name)
		q.unuse()
		recipetest.Later(time.Minute)

		_, err = queue.Poll(t.Context())
		recipetest.WantErr(t, "poll", err, nil)
		recipetest.Later(time.Minute)
		if left := c.Srv.Children(q.dirs.consumers); len(left) > 0 {
			t.Errorf("consumers are left: %v", left)
		}
	})
}
