// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/futures"
)

// Faults while a lock is released, and at the end of a manager, by their numbers
// in docs/faults.md. More of them are scripts: testdata/scripts/release.txt.

// After Close, acquisitions are refused, and Close, Shutdown and Release do
// nothing more, from callbacks included.
func TestF086_AfterClose(t *testing.T) {
	bubble(t, func(c *cluster) {
		l := c.lock("a")
		h := mustLock(c.t, l)
		done := make(chan struct{})
		h.Released().OnDone(func(_ struct{}, err error) {
			defer close(done)
			wantErr(c.t, "the round", err, ErrClosed)
			wantErr(c.t, "Close in a callback", l.m.Close(), nil)
			refusesNewcomers(c.t, l)
		})
		wantErr(c.t, "Close", l.m.Close(), nil)
		<-done
		refusesNewcomers(c.t, l)
		for range 3 {
			wantErr(c.t, "Close again", l.m.Close(), nil)
			wantErr(c.t, "Shutdown", l.m.Shutdown(c.t.Context()), nil)
		}
		wantErr(c.t, "the holder", h.Err(), ErrClosed)
		wantErr(c.t, "its release", h.Unlock(c.t.Context()), ErrClosed)
		wantErr(c.t, "its release, again", h.Unlock(c.t.Context()), ErrReleased)
		c.wantNodes(0)
	})
}

// A manager's connection is its own: closing another manager of the same process
// does not affect it.
func TestF088_OwnConnection(t *testing.T) {
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, a)
		before := a.m.client.Session()
		wantErr(c.t, "close of another manager", b.m.Close(), nil)
		c.srv.ExpireSession(session(c.open("third")))
		later(time.Minute)
		wantErr(c.t, "the holder", h.Err(), nil)
		expect(c.t, a.m.client.Session() == before && a.m.client.Session().Connection() == 1,
			"the connection has changed")
		mustRelease(c.t, h)
	})
}

// A countedContext calls onErr each time it is asked whether it has ended, before it says
// that it has not.
type countedContext struct {
	context.Context
	onErr func()
}

func (c countedContext) Err() error {
	c.onErr()
	return nil
}

// Shutdown begins while a caller is about to wait: after any of its looks at its context,
// which stand beside those at the stage of the Manager. The caller is refused, or fails with
// the other waiters; it does not wait until the holders leave.
func TestF277_WaiterMeetsShutdown(t *testing.T) {
	for name, call := range acquirings {
		for _, what := range []string{"lock", "mutex"} {
			if what == "mutex" && name == "LockAll" {
				continue // it takes no Mutex
			}
			last := 0 // the look of the call at its context after which it waits
			for nth := 1; nth <= last+1; nth++ {
				bubble(t, func(c *cluster) {
					m := c.open("a")
					l, _ := m.Exclusive("jobs")
					var h Hold
					waits := acquirer(l)
					if what == "lock" {
						h = mustLock(c.t, l)
						ioOf(h).incumbent().revoke(Revocation{}) // newcomers wait
					} else {
						waits, _ = m.Mutex("mutex")
						h, _ = waits.Lock(c.t.Context())
					}
					var shut, result futures.Promise[struct{}]
					shutdown := func() {
						go func() { shut.Settle(struct{}{}, m.Shutdown(context.Background())) }()
						<-time.After(time.Second) // until it has failed the waiters
					}
					looks := 0
					ctx := countedContext{c.t.Context(), func() {
						if looks++; looks == nth {
							last = nth
							shutdown()
						}
					}}
					go func() {
						h, err := call(ctx, waits)
						result.Settle(struct{}{}, err)
						h.Release()
					}()
					later(10 * time.Second)
					if looks < nth {
						shutdown() // it waits already
					}
					later(time.Minute)
					err := settled(c.t, fmt.Sprintf("%s of a %s, after look %d", name, what, nth), result.Future())
					if !errors.Is(err, ErrLocked) || name != "TryLock" {
						wantErr(c.t, name, err, ErrClosed)
					}
					pending(c.t, "Shutdown", shut.Future())
					wantHeld(c.t, "the Hold", h)
					h.Release()
					later(time.Second)
					wantErr(c.t, "Shutdown", settled(c.t, "Shutdown", shut.Future()), nil)
				})
			}
			expect(t, last != 0, "%s of a %s does not look at its context", name, what)
		}
	}
}
