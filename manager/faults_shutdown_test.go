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
	calls := map[string]func(context.Context, acquirer) (Hold, error){
		"Acquire": func(ctx context.Context, l acquirer) (Hold, error) {
			h := l.Acquire(ctx)
			_, err := h.Ready().Wait(context.WithoutCancel(ctx))
			return h, err
		},
		"Lock":    func(ctx context.Context, l acquirer) (Hold, error) { return l.Lock(ctx) },
		"TryLock": func(ctx context.Context, l acquirer) (Hold, error) { return l.TryLock(ctx) },
		"LockAll": func(ctx context.Context, l acquirer) (Hold, error) {
			all, err := l.(*Lock).m.LockAll(ctx, l.(*Lock))
			if err != nil {
				return Hold{}, err
			}
			return all[0], nil
		},
	}
	for name, call := range calls {
		for _, what := range []string{"lock", "mutex"} {
			if what == "mutex" && name == "LockAll" {
				continue // it takes no Mutex
			}
			last := 0 // the look of the call at its context after which it waits
			for nth := 1; nth <= last+1; nth++ {
				bubble(t, func(c *cluster) {
					t := c.t
					m := c.open("a")
					l, _ := m.Exclusive("jobs")
					var h Hold
					waits := acquirer(l)
					if what == "lock" {
						h = mustLock(t, l)
						ioOf(h).incumbent().revoke(Revocation{}) // newcomers wait
					} else {
						waits, _ = m.Mutex("mutex")
						h, _ = waits.Lock(t.Context())
					}
					var shut, result futures.Promise[struct{}]
					shutdown := func() {
						go func() { shut.Settle(struct{}{}, m.Shutdown(context.Background())) }()
						<-time.After(time.Second) // until it has failed the waiters
					}
					looks := 0
					ctx := countedContext{t.Context(), func() {
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
					err := settled(t, fmt.Sprintf("%s of a %s, after look %d", name, what, nth), result.Future())
					if !errors.Is(err, ErrLocked) || name != "TryLock" {
						wantErr(t, name, err, ErrClosed)
					}
					pending(t, "Shutdown", shut.Future())
					wantHeld(t, "the Hold", h)
					h.Release()
					later(time.Second)
					wantErr(t, "Shutdown", settled(t, "Shutdown", shut.Future()), nil)
				})
			}
			if last == 0 {
				t.Errorf("%s of a %s does not look at its context", name, what)
			}
		}
	}
}
