// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/figures"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// The check hits: each kind of fault that is on hit at least once while a lock was held,
// and while one was waited for. Otherwise the run does not show that the locks bear it.
type hits struct {
	check
	kinds []string // that are on
}

func (c *hits) init(kinds []string) {
	c.check = newCheck(verdict.Hits)
	c.kinds = kinds
}

// began notes what the fault hits when it begins.
func (c *hits) began(sc *scene, f *fault) {
	for _, p := range sc.processes {
		counts := p.counts
		switch {
		case !f.affects(p):
			continue
		case p.over && f.process >= 0 && p.end <= f.at && f.at <= p.end+reaction:
			counts = p.atEnd // the fault has killed it
			f.died(p)
		case p.over:
			continue
		}
		for ph, n := range counts {
			f.hit[ph] = f.hit[ph] || n > 0
		}
	}
}

// during notes that a hold of p comes into that phase.
func (c *hits) during(sc *scene, p *process, ph phase) {
	for _, f := range sc.faults.recent {
		if f.until == 0 && f.affects(p) {
			f.hit[ph] = true
		}
	}
}

// died notes that p has ended, with what it held.
func (c *hits) died(sc *scene, p *process) {
	for _, f := range sc.faults.during(p.end, 0) {
		if f.process == p.number {
			f.died(p)
		}
	}
}

// lost notes which faults may have cost h.
func (c *hits) lost(sc *scene, h *hold, at int64) {
	what := fmt.Sprintf("lock %q by process %d", h.lock.Name, h.process.number)
	for _, f := range sc.faults.during(at, 2*sc.header.SessionTimeout) {
		if f.affects(h.process) && (f.lock == "" || f.lock == h.lock.Name) {
			f.lose(what)
		}
	}
}

// sum returns the kinds of faults, and each fault.
func (c *hits) sum(sc *scene) (kinds []verdict.Fault, each []verdict.Hit) {
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
	for name, older := range sc.faults.older {
		*kind(name) = *older
	}
	for _, f := range sc.faults.all {
		f.count(kind(f.kind))
		each = append(each, verdict.Hit{Fault: f.number, Kind: f.kind, Target: f.target, Began: f.at, Ended: f.until, Lost: slices.Clone(f.lost)})
	}
	for _, k := range by {
		kinds = append(kinds, *k)
	}
	slices.SortFunc(kinds, func(a, b verdict.Fault) int { return cmp.Compare(a.Kind, b.Kind) })
	return kinds, each
}

// explain says what the verdict does not list, and what is not judged.
func (c *hits) explain(sc *scene) {
	c.Note = ""
	if c.unseen(sc) {
		c.Note = "what workers of " + sc.header.Workload + " wait for is not in the history, so that only held locks count"
	}
	forgotten := 0
	for _, k := range sc.faults.older {
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
func (c *hits) unseen(sc *scene) bool {
	return len(c.kinds) > 0 && (sc.header.Workload == "shards" || sc.header.Workload == "queue")
}

// end judges the kinds.
func (c *hits) end(sc *scene) {
	if sc.partial {
		return // most of the faults may have come before
	}
	kinds, _ := c.sum(sc)
	for _, name := range c.kinds {
		i := slices.IndexFunc(kinds, func(k verdict.Fault) bool { return k.Kind == name })
		c.Judged++
		switch k := kinds[i]; {
		case k.N == 0:
			c.find(sc, nil, sc.now, "%s was never injected: let the run last longer", name)
		case k.Held == 0 || k.Waiting == 0 && !c.unseen(sc):
			c.find(sc, nil, sc.now, "%s was injected %s; it took effect %s while a lock was held, and %s while a process waited for one: let the run last longer, or hold locks for longer", name, figures.Times(k.N), figures.Times(k.Held), figures.Times(k.Waiting))
		}
	}
}
