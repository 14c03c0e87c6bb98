// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

func TestTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("billing")

		// Free: it takes it.
		h, err := a.TryLock(c.t.Context())
		wantErr(c.t, "free", err, nil)
		wantErr(c.t, "free", h.Err(), nil)

		// Ours: it enters, and does not exclude our own goroutines.
		more, err := a.TryLock(c.t.Context())
		wantErr(c.t, "ours", err, nil)
		wantState(c.t, a, state.Retained, 2)
		mustRelease(c.t, more)

		// Another process's: it says so, and who that is, and leaves no node.
		_, err = b.TryLock(c.t.Context())
		var e *Error
		if !errors.Is(err, ErrLocked) || !errors.As(err, &e) || e.Op != "trylock" || e.Position != 1 || e.Ahead == nil || e.Ahead.Label != "a" {
			c.t.Errorf("got %v, want ErrLocked with who is ahead", err)
		}
		synctest.Wait()
		c.wantNodes(1)
		wantState(c.t, b, state.Free, 0)

		// A round of ours that is known to wait: it answers without a request.
		waiting := b.Acquire(c.t.Context())
		synctest.Wait()
		c.takeCounts()
		_, err = b.TryLock(c.t.Context())
		if !errors.As(err, &e) || !errors.Is(err, ErrLocked) || e.Ahead == nil || e.Ahead.Label != "a" {
			c.t.Errorf("got %v, want ErrLocked with who is ahead", err)
		}
		synctest.Wait()
		if got := c.takeCounts(); len(got) > 0 {
			c.t.Errorf("requests were sent: %v", got)
		}
		wantState(c.t, b, state.Fetching, 1)

		// Free again after that.
		mustRelease(c.t, h)
		synctest.Wait()
		h, err = b.TryLock(c.t.Context())
		wantErr(c.t, "granted meanwhile", err, nil)
		mustRelease(c.t, waiting)
		mustRelease(c.t, h)
		c.wantNodes(0)
	})
}

// While this process releases the lock, TryLock joins the next round, and gets
// the lock if nobody else waits.
func TestTryLockWhileReleasing(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		for _, contended := range []bool{false, true} {
			h := mustLock(c.t, a)
			var stranger Hold
			if contended {
				stranger = b.Acquire(c.t.Context())
				synctest.Wait()
			}
			stop := c.stopBefore(a.m, deleteNode)
			h.Release()
			stop.reached()
			done := make(chan error, 1)
			go func() {
				h, err := a.TryLock(c.t.Context())
				h.Release()
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				c.t.Errorf("it answered before the lock was released: %v", err)
			default:
			}
			stop.goOn()
			if contended {
				wantErr(c.t, "with another process in line", <-done, ErrLocked)
				wantErr(c.t, "the other process", stranger.Err(), nil)
				mustRelease(c.t, stranger)
			} else {
				wantErr(c.t, "with nobody in line", <-done, nil)
			}
			synctest.Wait()
			c.wantNodes(0)
		}
	})
}

// TryLock waits for ZooKeeper's answer no longer than its context allows.
func TestTryLockIsBounded(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		hole := c.srv.Faults().Blackhole(session(l.m))
		ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Second, errGaveUp)
		defer cancel()
		start := time.Now()
		_, err := l.TryLock(ctx)
		wantErr(c.t, "in silence", err, errGaveUp)
		wantErr(c.t, "in silence", err, context.DeadlineExceeded)
		if d := time.Since(start); d != time.Second {
			c.t.Errorf("it took %v", d)
		}
		hole.Remove()
		waitUntil(c.t, "nothing is left", func() bool { p, _ := l.State(); return p == state.Free })
		c.wantNodes(0)
	})
}

// Somebody else waits with us in the round that TryLock joined: he goes on
// waiting.
func TestTryLockLeavesOthersAlone(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		stop := c.stopBefore(a.m, createNode)
		done := make(chan error, 1)
		go func() {
			_, err := a.TryLock(c.t.Context())
			done <- err
		}()
		stop.reached()
		patient := a.Acquire(c.t.Context())
		stop.goOn()
		wantErr(c.t, "trylock", <-done, ErrLocked)
		synctest.Wait()
		wantState(c.t, a, state.Fetching, 1)
		c.wantNodes(2)
		mustRelease(c.t, h)
		synctest.Wait()
		wantErr(c.t, "the patient one", patient.Err(), nil)
		mustRelease(c.t, patient)
	})
}

// A round fails while TryLock waits: it says why.
func TestTryLockFails(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		stop := c.stopBefore(l.m, createNode)
		done := make(chan error, 1)
		go func() {
			_, err := l.TryLock(c.t.Context())
			done <- err
		}()
		stop.reached()
		closed := make(chan error, 1)
		go func() { closed <- l.m.Close() }()
		wantErr(c.t, "trylock", <-done, ErrClosed)
		stop.goOn()
		<-closed
		_, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock after Close", err, ErrClosed)
	})
}

// Processes that try and try again never wait for each other, and one of them
// gets it.
func TestTryLockStorm(t *testing.T) {
	bubble(t, func(c *cluster) {
		r := newReferee(c.t)
		var got, missed int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for p := range 5 {
			l := c.lock(fmt.Sprint(p))
			wg.Go(func() {
				for range 100 {
					h, err := l.TryLock(c.t.Context())
					mu.Lock()
					switch {
					case err == nil:
						got++
					case errors.Is(err, ErrLocked):
						missed++
					default:
						c.t.Errorf("got %v", err)
					}
					mu.Unlock()
					if err == nil {
						r.enter(l.m, h)
						time.Sleep(rand.N(5 * time.Millisecond))
						r.leave(h)
						mustRelease(c.t, h)
					}
					time.Sleep(rand.N(20 * time.Millisecond))
				}
			})
		}
		wg.Wait()
		later(time.Second)
		if got < 50 || missed == 0 {
			c.t.Errorf("%d got it, %d did not", got, missed)
		}
		c.wantNodes(0)
	})
}
