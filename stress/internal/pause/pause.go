// SPDX-License-Identifier: Apache-2.0

// Package pause waits, and not for longer than it makes sense: for a time, while workers are to stay
// inside, and before a connection lets something through.
package pause

import (
	"context"
	"sync"
	"time"
)

// For waits for d, or until ctx ends or lost is closed. It reports whether ctx is
// still good.
func For(ctx context.Context, d time.Duration, lost <-chan struct{}) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-lost:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// Beside has a goroutine call fn. Stop ends the context of that, and waits until fn has
// returned.
func Beside(fn func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { fn(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
