// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/recipetest"
)

// Goroutines call any two methods of the same Permits at the same time, granted or not,
// while another process wants some. It never has its own beside them, and gets all of them
// afterwards.
func TestF286_CallsOnOnePermits(t *testing.T) {
	pending := []error{manager.ErrNotGranted}
	late := []error{manager.ErrNotGranted, context.DeadlineExceeded}
	calls := []recipetest.Call[*Permits]{
		{Name: "Err", Errs: pending, Do: func(_ context.Context, p *Permits) error { return p.Err() }},
		{Name: "Token", Errs: pending, Do: func(_ context.Context, p *Permits) error { _, err := p.Token(); return err }},
		{Name: "Granted", Errs: late, Do: func(ctx context.Context, p *Permits) error {
			_, err := p.Granted().Wait(ctx)
			return err
		}},
		{Name: "Context", Errs: late, Do: func(ctx context.Context, p *Permits) error {
			inside, done := p.Context(ctx)
			defer done()
			<-inside.Done()
			return context.Cause(inside)
		}},
		{Name: "Release", Errs: pending, Ends: true, Do: func(_ context.Context, p *Permits) error {
			_, err := p.Release().Wait(context.Background())
			return err
		}},
		{Name: "Unlock", Errs: append(late, manager.ErrUnconfirmed), Ends: true, Do: func(ctx context.Context, p *Permits) error { return p.Unlock(ctx) }},
	}
	recipetest.Bubble(t, func(t *testing.T, c *recipetest.Cluster) {
		const permits = 2
		var gone atomic.Bool
		a, b := open(c, "a", permits), open(c, "b", permits)
		loss := recipetest.Call[*Permits]{Name: "loss", Loses: true, Do: func(_ context.Context, p *Permits) error {
			if p.Err() == nil {
				gone.Store(true) // the other process may know before this one
				_ = c.Srv.Delete(p.nodes[0].Path())
			}
			return nil
		}}
		recipetest.AtOnce(c, manager.ErrReleased, ErrLost, append(calls, loss), func(rng *rand.Rand, strike func(*Permits) string) {
			gone.Store(false)
			first := rng.IntN(2) == 0
			var others sync.WaitGroup
			ask := func(p *Permits) {
				others.Go(func() {
					other := b.lock(1)
					if p != nil && p.Err() == nil && other.Err() == nil && p.Err() == nil && !gone.Load() {
						t.Error("two processes have more permits than there are")
					}
					recipetest.WantErr(t, "unlock of the other process", other.Unlock(context.Background()), nil)
				})
			}
			if first {
				ask(nil)
			}
			recipetest.Rest(time.Duration(rng.IntN(6)) * 50 * time.Microsecond)
			p := a.Acquire(context.Background(), permits)
			ask(p)
			strike(p)
			p.Release()
			others.Wait()
			recipetest.Later(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			all, err := b.TryLock(ctx, permits)
			if err != nil {
				t.Fatalf("permits are left: %v", err)
			}
			recipetest.WantErr(t, "unlock", all.Unlock(context.Background()), nil)
		})
	})
}
