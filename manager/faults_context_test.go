// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// The context of a Hold has ended, in each of the ways in which that happens while the
// Hold holds the lock. Every way to acquire the lock with it fails as with any context
// that has ended, and enters nothing.
func TestF276_EndedContextOfAHold(t *testing.T) {
	deadline := errors.New("the deadline of the caller")
	ends := map[string]struct {
		end  func(h Hold, parent context.Context) context.Context
		want error
	}{
		"its CancelFunc": {func(h Hold, parent context.Context) context.Context {
			ctx, done := h.Context(parent)
			done()
			return ctx
		}, context.Canceled},
		"its parent": {func(h Hold, parent context.Context) context.Context {
			parent, cancel := context.WithTimeoutCause(parent, 0, deadline)
			defer cancel()
			ctx, done := h.Context(parent)
			context.AfterFunc(ctx, done)
			return ctx
		}, deadline},
		"a context made of it": {func(h Hold, parent context.Context) context.Context {
			ctx, done := h.Context(parent)
			context.AfterFunc(parent, done)
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(deadline)
			return ctx
		}, deadline},
	}
	kinds := map[string]func(m *Manager) (outer, inner acquirer){
		"exclusive": func(m *Manager) (outer, inner acquirer) {
			l, _ := m.Exclusive("jobs")
			return l, l
		},
		"write": func(m *Manager) (outer, inner acquirer) {
			rw, _ := m.ReadWrite("jobs")
			return rw.Writer(), rw.Writer()
		},
		"read under write": func(m *Manager) (outer, inner acquirer) {
			rw, _ := m.ReadWrite("jobs")
			return rw.Writer(), rw.Reader()
		},
		"read under upgradable": func(m *Manager) (outer, inner acquirer) {
			rw, _ := m.ReadWrite("jobs")
			return rw.Upgradable(), rw.Reader()
		},
		"mutex": func(m *Manager) (outer, inner acquirer) {
			x, _ := m.Mutex("jobs")
			return x, x
		},
	}
	fn := func(context.Context, Hold) error { return errors.New("the function was run") }
	calls := map[string]func(context.Context, acquirer) (Hold, error){
		"Lock":    func(ctx context.Context, l acquirer) (Hold, error) { return l.Lock(ctx) },
		"TryLock": func(ctx context.Context, l acquirer) (Hold, error) { return l.TryLock(ctx) },
		"Acquire": func(ctx context.Context, l acquirer) (Hold, error) {
			h := l.Acquire(ctx)
			_, err := h.Ready().Wait(context.WithoutCancel(ctx))
			return h, err
		},
		"Do":    func(ctx context.Context, l acquirer) (Hold, error) { return Hold{}, l.Do(ctx, fn) },
		"TryDo": func(ctx context.Context, l acquirer) (Hold, error) { return Hold{}, l.TryDo(ctx, fn) },
		"LockAll": func(ctx context.Context, l acquirer) (Hold, error) {
			all, err := l.(*Lock).m.LockAll(ctx, l.(*Lock))
			if err != nil {
				return Hold{}, err
			}
			return all[0], nil
		},
	}
	for how, e := range ends {
		for kind, locks := range kinds {
			t.Run(fmt.Sprint(how, "/", kind), func(t *testing.T) {
				bubble(t, func(c *cluster) {
					t := c.t
					outer, inner := locks(c.open("a"))
					h, err := outer.Lock(t.Context())
					wantErr(t, "lock", err, nil)
					ctx := e.end(h, t.Context())
					for name, call := range calls {
						if _, ok := inner.(*Lock); !ok && name == "LockAll" {
							continue // it takes no Mutex
						}
						in, err := call(ctx, inner)
						wantErr(t, name, err, ctx.Err())
						wantErr(t, name, err, e.want)
						in.Release()
					}
					wantHeld(t, "the Hold", h)
					if h.Depth() != 1 {
						t.Errorf("the Hold has depth %d", h.Depth())
					}
					mustRelease(t, h)
					later(time.Second)
					c.wantNodes(0)
				})
			})
		}
	}
}

// An acquirer is a Lock or a Mutex.
type acquirer interface {
	Acquire(context.Context) Hold
	Lock(context.Context) (Hold, error)
	TryLock(context.Context) (Hold, error)
	Do(context.Context, func(context.Context, Hold) error) error
	TryDo(context.Context, func(context.Context, Hold) error) error
}
