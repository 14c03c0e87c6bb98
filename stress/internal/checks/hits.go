// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Hits is a check: each kind of fault that is on hit at least once while a lock was held,
// and while one was waited for. Otherwise the run does not show that the locks bear it.
type Hits struct {
	Check
	kinds []string // that are on
}

// NewHits returns the check at the beginning of a run.
func NewHits(kinds []string) Hits {
	return Hits{Check: New(verdict.Hits), kinds: kinds}
}

// Began notes what the fault hits when it begins.
func (c *Hits) Began(sc *scene.Scene, f *scene.Fault) {
	for _, p := range sc.Processes {
		counts := p.Counts
		switch {
		case !f.Affects(p):
			continue
		case p.Over && f.Process >= 0 && p.End <= f.At && f.At <= p.End+scene.Reaction:
			counts = p.AtEnd // the fault has killed it
			f.Died(p)
		case p.Over:
			continue
		}
		for ph, n := range counts {
			f.Hit[ph] = f.Hit[ph] || n > 0
		}
	}
}

// During notes that a hold of p comes into that phase.
func (c *Hits) During(sc *scene.Scene, p *scene.Process, ph scene.Phase) {
	for _, f := range sc.Faults.Recent {
		if f.Until == 0 && f.Affects(p) {
			f.Hit[ph] = true
		}
	}
}

// Died notes that p has ended, with what it held.
func (c *Hits) Died(sc *scene.Scene, p *scene.Process) {
	for _, f := range sc.Faults.During(p.End, 0) {
		if f.Process == p.Number {
			f.Died(p)
		}
	}
}

// Lost notes which faults may have cost h.
func (c *Hits) Lost(sc *scene.Scene, h *scene.Hold, at int64) {
	what := fmt.Sprintf("lock %q by process %d", h.Lock.Name, h.Process.Number)
	for _, f := range sc.Faults.During(at, 2*sc.Header.SessionTimeout) {
		if f.Affects(h.Process) && (f.Lock == "" || f.Lock == h.Lock.Name) {
			f.Lose(what)
		}
	}
}

// Sum returns the kinds of faults, and each fault.
func (c *Hits) Sum(sc *scene.Scene) (kinds []verdict.Fault, each []verdict.Hit) {
	by := map[string]*verdict.Fault{}
	kind := func(name string) *verdict.Fault {
		if by[name] == nil {
			by[name] = &verdict.Fault{Kind: name}
		}
		return by[name]
	}
	for _, name := range c.kinds {
		kind(name)
	}
	for name, older := range sc.Faults.Older {
		*kind(name) = *older
	}
	for _, f := range sc.Faults.All {
		f.Count(kind(f.Kind))
		each = append(each, verdict.Hit{Fault: f.Number, Kind: f.Kind, Target: f.Target, Began: f.At, Ended: f.Until, Lost: slices.Clone(f.Lost)})
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		kinds = append(kinds, *by[name])
	}
	return kinds, each
}

// Explain says what the verdict does not list, and what is not judged.
func (c *Hits) Explain(sc *scene.Scene) {
	c.Note = ""
	if c.unseen(sc) {
		c.Note = "what workers of " + sc.Header.Workload + " wait for is not in the history, so that only held locks count"
	}
	forgotten := 0
	for _, k := range sc.Faults.Older {
		forgotten += k.N
	}
	if forgotten > 0 {
		if c.Note != "" {
			c.Note += "; "
		}
		c.Note += fmt.Sprintf("%d faults are counted by their kinds, but not listed one by one: those that cost no lock first, and the oldest", forgotten)
	}
}

// unseen reports whether the history does not tell which lock a worker waits for. Which
// shard or element that is, is known only when the worker has it.
func (c *Hits) unseen(sc *scene.Scene) bool {
	return len(c.kinds) > 0 && (sc.Header.Workload == "shards" || sc.Header.Workload == "queue")
}

// End judges the kinds.
func (c *Hits) End(sc *scene.Scene) {
	if sc.Partial {
		return // most of the faults may have come before
	}
	kinds, _ := c.Sum(sc)
	for _, name := range c.kinds {
		i := slices.IndexFunc(kinds, func(k verdict.Fault) bool { return k.Kind == name })
		c.Judged++
		switch k := kinds[i]; {
		case k.N == 0:
			c.find(sc, nil, sc.Now, "%s was never injected: let the run last longer", name)
		case k.Held == 0 || k.Waiting == 0 && !c.unseen(sc):
			c.find(sc, nil, sc.Now, "%s was injected %s; it took effect %s while a lock was held, and %s while a process waited for one: let the run last longer, or hold locks for longer", name, figures.Times(k.N), figures.Times(k.Held), figures.Times(k.Waiting))
		}
	}
}
