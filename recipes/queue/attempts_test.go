// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// An attempt counts when a caller has got the element. However often a claim is taken back
// before, the element is not buried for it.
func TestF294_ClaimsTakenBack(t *testing.T) {
	const claims = 12
	takeInTime := func(t *testing.T, q *queue.Queue, d time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		recipetest.WantErr(t, "take", recipetest.ErrOf(q.Take(ctx)), context.DeadlineExceeded)
	}
	goesWithItsSession := func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue) {
		fault := c.Srv.Faults().SwallowReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Path: items + "/qn-0000000000/claim", Times: 1})
		ctx, cancel := context.WithCancel(c.T.Context())
		taken := takeLater(ctx, q)
		<-fault.Hit()
		refused := c.Srv.Faults().Refuse()
		c.Srv.ExpireSession(recipetest.SessionOf(m))
		recipetest.Later(time.Second)
		cancel()
		refused.Remove()
		if <-taken != nil {
			c.T.Error("took it")
		}
		recipetest.Later(time.Minute)
	}
	type row struct {
		claim func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue)
		want  int // the number of the next attempt
	}
	recipetest.Bubbles(t, map[string]row{
		"callers give up before the slow answer": {func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue) {
			slow := c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Times: -1}, 300*time.Millisecond)
			defer slow.Remove()
			takeInTime(c.T, q, 200*time.Millisecond)
			if slow.Hits() == 0 {
				c.T.Error("no claim was made")
			}
			recipetest.Later(time.Second)
		}, 1},
		"the session ends with the answer on its way": {goesWithItsSession, 1},
		"another process takes a claim back at the same time": {func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue) {
			const element = items + "/qn-0000000000"
			met := false
			c.Srv.OnRequest(func(_ int64, op zktest.Op, path string) {
				if op == zktest.OpMulti && path == element && !met {
					met = true
					recipetest.WantErr(c.T, "create", c.Srv.Create(element+"/another", nil), nil)
					c.Remove(element + "/another")
					recipetest.WantErr(c.T, "set", c.Srv.Set(element, []byte("precious")), nil)
				}
			})
			goesWithItsSession(c, m, q)
			c.Srv.OnRequest(nil)
			if !met {
				c.T.Error("they have not met")
			}
		}, 1},
		"the session ends, and the caller waits on": {func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue) {
			fault := c.Srv.Faults().SwallowReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Path: items + "/qn-0000000000/claim", Times: 1})
			taken := takeLater(c.T.Context(), q)
			<-fault.Hit()
			c.Expire(m)
			recipetest.WantErr(c.T, "return", (<-taken).Return(c.T.Context()), nil)
		}, claims + 1},
		"Poll is given up before its ack": {func(c *recipetest.Cluster, _ *manager.Manager, q *queue.Queue) {
			recipetest.WantErr(c.T, "poll", recipetest.ErrOf(q.Poll(endsOnceClaimed{context.Background(), c})), context.Canceled)
			recipetest.Later(time.Second)
		}, 1},
		"callers return it": {func(c *recipetest.Cluster, _ *manager.Manager, q *queue.Queue) {
			e, err := q.Take(c.T.Context())
			recipetest.WantErr(c.T, "take", err, nil)
			recipetest.WantErr(c.T, "return", e.Return(c.T.Context()), nil)
		}, claims + 1},
		"callers die with it": {func(c *recipetest.Cluster, m *manager.Manager, q *queue.Queue) {
			recipetest.WantErr(c.T, "take", recipetest.ErrOf(q.Take(c.T.Context())), nil)
			c.Expire(m)
		}, claims + 1},
	}, func(t *testing.T, c *recipetest.Cluster, tt row) {
		m := c.Open("a")
		q := open(t, m, queue.Options{MaxAttempts: claims})
		offer(t, q, "precious")
		for range claims {
			tt.claim(c, m, q)
		}
		e, err := open(t, c.Open("b"), queue.Options{MaxAttempts: -1}).Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Attempt() != tt.want {
			t.Errorf("attempt %d, want %d", e.Attempt(), tt.want)
		}
		ack(t, e)
	})
}
