// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/recipes/queue"
)

// Goroutines call any two methods of one Element at the same time, while another process
// wants it. What the first of them to settle it says happens, and nothing else.
func TestF286_CallsOnOneElement(t *testing.T) {
	late := []error{context.DeadlineExceeded}
	settles := func(name string, do func(*queue.Element, context.Context) error) recipetest.Call[*queue.Element] {
		return recipetest.Call[*queue.Element]{Name: name, Ends: true, Errs: append(late, manager.ErrUnknownOutcome), Do: func(ctx context.Context, e *queue.Element) error {
			return do(e, context.WithoutCancel(ctx)) // a call whose context had ended would not count
		}}
	}
	calls := []recipetest.Call[*queue.Element]{
		{Name: "Err", Do: func(_ context.Context, e *queue.Element) error { return e.Err() }},
		{Name: "Context", Errs: late, Do: func(ctx context.Context, e *queue.Element) error {
			inside, done := e.Context(ctx)
			defer done()
			<-inside.Done()
			return context.Cause(inside)
		}},
		settles("Ack", (*queue.Element).Ack),
		settles("Return", (*queue.Element).Return),
		settles("Bury", (*queue.Element).Bury),
	}
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		m := c.Open("a")
		a, b := open(t, m, queue.Options{}), open(t, c.Open("b"), queue.Options{})
		var gone atomic.Bool
		calls = append(calls, recipetest.Call[*queue.Element]{Name: "loss", Loses: true, Do: func(context.Context, *queue.Element) error {
			if !gone.Swap(true) {
				c.Srv.ExpireSession(recipetest.SessionOf(m))
			}
			return nil
		}})
		recipetest.AtOnce(c, queue.ErrSettled, queue.ErrLost, calls, func(_ *rand.Rand, strike func(*queue.Element) string) {
			gone.Store(false)
			offer(t, a, "x")
			e := take(t, a, "x")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			other := takeLater(ctx, b)
			first := strike(e)
			recipetest.Later(10 * time.Second)
			if first == "" && !gone.Load() {
				recipetest.WantErr(t, "ack of what no call has settled", e.Ack(ctx), nil)
			}
			cancel()
			taken := <-other
			dead := len(c.Srv.Children("/holdfast/q/dead"))
			if !gone.Load() && ((taken != nil) != (first == "Return") || (dead > 0) != (first == "Bury")) || taken != nil && dead > 0 {
				t.Errorf("after %q, another process has it: %t; %d dead", first, taken != nil, dead)
			}
			if taken != nil {
				ack(t, taken)
			}
			for _, name := range c.Srv.Children("/holdfast/q/dead") {
				c.Remove("/holdfast/q/dead/" + name)
			}
			if _, err := b.Poll(context.Background()); !errors.Is(err, queue.ErrEmpty) {
				t.Errorf("poll: %v, want it empty", err)
			}
		})
		wantLeft(c)
	})
}
