// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A machine runs managers, and a test can suspend it. Go's clock stops meanwhile;
// the servers' clocks go on.
type machine struct {
	slept atomic.Int64
	asked atomic.Int64 // how often the clock was read
}

// suspend suspends the machine for d. Its clock runs for a moment while it goes to
// sleep and wakes up, and package zkio relies on that.
func (m *machine) suspend(d time.Duration) {
	m.slept.Add(int64(d))
	time.Sleep(time.Millisecond)
}

// run is an option of open: the manager runs on the machine.
func (m *machine) run(cfg *Config) {
	cfg.suspended = func() time.Duration {
		m.asked.Add(1)
		return time.Duration(m.slept.Load())
	}
}

// The machine is suspended for longer than the lease lasts. Whichever call comes
// first when it resumes reports the loss, although no timer has fired yet.
func TestF045_SuspendedMachine(t *testing.T) {
	for _, test := range []struct {
		what string
		ask  func(ctx context.Context, l *Lock, h Hold) error
	}{
		{"err", func(_ context.Context, _ *Lock, h Hold) error { return h.Err() }},
		{"grant", func(_ context.Context, _ *Lock, h Hold) error { _, err := h.Grant(); return err }},
		{"reenter", func(_ context.Context, _ *Lock, h Hold) error { _, err := h.Reenter(); return err }},
		{"share", func(_ context.Context, _ *Lock, h Hold) error { _, err := h.Share(); return err }},
		{"lock", func(ctx context.Context, l *Lock, _ Hold) error { _, err := l.Lock(ctx); return err }},
		{"trylock", func(ctx context.Context, l *Lock, _ Hold) error { _, err := l.TryLock(ctx); return err }},
		{"guard", func(ctx context.Context, _ *Lock, h Hold) error { return write(ctx, h, "late") }},
		{"nothing, for a sixth of the timeout", func(_ context.Context, _ *Lock, h Hold) error {
			time.Sleep(10*time.Second/6 + moment)
			if !isClosed(h.Lost()) {
				return nil
			}
			return ErrLost
		}},
	} {
		subtest(t, test.what, func(c *cluster) {
			book := c.account()
			var m machine
			l := c.lock("a", m.run)
			h := mustLock(c.t, l)
			ctx, cancel := h.Context(c.t.Context())
			defer cancel()
			later(time.Minute)
			m.suspend(2 * time.Second)
			later(10 * time.Second)
			wantErr(c.t, "after a short suspension", h.Err(), nil)

			m.suspend(6 * time.Second)
			start := time.Now()
			wantErr(c.t, "after a long suspension", test.ask(c.t.Context(), l, h), ErrLost)
			d := time.Since(start)
			expect(c.t, d <= 2*time.Second, "the answer took %v", d)
			synctest.Wait()
			expect(c.t, isClosed(h.Lost()), "lost is not closed")
			wantErr(c.t, "the context", context.Cause(ctx), ErrLost)
			book.want("in the end", "0", 0)
			wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
			// The session is alive and soon has a new lease.
			later(10 * time.Second)
			mustRelease(c.t, mustLock(c.t, l))
			wantEq(c.t, "sessions", l.m.client.Stats().Sessions, 1)
		})
	}
}

// Each method that the documentation of Hold says compares the clock with the lease notices the
// loss, if it is the first call after a suspension.
func TestF045_CallsThatCompareTheClock(t *testing.T) {
	each(t, map[string]func(ctx context.Context, l *Lock, h Hold) error{
		"Err":     func(_ context.Context, _ *Lock, h Hold) error { return h.Err() },
		"Grant":   func(_ context.Context, _ *Lock, h Hold) error { return errOf(h.Grant()) },
		"Leave":   func(_ context.Context, _ *Lock, h Hold) error { return h.Leave() },
		"Reenter": func(_ context.Context, _ *Lock, h Hold) error { return errOf(h.Reenter()) },
		"Share":   func(_ context.Context, _ *Lock, h Hold) error { return errOf(h.Share()) },
		"Guard":   func(ctx context.Context, _ *Lock, h Hold) error { return write(ctx, h, "late") },
		"Get":     func(ctx context.Context, _ *Lock, h Hold) error { _, _, err := h.Get(ctx, account); return err },
		"Upgrade": func(ctx context.Context, _ *Lock, h Hold) error { return h.Upgrade(ctx) },
		"Upgraded": func(_ context.Context, _ *Lock, h Hold) error {
			if h.Upgraded() {
				return nil
			}
			return ErrLost
		},
		"Downgrade":    func(_ context.Context, _ *Lock, h Hold) error { return h.Downgrade() },
		"Recovered":    func(_ context.Context, _ *Lock, h Hold) error { return h.Recovered() },
		"Lock.Lock":    func(ctx context.Context, l *Lock, _ Hold) error { return errOf(l.Lock(ctx)) },
		"Lock.TryLock": func(ctx context.Context, l *Lock, _ Hold) error { return errOf(l.TryLock(ctx)) },
	}, func(c *cluster, ask func(context.Context, *Lock, Hold) error) {
		c.account()
		var m machine
		l := c.rw("a", m.run).Upgradable()
		h := mustLock(c.t, l)
		c.mustUpgrade(h)
		later(time.Minute)
		m.suspend(6 * time.Second)
		wantErr(c.t, "the first call", ask(c.t.Context(), l, h), ErrLost)
		h.Release()
		later(20 * time.Second)
	})
}

