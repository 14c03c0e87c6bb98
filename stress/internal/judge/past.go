// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"
)

// A span is a time from which to which something lasted.
type span struct{ from, to int64 }

func (s span) length() int64 { return s.to - s.from }

// A past has the holds of a lock that ended, in that order, as far as they matter: one that
// was followed by a longer one is not the longest since any time. So each is shorter than
// the one before, and there are few.
type past []span

// add adds a hold. It forgets those that ended before oldest.
func (p *past) add(s span, oldest int64) {
	all := *p
	i := all.since(s.to)
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
func (p past) since(at int64) int {
	i, _ := slices.BinarySearchFunc(p, at, func(s span, at int64) int { return cmp.Compare(s.to, at) })
	return i
}

// longest returns for how long a hold lasted at most after that time.
func (p past) longest(at int64) (most int64) {
	for _, s := range p[p.since(at):] {
		most = max(most, s.to-max(s.from, at))
	}
	return most
}
