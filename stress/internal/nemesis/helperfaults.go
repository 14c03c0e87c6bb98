// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// killHelper leaves the worker process without a helper until it has started another.
func killHelper(ctx context.Context, f *fault) error {
	helper, err := f.reserveHelped(ctx)
	if err != nil {
		return err
	}
	return f.hit(ctx, history.ProcessTarget(f.process), "", helper.Kill, nil)
}

// lateHelper lets the helper close the session of a process that was killed when that may have
// expired, and another process has the locks.
func lateHelper(ctx context.Context, f *fault) error {
	helper, err := f.reserveHelped(ctx)
	if err != nil {
		return err
	}
	return f.hit(ctx, history.ProcessTarget(f.process), "", func() error {
		if err := helper.Pause(); err != nil {
			return err
		}
		return f.another(ctx, f.process, 0)
	}, helper.Resume)
}

// reserveHelped chooses a worker process that has a helper, and keeps other faults from it.
func (f *fault) reserveHelped(ctx context.Context) (h Helper, err error) {
	err = f.seek(ctx, "no worker process with a helper may be hit", func() bool {
		all := f.env.Processes()
		alone := func(p int) bool { h := f.env.Helper(p); return h == nil }
		helped := slices.DeleteFunc(slices.Clone(all), alone)
		if len(helped) == 0 {
			return false
		}
		p, ok := f.choose(all, func(p int) int { return count(slices.Contains(helped, p)) })
		if !ok {
			return false
		}
		if h = f.env.Helper(p); h == nil {
			f.release()
		}
		return h != nil
	})
	return h, err
}
