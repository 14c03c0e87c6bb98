// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/manager"
)

// run has fn run on a goroutine that begin starts, which is Go or Finish of a, and returns what
// fn returns. If ctx ends before, or Shutdown or Close of the Manager begins, run returns at once
// with the reason. Fn notices that, too, and cleans up. If it has succeeded in the same moment,
// its result is given to drop.
func run[T any](ctx context.Context, a manager.Access, begin func(func()), fn func() (T, error), drop func(T)) (T, error) {
	type result struct {
		v   T
		err error
	}
	taken := make(chan result)
	begin(func() {
		v, err := fn()
		select {
		case taken <- result{v, err}:
			return
		case <-ctx.Done():
		case <-a.Accepting().Done():
		}
		if err == nil {
			drop(v)
		}
	})
	var none T
	select {
	case r := <-taken:
		return r.v, r.err
	case <-ctx.Done():
		return none, ctxerr.Of(ctx)
	case <-a.Accepting().Done():
		return none, manager.ErrClosed
	}
}
