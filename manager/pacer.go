// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"
	"time"
)

// A pacer spreads the first looks.
type pacer struct{ next atomic.Int64 } // when the next is due at that pace, on the manager's clock

const (
	lookPause = int64(25 * time.Millisecond)
	lookBurst = 200
)

// take reports whether there may be one more now.
func (p *pacer) take(now int64) bool {
	for {
		next := p.next.Load()
		at := max(next, now)
		if at-now >= lookBurst*lookPause {
			return false
		}
		if p.next.CompareAndSwap(next, at+lookPause) {
			return true
		}
	}
}
