// SPDX-License-Identifier: Apache-2.0

// Package losses tells the user of an adapter that a lock is lost: once, and even if the lock
// is given up before that is known.
package losses

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/manager"
)

// An Unwatch ends a watch, and returns a function to be called with what giving the hold up
// has returned: a process that was paused may give its hold up before the watch has looked.
// If the watch has not told of the loss, that function does. It may be left out if the hold
// is given up without an answer.
type Unwatch func() (gaveUp func(err error))

// Watch has tell called, on a goroutine of its own, when hold is lost, until the Unwatch is
// called. A nil tell is not called. Watch does not block.
func Watch(hold manager.Hold, tell func(err error)) Unwatch {
	if tell == nil {
		return func() func(error) { return func(error) {} }
	}
	ctx, cancel := hold.Context(context.Background())
	stop := context.AfterFunc(ctx, func() {
		if err := context.Cause(ctx); !errors.Is(err, manager.ErrReleased) {
			tell(err)
		}
	})
	return func() func(error) {
		defer cancel()
		untold := stop()
		return func(err error) {
			if untold && (errors.Is(err, manager.ErrLost) || errors.Is(err, manager.ErrClosed)) {
				go tell(err) // as the watch does
			}
		}
	}
}
