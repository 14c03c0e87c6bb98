// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A stream is goroutines of a process that keep arriving at a lock: each is inside
// for a while, and the next comes before the last has left. Without a tenure they
// would share the lock for ever.
type stream struct {
	stop context.CancelFunc
	done chan struct{}
}

func newStream(c *cluster, l *Lock) *stream {
	c.t.Helper()
	h := mustLock(c.t, l)
	ctx, stop := context.WithCancel(c.t.Context())
	s := &stream{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for ctx.Err() == nil {
			next := l.Acquire(ctx)
			time.Sleep(5 * time.Millisecond)
			h.Release()
			if _, err := next.Granted().Wait(ctx); err != nil {
				return
			}
			h = next
		}
		h.Release()
	}()
	return s
}

func (s *stream) end() {
	s.stop()
	<-s.done
	synctest.Wait()
}

// A rivalry opens the locks of two processes that exclude each other.
type rivalry func(c *cluster, with ...func(*Config)) (inside, waits *Lock)

var rivalries = map[string]rivalry{
	"mutexes": func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.lock("a", with...), c.lock("b")
	},
	"writers": func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Writer(), c.rw("b").Writer()
	},
	"readers and a writer": func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Reader(), c.rw("b").Writer()
	},
	"writers and a reader": func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Writer(), c.rw("b").Reader()
	},
	"readers and a mutex": func(c *cluster, with ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a", with...).Reader(), c.lock("b")
	},
}

// withTenure sets the tenure of a process.
func withTenure(d time.Duration) func(*Config) { return func(cfg *Config) { cfg.Tenure = d } }

// A process that is never without a holder makes way for a waiter one tenure after
// it has first seen it, and queues behind it.
func TestF038_Tenure(t *testing.T) {
	const tenure = 200 * time.Millisecond
	for _, before := range []time.Duration{0, 30 * time.Millisecond, time.Minute} {
		t.Run(fmt.Sprintf("after %v", before), func(t *testing.T) {
			each(t, rivalries, func(c *cluster, take rivalry) {
				inside, waits := take(c, withTenure(tenure))
				s := newStream(c, inside)
				time.Sleep(before)
				start := time.Now()
				h := mustLock(c.t, waits)
				// The process may need a tenure to see the waiter, and its last holder a moment to leave.
				waited, most := time.Since(start), 2*tenure+10*time.Millisecond
				expect(c.t, waited >= tenure && waited <= most,
					"waited %v, want %v to %v", waited, tenure, most)
				later(time.Second)
				wantState(c.t, inside, state.Fetching, 1) // the goroutine that was not let in
				wantEq(c.t, "grants to the goroutines that share the lock", inside.Stats().Grants, 1)
				c.unlock(h)
				wantPhase(c.t, inside, state.Retained)
				s.end()
			})
		})
	}
}

// A process makes no way for contenders that pass by, however many there are:
// TryLock, and waits that end before a tenure. Nor for those that can share the lock.
func TestGateStaysOpen(t *testing.T) {
	const tenure = 100 * time.Millisecond
	type visitor struct {
		take   rivalry
		passes func(*cluster, *Lock)
	}
	try := func(c *cluster, l *Lock) {
		h, err := l.TryLock(c.t.Context())
		wantErr(c.t, "trylock", err, ErrLocked)
		h.Release()
	}
	giveUp := func(c *cluster, l *Lock) {
		ctx := withTimeout(c.t, tenure*9/10)
		wantErr(c.t, "lock", errOf(l.Lock(ctx)), context.DeadlineExceeded)
	}
	share := func(c *cluster, l *Lock) {
		h := mustLock(c.t, l)
		time.Sleep(10 * tenure)
		mustRelease(c.t, h)
	}
	readers := func(c *cluster, _ ...func(*Config)) (inside, waits *Lock) {
		return c.rw("a").Reader(), c.rw("b").Reader()
	}
	each(t, map[string]visitor{
		"a mutex is tried":          {rivalries["mutexes"], try},
		"a writer is tried":         {rivalries["readers and a writer"], try},
		"a writer gives up":         {rivalries["readers and a writer"], giveUp},
		"a reader comes to readers": {readers, share},
	}, func(c *cluster, test visitor) {
		inside, other := test.take(c)
		s := newStream(c, inside)
		for range 200 {
			test.passes(c, other)
			time.Sleep(7 * time.Millisecond)
		}
		wantEq(c.t, "rounds", inside.Stats().Rounds, 1)
		s.end()
	})
}

