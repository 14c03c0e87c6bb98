// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// crowd keeps l full: n goroutines take it one after the other, for the time
// each, and the next comes before the last leaves. It ends when stop is closed.
func crowd(t *testing.T, l *Lock, n int, each time.Duration, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			time.Sleep(each / time.Duration(n) * time.Duration(i))
			for !isClosed(stop) {
				h := mustLock(t, l)
				time.Sleep(each)
				mustRelease(t, h)
			}
		})
	}
	return &wg
}

// A process whose goroutines keep arriving lets others have their turn.
func TestTenure(t *testing.T) {
	for _, tenure := range []time.Duration{20 * time.Millisecond, 0 /* 100 ms */, time.Second, -1} {
		t.Run(fmt.Sprint(tenure), func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.lock("a", func(cfg *Config) { cfg.Tenure = tenure })
				b := c.lock("b")
				stop := make(chan struct{})
				wg := crowd(c.t, a, 4, 50*time.Millisecond, stop)
				later(10 * time.Second)
				wantGrants(c.t, a, 1) // nobody else wants it
				for range 5 {
					start := time.Now()
					h := b.Acquire(c.t.Context())
					if tenure < 0 {
						later(time.Minute)
						wantErr(c.t, "the other process", h.Err(), ErrNotGranted)
						h.Release()
						break
					}
					if tenure == 0 {
						tenure = 100 * time.Millisecond
					}
					<-h.Granted().Done()
					if d := time.Since(start); d > 3*tenure+200*time.Millisecond {
						c.t.Errorf("the other process waited for %v", d)
					}
					time.Sleep(10 * time.Millisecond)
					mustRelease(c.t, h)
					later(tenure / 2)
					if p, _ := a.State(); p != state.Retained {
						c.t.Errorf("the crowd is not back: %v", p)
					}
				}
				close(stop)
				wg.Wait()
			})
		})
	}
}

func wantGrants(t *testing.T, l *Lock, n uint64) {
	t.Helper()
	if got := l.Stats().Grants; got != n {
		t.Errorf("%d grants, want %d", got, n)
	}
}

// Those who only look whether they can have the lock do not end the tenure.
func TestTenureAndTryLock(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		stop := make(chan struct{})
		wg := crowd(c.t, a, 4, 50*time.Millisecond, stop)
		later(time.Second)
		for range 50 {
			_, err := b.TryLock(c.t.Context())
			wantErr(c.t, "trylock", err, ErrLocked)
			later(70 * time.Millisecond)
		}
		wantGrants(c.t, a, 1)
		close(stop)
		wg.Wait()
	})
}

// Rounds that are shorter than the tenure pay nothing for it, and long ones
// little.
func TestTenureIsCheap(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		mustRelease(c.t, mustLock(c.t, l))
		c.takeCounts()
		for range 10 {
			h := mustLock(c.t, l)
			time.Sleep(50 * time.Millisecond)
			mustRelease(c.t, h)
		}
		if got := c.takeCounts(); got[createNode] != 10 || got[deleteNode] != 10 || got[list]+got[lookAtNode]+got[lookAtDir] != 0 {
			c.t.Errorf("10 short rounds made %v", got)
		}
		h := mustLock(c.t, l)
		later(time.Hour)
		if got := c.takeCounts(); got[list] > 2 || got[lookAtNode] > 2 {
			c.t.Errorf("a long round that nobody disturbs made %v", got)
		}
		mustRelease(c.t, h)
	})
}

// Who is inside is not disturbed when the tenure is over, however long he stays,
// and can reenter and share.
func TestTenureDisturbsNobodyInside(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		theirs := b.Acquire(c.t.Context())
		later(time.Hour)
		wantErr(c.t, "the holder", h.Err(), nil)
		ctx, cancel := h.Context(c.t.Context())
		defer cancel()
		n, err := a.Lock(ctx)
		wantErr(c.t, "reentered", err, nil)
		s, err := h.Share()
		wantErr(c.t, "shared", err, nil)
		newcomer := a.Acquire(c.t.Context())
		synctest.Wait()
		pending(c.t, "a newcomer", newcomer.Granted())
		_, err = a.TryLock(c.t.Context())
		wantErr(c.t, "a newcomer's trylock", err, ErrLocked)
		for _, h := range []Hold{n, s, h} {
			pending(c.t, "the other's turn", theirs.Granted())
			mustRelease(c.t, h)
		}
		synctest.Wait()
		wantErr(c.t, "the other's turn", theirs.Err(), nil)
		pending(c.t, "the newcomer", newcomer.Granted())
		mustRelease(c.t, theirs)
		synctest.Wait()
		wantErr(c.t, "the newcomer", newcomer.Err(), nil)
		mustRelease(c.t, newcomer)
	})
}
