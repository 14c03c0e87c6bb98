// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"slices"
)

// A Span is a time from which to which something lasted.
type Span struct{ From, To int64 }

func (s Span) length() int64 { return s.To - s.From }

// A Past has the holds of a lock that ended, in that order, as far as they matter: one that
// was followed by a longer one is not the longest since any time. So each is shorter than
// the one before, and there are few.
type Past []Span

// Add adds a hold. It forgets those that ended before oldest.
func (p *Past) Add(s Span, oldest int64) {
	all := *p
	i := all.since(s.To)
	if i < len(all) && all[i].length() >= s.length() {
		return // it was told late
	}
	first := i
	for first > 0 && all[first-1].length() <= s.length() {
		first--
	}
	all = slices.Replace(all, first, i, s)
	*p = slices.Delete(all, 0, min(all.since(oldest), len(all)))
}

// since returns the index of the first hold that ended at that time or later.
func (p Past) since(at int64) int {
	i, _ := slices.BinarySearchFunc(p, at, func(s Span, at int64) int { return cmp.Compare(s.To, at) })
	return i
}

// Longest returns for how long a hold lasted at most after that time.
func (p Past) Longest(at int64) (most int64) {
	for _, s := range p[p.since(at):] {
		most = max(most, s.To-max(s.From, at))
	}
	return most
}
