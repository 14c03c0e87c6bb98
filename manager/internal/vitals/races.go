// SPDX-License-Identifier: Apache-2.0

package vitals

import "github.com/holdfast-go/holdfast/manager"

// A lockID identifies a lock of a Manager.
type lockID struct {
	name string
	kind manager.Kind
}

// races adds up the races that were lost on all locks. A lock counts its own, and is
// forgotten with them when it is idle and nothing refers to it. The sum must not fall
// then, so only the increases since the scrape before are added. What a lock counted
// between the last scrape and its end is missing.
type races struct {
	total   uint64
	longest uint64            // of the locks that exist
	before  map[lockID]uint64 // in the scrape before, without zeros
	now     map[lockID]uint64 // in this one
}

// begin begins a scrape.
func (r *races) begin() {
	r.longest = 0
	r.now = make(map[lockID]uint64, len(r.before))
}

// add adds a lock. One that LockAll wants comes again for each such call, with the same
// counts.
func (r *races) add(l *manager.LockInfo) {
	r.longest = max(r.longest, l.Stats.LongestRace)
	if n := l.Stats.LostRaces; n > 0 {
		id := lockID{l.Name, l.Kind}
		r.now[id] = max(r.now[id], n)
	}
}

// end ends a scrape.
func (r *races) end() {
	for id, n := range r.now {
		before := r.before[id]
		if before > n {
			before = 0 // it is a new lock with the name of an old one
		}
		r.total += n - before
	}
	r.before, r.now = r.now, nil
}
