// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"time"
)

// Sleep waits for d, and reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
