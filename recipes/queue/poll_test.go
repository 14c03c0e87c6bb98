// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// endsOnceClaimed is a context that ends when there is a claim, but whose Done is never
// noticed before: as if it ended right after the answer to the claim.
type endsOnceClaimed struct {
	context.Context

	c *recipetest.Cluster
}

func (ctx endsOnceClaimed) Err() error {
	for _, path := range ctx.c.Srv.Nodes() {
		if strings.HasSuffix(path, "/claim") {
			return context.Canceled
		}
	}
	return nil
}

// The context of Poll ends between the claim and the ack: the element is given back.
func TestF255_PollGivenUpBeforeTheAck(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		a, b := open(t, c.Open("a"), queue.Options{}), open(t, c.Open("b"), queue.Options{})
		offer(t, b, "1")
		data, err := a.Poll(endsOnceClaimed{context.Background(), c})
		recipetest.WantErr(t, "poll", err, context.Canceled)
		if data != nil {
			t.Errorf("polled %q", data)
		}
		ack(t, take(t, b, "1"))
		wantLeft(c)
	})
}

// The context of Poll ends while the ack is under way: the caller gets the element that is
// about to go.
func TestF255_PollGivenUpInTheAck(t *testing.T) {
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		q := open(t, m, queue.Options{})
		offer(t, q, "1")
		c.Srv.Faults().DelayReply(zktest.Match{Session: recipetest.SessionOf(m), Op: zktest.OpMulti, Nth: 2, Times: 1}, 2*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		data, err := q.Poll(ctx)
		recipetest.WantErr(t, "poll", err, context.DeadlineExceeded)
		recipetest.WantErr(t, "poll", err, manager.ErrUnknownOutcome)
		if string(data) != "1" {
			t.Errorf("the element is %q and gone from the queue", data)
		}
		recipetest.Later(time.Minute)
		wantLeft(c)
	})
}
