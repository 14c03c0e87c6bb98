// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// errGaveUp is the cause with which the waits of these tests end.
var errGaveUp = errors.New("gave up")

// A wait that ends early gives its place up, and says why it ended and who was
// in the way.
func TestCancelledWait(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("billing")
		h := mustLock(c.t, b)
		for _, test := range []struct {
			what string
			end  func(context.Context) (context.Context, context.CancelFunc)
			want []error
		}{
			{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Minute, cancel)
				return ctx, cancel
			}, []error{context.Canceled}},
			{"cancelled with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Minute, func() { cancel(errGaveUp) })
				return ctx, func() { cancel(nil) }
			}, []error{context.Canceled, errGaveUp}},
			{"timed out", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Minute)
			}, []error{context.DeadlineExceeded}},
			{"timed out with a cause", func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, time.Minute, errGaveUp)
			}, []error{context.DeadlineExceeded, errGaveUp}},
		} {
			ctx, cancel := test.end(c.t.Context())
			start := time.Now()
			_, err := a.Lock(ctx)
			if waited := time.Since(start); waited != time.Minute {
				c.t.Errorf("%s: waited for %v", test.what, waited)
			}
			for _, want := range test.want {
				wantErr(c.t, test.what, err, want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Op != "lock" || e.Position != 1 || e.Ahead == nil || e.Ahead.Label != "billing" ||
				e.Ahead.Path != grantOf(c.t, h).Path || !strings.Contains(err.Error(), "billing@") {
				c.t.Errorf("%s: the error does not say who is in the way: %v", test.what, err)
			}
			cancel()
			synctest.Wait()
			c.wantNodes(1)
			wantState(c.t, a, state.Free, 0)
		}
		mustRelease(c.t, h)
	})
}

// A wait with a context that has ended already sends nothing.
func TestContextThatHasEnded(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		ctx, cancel := context.WithCancelCause(c.t.Context())
		cancel(errGaveUp)
		c.takeCounts()
		_, err := l.Lock(ctx)
		wantErr(c.t, "lock", err, errGaveUp)
		wantErr(c.t, "lock", err, context.Canceled)
		_, err = l.TryLock(ctx)
		wantErr(c.t, "trylock", err, errGaveUp)
		h := l.Acquire(ctx)
		wantErr(c.t, "acquire", settled(c.t, "grant", h.Granted()), errGaveUp)
		wantErr(c.t, "its release", settled(c.t, "release", h.Release()), errGaveUp)
		err = l.Do(ctx, func(context.Context, Hold) error { c.t.Error("do ran"); return nil })
		wantErr(c.t, "do", err, errGaveUp)
		synctest.Wait()
		if got := c.takeCounts(); len(got) > 0 {
			c.t.Errorf("requests were sent: %v", got)
		}
	})
}

// An acquisition is withdrawn when its context ends before the grant, and only
// then; the others of its round go on waiting.
func TestWithdrawal(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		ctx, cancel := context.WithCancel(c.t.Context())
		withdrawn, patient := a.Acquire(ctx), a.Acquire(c.t.Context())
		nested, err := withdrawn.Reenter() // bound by no context
		wantErr(c.t, "reenter", err, nil)
		synctest.Wait()
		wantState(c.t, a, state.Fetching, 2)
		cancel()
		synctest.Wait()
		wantState(c.t, a, state.Fetching, 2)
		nested.Release()
		wantState(c.t, a, state.Fetching, 1)
		wantErr(c.t, "the withdrawn hold", withdrawn.Err(), ErrReleased)
		wantErr(c.t, "its release", settled(c.t, "release", withdrawn.Release()), ErrReleased)
		wantErr(c.t, "the other", patient.Err(), ErrNotGranted)
		c.wantNodes(2)

		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the other", patient.Err(), nil)
		wantErr(c.t, "the withdrawn hold", withdrawn.Err(), ErrReleased)

		// After the grant a context has no effect any more.
		ctx, cancel = context.WithCancel(c.t.Context())
		late := a.Acquire(ctx)
		cancel()
		synctest.Wait()
		wantErr(c.t, "a hold whose context ended after the grant", late.Err(), nil)
		mustRelease(c.t, late)
		mustRelease(c.t, patient)

		// The same for one that waited.
		h = mustLock(c.t, b)
		ctx, cancel = context.WithCancel(c.t.Context())
		late = a.Acquire(ctx)
		synctest.Wait()
		mustRelease(c.t, h)
		synctest.Wait()
		cancel()
		synctest.Wait()
		wantErr(c.t, "a hold whose context ended after the grant", late.Err(), nil)
		mustRelease(c.t, late)
		c.wantNodes(0)
	})
}

