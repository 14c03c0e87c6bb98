// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"sync"
)

// A Queue is a lock's directory as one list showed it.
//
// Its contenders are not sorted: every question is answered in one pass, and each
// hand-over of the lock asks only one or two.
type Queue struct {
	Contenders []Contender // in no particular order: see [Compare]
	Strangers  int         // children that are not contenders
	Recipe     string      // a stranger that belongs to another kind of lock: see [Recipe]; "" if there is none
	Next       int64       // the number that the next child will get
	Exhausted  bool        // some numbers do not order
}

// List finds the contenders among a directory's children: the latches if latch is true,
// and otherwise those that are none. next is the number that the directory's next child
// will get: see [NextNumber]. Call Free when the queue is no longer needed.
func List(children []string, latch bool, next int64) Queue {
	q := Queue{Contenders: spareContenders(len(children)), Next: next}
	for _, name := range children {
		c, ok := ParseName(name)
		if !ok || c.Latch != latch {
			if q.Recipe == "" && Recipe(name) != "" {
				q.Recipe = name
			}
			q.Strangers++
			continue
		}
		if Exhausted(c.Seq) {
			q.Exhausted = true
		}
		q.Contenders = append(q.Contenders, c)
	}
	return q
}

// OnlyLatches reports whether there are contenders among a directory's children, and all of
// them are latches. It is for those that do not know which lock the directory is of.
func OnlyLatches(children []string) bool {
	latches := false
	for _, name := range children {
		switch c, ok := ParseName(name); {
		case ok && !c.Latch:
			return false
		case ok:
			latches = true
		}
	}
	return latches
}

// NextNumber returns the number that the next child of a directory with this
// Cversion and NumChildren will get: how many it has had. Cversion counts those
// and the deletions.
func NextNumber(cversion, numChildren int32) int64 { return int64(uint32(cversion+numChildren) / 2) }

// spare holds the memory of freed queues. Without it, a process with a thousand
// contenders in its queue would allocate 50 kB for each grant.
var spare sync.Pool

// spareContenders returns an empty slice with room for n contenders.
func spareContenders(n int) []Contender {
	if s, ok := spare.Get().(*[]Contender); ok && cap(*s) >= n {
		return (*s)[:0]
	}
	return make([]Contender, 0, n)
}

// Free gives the queue's memory back. Contenders that were copied out of it
// remain valid.
func (q *Queue) Free() {
	s := q.Contenders[:cap(q.Contenders)]
	q.Contenders = nil
	clear(s) // do not keep the names alive
	spare.Put(&s)
}

// Sort puts the contenders into the order of their turns, and notes which of them have
// their turn: one writer or mutex, with the read that came out of it by a downgrade, or
// all readers ahead of the first writer, and of the upgradables among those the first. A
// contender whose turn has come holds the lock, or will as soon as it notices.
func (q Queue) Sort() {
	slices.SortFunc(q.Contenders, Compare)
	var ahead [NumKinds]bool // the kinds of those before c
	for i := range q.Contenders {
		c := &q.Contenders[i]
		downgraded := c.Kind == Read && c.Seq == q.Contenders[0].Seq && !Exhausted(c.Seq)
		c.Turn = true
		for kind, there := range ahead {
			if there && Excludes(Kind(kind), c.Kind) {
				c.Turn = downgraded
			}
		}
		ahead[c.Kind] = true
	}
}

// First returns the contender whose turn it is; of several readers the first.
func (q Queue) First() (first Contender, found bool) {
	for _, c := range q.Contenders {
		if !found || Compare(c, first) < 0 {
			first, found = c, true
		}
	}
	return first, found
}

// Find returns the contender called name.
func (q Queue) Find(name string) (c Contender, found bool) {
	i := slices.IndexFunc(q.Contenders, func(c Contender) bool { return c.Name == name })
	if i < 0 {
		return Contender{}, false
	}
	return q.Contenders[i], true
}

// Behind returns the first contender behind the one called name that a contender
// of the given kind excludes, passing over those for which skip is true. If name
// is not in the queue, every contender counts as behind it.
func (q Queue) Behind(name string, kind Kind, skip func(name string) bool) (c Contender, found bool) {
	own, known := q.Find(name)
	return q.Excluded(kind, func(other Contender) bool {
		return known && Compare(other, own) <= 0 || skip(other.Name)
	})
}

// Excluded returns the first contender that a holder of the given kind excludes,
// passing over those for which skip is true. For a holder every such contender
// is a waiter, whatever the order of the queue.
func (q Queue) Excluded(kind Kind, skip func(Contender) bool) (first Contender, found bool) {
	for _, c := range q.Contenders {
		if Excludes(kind, c.Kind) && (!found || Compare(c, first) < 0) && !skip(c) {
			first, found = c, true
		}
	}
	return first, found
}

// OfOtherKind returns a contender that does not belong in a queue of the given
// kind: a mutex among readers and writers, or the reverse.
func (q Queue) OfOtherKind(kind Kind) (c Contender, found bool) {
	for _, c := range q.Contenders {
		if c.Kind.Family() != kind.Family() {
			return c, true
		}
	}
	return Contender{}, false
}
