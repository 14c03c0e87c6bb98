// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/state"
)

// Stats are a lock's counters since its *Lock was made, and its present state.
type Stats struct {
	Phase   state.Phase // of the lock in this process
	Holders int         // callers in this process that hold the lock, or wait for it

	Rounds  uint64 // times this process asked ZooKeeper for the lock, or was about to: see ErrYielding
	Grants  uint64 // times this process got the lock
	Joins   uint64 // acquisitions that joined callers which were already waiting
	Entries uint64 // acquisitions while this process owned the lock

	// LostRaces counts the compare-and-swaps on the lock's words that failed
	// because another goroutine was first; LongestRace is the most that one
	// operation lost in a row.
	LostRaces   uint64
	LongestRace uint64

	// Foreign is the number of children of the lock's directory that were not
	// contenders when it was last listed.
	Foreign int
}

// totals are the counters of a Manager: see ManagerStats.
type totals struct{ grants, lost, failures, takeovers atomic.Uint64 }

// counters are a lock's counters. Each is atomic, but they are read one by one: a
// Stats is not a snapshot of one moment.
type counters struct {
	rounds  atomic.Uint64
	grants  atomic.Uint64
	joins   atomic.Uint64
	foreign atomic.Int32 // see Stats.Foreign
}