// Both orders of a wait's end and the grant, before each of the requests that
// lead to the grant: the place is given up, and no grant is leaked.
func TestF031_CancelAtEachStep(t *testing.T) {
	for _, before := range []verb{lookAtDir, makeDir, createNode, list, lookAtNode} {
		t.Run(string(before), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.lock("a"), c.lock("b")
				contended := before == list || before == lookAtNode
				var stranger Hold
				if contended {
					stranger = mustLock(c.t, b)
				}
				for _, order := range []string{"ends first", "ends, another joins", "two wait, one ends"} {
					stop := c.stopBefore(a.m, before)
					ctx, cancel := context.WithCancelCause(c.t.Context())
					done := make(chan error, 1)
					go func() {
						h, err := a.Lock(ctx)
						h.Release()
						done <- err
					}()
					var other Hold
					if order == "two wait, one ends" {
						other = a.Acquire(c.t.Context())
					}
					stop.reached()
					c.takeCounts()
					cancel(errGaveUp)
					wantErr(c.t, order, <-done, errGaveUp)
					synctest.Wait()
					if order == "ends, another joins" {
						wantState(c.t, a, state.Fetching, 0)
						other = a.Acquire(c.t.Context())
					}
					stop.goOn()

					switch {
					case order == "ends first":
						wantState(c.t, a, state.Free, 0)
						if contended {
							c.wantNodes(1)
						} else {
							c.wantNodes(0)
						}
					case contended:
						wantErr(c.t, order, other.Err(), ErrNotGranted)
						c.wantNodes(2)
						if n := c.takeCounts()[createNode]; n != 0 {
							c.t.Errorf("%s: %d more nodes were made", order, n)
						}
						wantErr(c.t, order, other.Unlock(c.t.Context()), ErrNotGranted)
						synctest.Wait()
						c.wantNodes(1)
					default:
						wantErr(c.t, order, other.Err(), nil)
						c.wantNodes(1)
						mustRelease(c.t, other)
						c.wantNodes(0)
					}
					if before == lookAtDir || before == makeDir {
						break // a lock looks only once
					}
				}
				if contended {
					mustRelease(c.t, stranger)
				}
			})
		})
	}
}

// A wait ends while the lock is being handed over to it, at every moment: who
// gets the hold has it, and who gets an error has left nothing.
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
							if err := mine.Err(); err != nil {
								c.t.Errorf("%s: granted, but %v", what, err)
							}
							got.Add(1)
						case !errors.Is(err, errGaveUp) && !errors.Is(err, ErrReleased) && !errors.Is(err, ErrNotGranted):
							c.t.Errorf("%s: %v", what, err)
						default:
							missed.Add(1)
						}
						if what == "at the grant" {
							time.Sleep(time.Millisecond) // which is over when nobody looks for the grant any more
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
			if what == "after the grant" && missed.Load() > 0 {
				c.t.Errorf("%s: %d grants, %d misses", what, got.Load(), missed.Load())
			}
		}
	})
}

// A thousand waits that were given up leave nothing behind: no node, no watch,
// no memory.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		churn := func(n int) {
			for range n {
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
				if _, err := a.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
					c.t.Errorf("got %v", err)
				}
				cancel()
			}
			synctest.Wait()
		}
		churn(200)
		watches, onServer, before := a.m.client.Stats().Watches, c.srv.AllWatches(), liveHeap()
		churn(1000)
		if n := a.m.client.Stats().Watches; n != watches || n != 0 {
			t.Errorf("the client has %d watches, had %d", n, watches)
		}
		if n := c.srv.AllWatches(); n != onServer {
			t.Errorf("the server has %+v watches for us, had %+v", n, onServer)
		}
		if grown := liveHeap() - before; grown > 200_000 {
			t.Errorf("1000 waits left %d bytes", grown)
		}
		if n := len(a.m.active); n != 0 {
			t.Errorf("%d trips are active", n)
		}
		c.wantNodes(1)
		mustRelease(c.t, h)
	})
}

// Many goroutines of many processes wait, give up, hold and leave at random:
// in the end nothing is left, and exclusion held all the time.
func TestCancelStorm(t *testing.T) {
	bubble(t, func(c *cluster) {
		r := newReferee(c.t)
		var locks []*Lock
		var wg sync.WaitGroup
		for p := range 3 {
			l := c.lock(fmt.Sprint(p))
			locks = append(locks, l)
			for range 6 {
				wg.Go(func() {
					for range 60 {
						ctx, cancel := context.WithTimeoutCause(c.t.Context(), rand.N(20*time.Millisecond), errGaveUp)
						var h Hold
						var err error
						switch rand.IntN(3) {
						case 0:
							h, err = l.Lock(ctx)
						case 1:
							h, err = l.TryLock(ctx)
						case 2:
							h = l.Acquire(ctx)
							if _, err = h.Granted().Wait(ctx); err == nil {
								err = h.Err()
							}
						}
						if err == nil {
							r.enter(l.m, h)
							time.Sleep(rand.N(10 * time.Millisecond))
							r.leave(h)
							if err := h.Unlock(c.t.Context()); err != nil {
								c.t.Errorf("unlock: %v", err)
							}
						} else if !errors.Is(err, errGaveUp) && !errors.Is(err, ErrLocked) &&
							!errors.Is(err, ErrReleased) && !errors.Is(err, ErrNotGranted) {
							c.t.Errorf("got %v", err)
						}
						cancel()
						time.Sleep(rand.N(60 * time.Millisecond)) // so that rounds end
					}
				})
			}
		}
		wg.Wait()
		later(time.Second)
		c.wantNodes(0)
		for _, l := range locks {
			wantState(c.t, l, state.Free, 0)
		}
		if r.rounds < 10 {
			c.t.Errorf("only %d rounds", r.rounds)
		}
	})
}
