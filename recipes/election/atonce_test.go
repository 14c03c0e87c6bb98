// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/election"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
	"github.com/holdfast-go/holdfast/zkio"
)

// Goroutines call any two methods of one Leadership at the same time, while another process
// stands. The two never lead at once, and the other one leads afterwards.
func TestF286_CallsOnOneLeadership(t *testing.T) {
	late := []error{context.DeadlineExceeded}
	calls := []recipetest.Call[*election.Leadership]{
		{Name: "Err", Do: func(_ context.Context, l *election.Leadership) error { return l.Err() }},
		{Name: "Elected", Do: func(ctx context.Context, l *election.Leadership) error {
			_, err := l.Elected().Wait(ctx)
			return err
		}},
		{Name: "Context", Errs: late, Do: func(ctx context.Context, l *election.Leadership) error {
			inside, cancel := l.Context(ctx)
			defer cancel()
			<-inside.Done()
			return context.Cause(inside)
		}},
		{Name: "Guard", Errs: late, Do: func(ctx context.Context, l *election.Leadership) error {
			_, err := l.Guard(ctx, zkio.CheckOp("/holdfast", -1))
			return err
		}},
		{Name: "Proclaim", Errs: late, Do: func(ctx context.Context, l *election.Leadership) error {
			return l.Proclaim(ctx, []byte("new"))
		}},
		{Name: "Resign", Errs: append(late, manager.ErrUnconfirmed), Ends: true, Do: func(ctx context.Context, l *election.Leadership) error {
			return l.Resign(ctx)
		}},
	}
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		_, a := open(c, "a")
		_, b := open(c, "b")
		var gone atomic.Bool
		loss := recipetest.Call[*election.Leadership]{Name: "loss", Loses: true, Do: func(_ context.Context, l *election.Leadership) error {
			if l.Err() == nil {
				gone.Store(true) // the other process may know before this one
				_ = c.Srv.Delete(recordPath)
			}
			return nil
		}}
		recipetest.AtOnce(c, election.ErrResigned, election.ErrLost, append(calls, loss), func(rng *rand.Rand, strike func(*election.Leadership) string) {
			gone.Store(false)
			l := campaign(t, a)
			var others sync.WaitGroup
			others.Go(func() {
				other := campaign(t, b)
				if l.Err() == nil && other.Err() == nil && l.Err() == nil && !gone.Load() {
					t.Error("two processes lead")
				}
				resign(t, other)
			})
			if rng.IntN(2) == 0 { // another share in the term
				also, stays := campaign(t, a), time.Duration(rng.IntN(4))*50*time.Microsecond
				others.Go(func() {
					recipetest.Rest(stays)
					_ = also.Resign(context.Background()) // it may be lost
				})
			}
			strike(l)
			_ = l.Resign(context.Background())
			others.Wait()
			recipetest.Later(time.Second)
			if left := c.Srv.Children(lockDir); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	})
}
