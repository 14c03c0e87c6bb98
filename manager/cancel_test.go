// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// errGaveUp is the cause of the cancelled contexts in these tests.
var errGaveUp = errors.New("gave up")

// A wait ends while the lock is handed over to it, at various moments. A caller
// with a nil error holds the lock, and one with an error leaves nothing behind.
func TestF032_CancelAtTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		for what, moment := range map[string]func(*futures.Future[struct{}]){
			"at the release":                   func(*futures.Future[struct{}]) {},
			"when the other's release is done": func(f *futures.Future[struct{}]) { <-f.Done() },
			"at the grant": func(*futures.Future[struct{}]) {
				for p := state.Fetching; p != state.Retained; p, _ = a.State() {
					runtime.Gosched()
				}
			},
			"after the grant": func(*futures.Future[struct{}]) { synctest.Wait() },
		} {
			var got, missed atomic.Int64
			for range 100 {
				h := mustLock(c.t, b)
				ctx, cancel := context.WithCancelCause(c.t.Context())
				var wg sync.WaitGroup
				for i := range 3 {
					wg.Go(func() {
						var mine Hold
						var err error
						if i == 0 {
							mine = a.Acquire(ctx)
							if _, err = mine.Granted().Wait(ctx); err == nil {
								err = mine.Err()
							}
						} else {
							mine, err = a.Lock(ctx)
						}
						switch {
						case err == nil:
							expect(c.t, mine.Err() == nil, "%s: granted, but %v", what, mine.Err())
							got.Add(1)
						case !errors.Is(err, errGaveUp) && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrNotGranted):
							c.t.Errorf("%s: %v", what, err)
						default:
							missed.Add(1)
						}
						if what == "at the grant" {
							time.Sleep(time.Millisecond) // until no goroutine polls for the grant any more
						}
						mine.Release()
					})
				}
				synctest.Wait()
				moment(h.Release())
				cancel(errGaveUp)
				wg.Wait()
				synctest.Wait()
				wantState(c.t, a, state.Free, 0)
				c.wantNodes(0)
			}
			c.t.Logf("%s: %d grants, %d misses", what, got.Load(), missed.Load())
			expect(c.t, what != "after the grant" || missed.Load() == 0,
				"%s: %d grants, %d misses", what, got.Load(), missed.Load())
		}
	})
}

// A thousand cancelled waits leave nothing behind: no node, no watch, no memory.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a", unobserved), c.lock("b", unobserved)
		h := mustLock(c.t, b)
		churn := func(n int) {
			for range n {
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
				_, err := a.Lock(ctx)
				expect(c.t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
				cancel()
			}
			later(time.Minute) // the holder has looked behind, and watches again
		}
		churn(200)
		watches, onServer, before := a.m.client.Stats().Watches, c.srv.AllWatches(), liveHeap()
		churn(1000)
		if n := a.m.client.Stats().Watches; n != watches || n != 1 { // the mailbox
			c.t.Errorf("the client has %d watches, had %d", n, watches)
		}
		wantEq(c.t, "watches of the server", c.srv.AllWatches(), onServer)
		grown := liveHeap() - before
		expect(c.t, grown <= 200_000, "1000 waits left %d bytes", grown)
		c.wantNodes(1)
		mustRelease(c.t, h)
	})
}
