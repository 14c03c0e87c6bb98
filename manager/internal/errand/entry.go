// SPDX-License-Identifier: Apache-2.0

package errand

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/zkio"
)

// An Entry is a lock's only entry in the pool's queue of fetches, or in that of
// refetches, for the round that is present when the entry is run. With an entry for
// each round, rounds that begin and are given up would pile up there for as long as
// no fetch gets through.
type Entry struct{ queued atomic.Bool }

// Submit puts task into queue q unless the entry is queued already. It reports
// false if the pool takes no more tasks.
func (e *Entry) Submit(p Pool, q zkio.Queue, task zkio.Task) bool {
	if !e.queued.CompareAndSwap(false, true) {
		// The entry's task loads the present round after calling Taken, so it
		// finds the state that the caller has set.
		return true
	}
	if p.Submit(q, task) {
		return true
	}
	e.queued.Store(false)
	return false
}

// Taken is the first thing that the entry's task calls.
func (e *Entry) Taken() { e.queued.Store(false) }
