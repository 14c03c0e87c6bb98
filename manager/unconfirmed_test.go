// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
		subtest(t, test.what, func(c *cluster) {
			a := c.lock("a")
			err := a.Do(c.t.Context(), func(ctx context.Context, h Hold) error {
				later(time.Second)
				c.remove(c.nodeOf(a.m))
				<-ctx.Done()
				return test.fn(ctx, h)
			})
			wantErr(c.t, "do", err, ErrLost)
			n := strings.Count(err.Error(), ErrLost.Error())
			expect(c.t, n == 1 && errors.Is(err, errWork) == test.work,
				"it says %d times that the lock was lost: %v", n, err)
		})
	}
}
