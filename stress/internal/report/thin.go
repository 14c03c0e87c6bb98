// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A window is a time of which the page should have all detail.
type window struct {
	from, until int64
	rank        int // lower is more important
}

// The ranks of windows. What lies in no window has the rank ordinary.
const (
	atFinding = iota
	atEdge    // around the begin and the end of a fault
	atFault
	ordinary
)

// A span is a time of which the page has totals only.
type span struct{ from, until int64 }

// A thinner leaves acquisitions out, so that a page remains small however long the run
// was. It divides the time into slots. Of a slot that it keeps, all acquisitions remain.
// Those that were lost remain always, unless they alone are too many.
type thinner struct {
	origin  int64
	windows []window
	gone    []span // sorted; nothing in them is complete any more
}

// Slots are this wide at least and at most.
const (
	leastSlot = int64(5 * time.Millisecond)
	mostSlot  = int64(time.Second)
	slots     = 2048 // if the limits allow it
	chunk     = 8    // slots that are kept together, so that what remains is worth looking at
)

// thin returns about as many acquisitions as the budget allows, and notes what is gone.
// It reuses the slice.
func (t *thinner) thin(all []acquisition, end int64, budget int) []acquisition {
	if len(all) <= budget {
		return all
	}
	width := min(max((end-t.origin)/slots, leastSlot), mostSlot)
	slot := func(at int64) int { return int(max(at-t.origin, 0) / width) }
	n := slot(end) + 1
	for _, a := range all {
		n = max(n, slot(a.settled)+1)
	}

	losses := 0
	for _, a := range all {
		if a.outcome == lost {
			losses++
		}
	}
	protected := func(a *acquisition) bool { return a.outcome == lost && losses <= budget/2 }

	// How many acquisitions touch each slot, and how many of those the next one, too.
	touch, cross := make([]int, n+1), make([]int, n+1)
	used := 0
	for i := range all {
		a := &all[i]
		if protected(a) {
			used++
			continue
		}
		first, last := slot(a.requested), slot(a.settled)
		touch[first]++
		touch[last+1]--
		cross[first]++
		cross[last]--
	}
	for i := 1; i < n; i++ {
		touch[i] += touch[i-1]
		cross[i] += cross[i-1]
	}

	rank := make([]int, n)
	for i := range rank {
		rank[i] = ordinary
	}
	for _, w := range t.windows {
		for i := slot(w.from); i <= min(slot(w.until), n-1); i++ {
			rank[i] = min(rank[i], w.rank)
		}
	}
	const never = ordinary + 1
	for _, g := range t.gone {
		for i := slot(g.from); i <= min(slot(g.until-1), n-1); i++ {
			rank[i] = never
		}
	}

	kept := make([]bool, n)
	scattered := rand.New(rand.NewPCG(0, 0)).Perm((n + chunk - 1) / chunk) // what remains is spread over all
	for r := range never {
		for _, c := range scattered {
			for i := c * chunk; i < min((c+1)*chunk, n); i++ {
				if rank[i] != r {
					continue
				}
				price := touch[i]
				if i > 0 && kept[i-1] {
					price -= cross[i-1]
				}
				if i+1 < n && kept[i+1] {
					price -= cross[i]
				}
				if used+price <= budget {
					used += price
					kept[i] = true
				}
			}
		}
	}

	before := make([]int, n+1) // how many slots before this one are kept
	for i, k := range kept {
		before[i+1] = before[i]
		if k {
			before[i+1]++
		} else if touch[i] > 0 {
			from := t.origin + int64(i)*width
			t.gone = append(t.gone, span{from, from + width})
		}
	}
	t.gone = merged(t.gone)
	return slices.DeleteFunc(all, func(a acquisition) bool {
		return !protected(&a) && before[slot(a.settled)+1] == before[slot(a.requested)]
	})
}

// merged returns the spans in order, those that touch joined.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from <= joined[n-1].until {
			joined[n-1].until = max(joined[n-1].until, s.until)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}