// A waiter's machine is suspended for longer than the lease lasts, and the first
// thing that the waiter hears is that the lock is free. It proves its session
// before it enters, and waits until that makes a lease.
func TestF030_SuspendedBeforeTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		var m machine
		a, b := c.lock("a", m.run), c.lock("b")
		h := mustLock(c.t, b)
		w := a.Acquire(c.t.Context())
		later(time.Minute)
		m.suspend(6 * time.Second)
		mustRelease(c.t, h)
		start := time.Now()
		_, err := w.Granted().Wait(c.t.Context())
		wantErr(c.t, "the waiter", err, nil)
		d := time.Since(start)
		expect(c.t, d >= 10*time.Second/12 && d <= 10*time.Second*7/24, "it took %v", d)
		mustRelease(c.t, w)
	})
}

// The machine is suspended just after a round's word has become RETAINED. The
// granter checks the lease after that, and ends the round.
func TestF030_SuspendedAtTheGrant(t *testing.T) {
	bubble(t, func(c *cluster) {
		var m machine
		var granting atomic.Pointer[Lock]
		l := c.lock("a", func(cfg *Config) {
			cfg.suspended = func() time.Duration {
				if l := granting.Load(); l != nil {
					time.Sleep(time.Millisecond) // so that the next reading has to look again
					if p, _ := l.State(); p == state.Retained && granting.CompareAndSwap(l, nil) {
						m.suspend(6 * time.Second)
					}
				}
				return time.Duration(m.slept.Load())
			}
		})
		// With another node in place already, the session's heartbeat has no
		// reason to read the clock now.
		other, err := l.m.Exclusive("other")
		wantErr(c.t, "another lock", err, nil)
		before := mustLock(c.t, other)
		later(time.Millisecond)
		granting.Store(l)
		h := l.Acquire(c.t.Context())
		later(100 * time.Millisecond)
		expect(c.t, granting.Load() == nil, "the clock was not read after the grant")
		expect(c.t, isClosed(h.Lost()), "the lock is held without a lease")
		wantErr(c.t, "unlock", h.Unlock(c.t.Context()), ErrLost)
		before.Release()
		later(10 * time.Second)
		mustRelease(c.t, mustLock(c.t, l))
	})
}

// Entering and leaving a lock that this process owns reads no clock; each check
// does, and looks whether the machine was suspended unless it did just now.
func TestWhoReadsTheClock(t *testing.T) {
	bubble(t, func(c *cluster) {
		var m machine
		l := c.lock("a", m.run)
		h := mustLock(c.t, l)
		synctest.Wait()
		for _, test := range []struct {
			what string
			do   func()
			want int64
		}{
			{"acquire and release", func() { l.Acquire(c.t.Context()).Release() }, 0},
			{"accessors", func() { l.State(); l.Stats(); h.Granted().Poll(); h.Lost(); h.Depth() }, 0},
			{"err", func() { wantHeld(c.t, "err", h) }, 1},
			{"grant", func() { grantOf(c.t, h) }, 1},
			{"lock and unlock", func() { mustRelease(c.t, mustLock(c.t, l)) }, 1},
		} {
			time.Sleep(time.Millisecond)
			m.asked.Store(0)
			test.do()
			wantEq(c.t, test.what+": looks", m.asked.Load(), test.want)
			test.do()
			wantEq(c.t, test.what+" again at once: looks", m.asked.Load(), test.want)
		}
		mustRelease(c.t, h)
	})
}
