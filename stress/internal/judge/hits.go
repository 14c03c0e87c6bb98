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
func (c *hits) began(j *Judge, f *fault) {
	for _, p := range j.processes {
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
func (c *hits) during(j *Judge, p *process, ph phase) {
	for _, f := range j.faults.recent {
		if f.until == 0 && f.affects(p) {
			f.hit[ph] = true
		}
	}
}

// died notes that p has ended, with what it held.
func (c *hits) died(j *Judge, p *process) {
	for _, f := range j.faults.during(p.end, 0) {
		if f.process == p.number {
			f.died(p)
		}
	}
}

// died notes that p has ended by the fault.
func (f *fault) died(p *process) {
	slices.Sort(p.had)
	for _, name := range p.had {
		f.lose(fmt.Sprintf("lock %q by process %d, which ended", name, p.number))
	}
}

// lost notes which faults may have cost h.
func (c *hits) lost(j *Judge, h *hold, at int64) {
	what := fmt.Sprintf("lock %q by process %d", h.lock.Name, h.process.number)
	for _, f := range j.faults.during(at, 2*j.header.SessionTimeout) {
		if f.affects(h.process) && (f.lock == "" || f.lock == h.lock.Name) {
			f.lose(what)
		}
	}
}

func (f *fault) lose(what string) {
	if !slices.Contains(f.lost, what) && len(f.lost) < verdict.MaxFindings {
		f.lost = append(f.lost, what)
	}
}

// sum returns the kinds of faults, and each fault.
func (c *hits) sum(j *Judge) (kinds []verdict.Fault, each []verdict.Hit) {
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
	for name, older := range j.faults.older {
		*kind(name) = *older
	}
	for _, f := range j.faults.all {
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
func (c *hits) explain(j *Judge) {
	c.Note = ""
	if c.unseen(j) {
		c.Note = "what workers of " + j.header.Workload + " wait for is not in the history, so that only held locks count"
	}
	forgotten := 0
	for _, k := range j.faults.older {
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
func (c *hits) unseen(j *Judge) bool {
	return len(c.kinds) > 0 && (j.header.Workload == "shards" || j.header.Workload == "queue")
}

// end judges the kinds.
func (c *hits) end(j *Judge) {
	if j.partial {
		return // most of the faults may have come before
	}
	kinds, _ := c.sum(j)
	for _, name := range c.kinds {
		i := slices.IndexFunc(kinds, func(k verdict.Fault) bool { return k.Kind == name })
		c.Judged++
		switch k := kinds[i]; {
		case k.N == 0:
			c.find(j, nil, j.now, "%s was never injected: let the run last longer", name)
		case k.Held == 0 || k.Waiting == 0 && !c.unseen(j):
			c.find(j, nil, j.now, "%s was injected %s; it took effect %s while a lock was held, and %s while a process waited for one: let the run last longer, or hold locks for longer", name, figures.Times(k.N), figures.Times(k.Held), figures.Times(k.Waiting))
		}
	}
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