// The tenure takes no request of a round that is shorter, and of a longer one a read
// of its own node and a list, once.
func TestTenureCostsShortRoundsNothing(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a", withTenure(100*time.Millisecond))
		c.cycle(l)
		later(time.Second)
		n := c.tally(l.m)
		for range 50 {
			h := mustLock(c.t, l)
			time.Sleep(99 * time.Millisecond)
			mustRelease(c.t, h)
		}
		later(time.Second)
		n.want("50 short rounds", "delete=50 multi=50")
		h := mustLock(c.t, l)
		later(time.Second)
		mustRelease(c.t, h)
		n.want("a round of ten tenures", "delete=1 getChildren2=1 multi=1 setWatches=1")
	})
}

// However many contenders come and go behind a lock that is held for long, its
// process lists the queue twice a tenure at most.
func TestLooksAreBounded(t *testing.T) {
	const tenure = 100 * time.Millisecond
	either(t, func(c *cluster, write bool) {
		l, other := c.rw("a").Reader(), pick(c.rw("b"), write)
		h := mustLock(c.t, l)
		later(time.Second)
		before := l.m.client.Stats().Sent["getChildren2"]
		for range 500 {
			ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Millisecond)
			g, err := other.Lock(ctx)
			if write {
				wantErr(c.t, "lock", err, context.DeadlineExceeded)
			} else {
				wantErr(c.t, "lock", err, nil)
			}
			<-ctx.Done()
			cancel()
			g.Release()
			time.Sleep(time.Millisecond)
		}
		looks := l.m.client.Stats().Sent["getChildren2"] - before
		most := uint64(2*2*time.Second/tenure) + 2
		expect(c.t, looks >= 2 && looks <= most, "%d looks in 2 s, want 2 to %d", looks, most)
		c.unlock(h)
	})
}

// Three processes that all want the lock all the time, each with goroutines that
// overlap: each of them gets its turn, over and over.
func TestTenureIsFairAmongProcesses(t *testing.T) {
	each(t, map[string]func(c *cluster, i int) *Lock{
		"mutexes":                  func(c *cluster, i int) *Lock { return c.lock(fmt.Sprint(i)) },
		"two readers and a writer": func(c *cluster, i int) *Lock { return pick(c.rw(fmt.Sprint(i)), i == 2) },
	}, func(c *cluster, lock func(c *cluster, i int) *Lock) {
		ctx := withTimeout(c.t, 20*time.Second)
		const goroutines = 4
		var locks []*Lock
		done := make(chan struct{})
		for i := range 3 {
			l := lock(c, i)
			locks = append(locks, l)
			for g := range goroutines {
				go func() {
					defer func() { done <- struct{}{} }()
					time.Sleep(time.Duration(g) * time.Millisecond)
					for {
						h, err := l.Lock(ctx)
						if err != nil {
							expect(c.t, errors.Is(err, context.DeadlineExceeded), "lock: %v", err)
							return
						}
						time.Sleep(time.Duration(5+g) * time.Millisecond)
						h.Release()
					}
				}()
			}
		}
		for range 3 * goroutines {
			<-done
		}
		for _, l := range locks {
			s := l.Stats()
			expect(c.t, s.Grants >= 20 && s.Entries+s.Joins >= 10*s.Grants,
				"%s: %d grants, %d entries, %d joins in 20 s", l.m.cfg.Label, s.Grants, s.Entries, s.Joins)
		}
	})
}
