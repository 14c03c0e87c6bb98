// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// The last holder leaves in time, and the deletion cannot be made. Unlock and Do say
// after a session timeout that the work was protected; the future stays pending.
func TestF105_Unconfirmed(t *testing.T) {
	for _, test := range []struct {
		what  string
		ctx   time.Duration // until it ends; 0: it does not
		waits time.Duration
	}{
		{"for the session timeout", 0, 10 * time.Second},
		{"for ctx", 3 * time.Second, 3 * time.Second},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.lock("a")
				h := mustLock(c.t, a)
				later(time.Second)
				c.srv.Faults().Refuse()
				c.srv.Faults().CutAll()
				ctx := withTimeout(c.t, cmp.Or(test.ctx, time.Hour))
				began := time.Now()
				err := h.Unlock(ctx)
				wantErr(c.t, "unlock", err, ErrUnconfirmed)
				if errors.Is(err, context.DeadlineExceeded) != (test.ctx != 0) || errors.Is(err, ErrLost) || time.Since(began) != test.waits {
					c.t.Errorf("unlock, after %v: %v", time.Since(began), err)
				}
				saysOutage(c.t, "unlock", err, "no connection for ")
				pending(c.t, "the release", h.Released())
			})
		})
	}
}

// A hold that was lost before it is released is lost, and nothing is waited for.
func TestF105_LostIsNotUnconfirmed(t *testing.T) {
	bubble(t, func(c *cluster) {
		a := c.lock("a")
		for _, release := range []func(h Hold) error{
			func(h Hold) error { return h.Unlock(c.t.Context()) },
			func(h Hold) error {
				return h.do(c.t.Context(), func(context.Context, Hold) error { return nil })
			},
		} {
			h := mustLock(c.t, a)
			refused := c.srv.Faults().Refuse()
			c.srv.Faults().CutAll()
			later(time.Minute)
			began := time.Now()
			err := release(h)
			wantErr(c.t, "release", err, ErrLost)
			if errors.Is(err, ErrUnconfirmed) || time.Since(began) != 0 {
				c.t.Errorf("after %v: %v", time.Since(began), err)
			}
			refused.Remove()
			later(time.Minute)
		}
	})
}

// Do says so, too, beside what its function returns.
func TestF105_DoIsUnconfirmed(t *testing.T) {
	errWork := errors.New("the work failed")
	for _, want := range []error{nil, errWork} {
		bubble(t, func(c *cluster) {
			began := time.Now()
			err := c.lock("a").Do(withTimeout(c.t, time.Hour), func(context.Context, Hold) error {
				c.srv.Faults().Refuse()
				c.srv.Faults().CutAll()
				return want
			})
			wantErr(c.t, "do", err, ErrUnconfirmed)
			if errors.Is(err, errWork) != (want != nil) || errors.Is(err, ErrLost) || time.Since(began) != 10*time.Second {
				c.t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}

// An Unlock that is confirmed late, but in time, is confirmed.
func TestF105_ConfirmedInTime(t *testing.T) {
	bubble(t, func(c *cluster) {
		h := c.lock("a")
		hold := mustLock(c.t, h)
		c.srv.Faults().DropReply(zktest.Match{Op: zktest.OpDelete, Times: 1})
		c.srv.Faults().RefuseFor(3 * time.Second)
		mustRelease(c.t, hold)
		c.wantNodes(0)
	})
}

// Do says once that the lock was lost, whatever its function returns.
func TestDoSaysOnceThatTheLockWasLost(t *testing.T) {
	errWork := errors.New("the work failed")
	for _, test := range []struct {
		what string
		fn   func(ctx context.Context, h Hold) error
		work bool
	}{
		{"nil", func(context.Context, Hold) error { return nil }, false},
		{"the cause", func(ctx context.Context, _ Hold) error { return context.Cause(ctx) }, false},
		{"the cause, wrapped", func(ctx context.Context, _ Hold) error { return fmt.Errorf("step 3: %w", context.Cause(ctx)) }, false},
		{"the hold's error", func(_ context.Context, h Hold) error { return h.Err() }, false},
		{"another error", func(context.Context, Hold) error { return errWork }, true},
		{"both", func(ctx context.Context, _ Hold) error { return errors.Join(errWork, context.Cause(ctx)) }, true},
	} {
		t.Run(test.what, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.lock("a")
				err := a.Do(c.t.Context(), func(ctx context.Context, h Hold) error {
					later(time.Second)
					c.remove(c.nodeOf(a.m))
					<-ctx.Done()
					return test.fn(ctx, h)
				})
				wantErr(c.t, "do", err, ErrLost)
				if n := strings.Count(err.Error(), ErrLost.Error()); n != 1 || errors.Is(err, errWork) != test.work {
					c.t.Errorf("it says %d times that the lock was lost: %v", n, err)
				}
			})
		})
	}
}
