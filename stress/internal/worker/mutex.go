// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/stress/internal/wire"
)

// A locker is a lock that workers contend for: a manager.Lock, or a manager.Mutex, which
// excludes the workers of one process, too.
type locker interface {
	Name() string
	Acquire(ctx context.Context) manager.Hold
	Lock(ctx context.Context) (manager.Hold, error)
	TryLock(ctx context.Context) (manager.Hold, error)
	Do(ctx context.Context, fn func(ctx context.Context, h manager.Hold) error) error
	ReleaseIdle() *futures.Future[struct{}]
	State() (state.Phase, int)
	Stats() manager.Stats
}

// unshared asks for a second holder of a mutex, which must be refused.
func (w *worker) unshared(l *contended, h manager.Hold) {
	second, err := h.Share()
	switch {
	case errors.Is(err, manager.ErrNotShared):
		w.child.count(wire.Counts{RefusedShares: 1})
	case err == nil:
		second.Release()
		w.unexpected("Share", l, errors.New("it was not refused"))
	default:
		w.noLonger("Share", l, h, fmt.Errorf("sharing the hold of a mutex: %w", err))
	}
}
