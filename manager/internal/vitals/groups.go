// SPDX-License-Identifier: Apache-2.0

package vitals

import (
	"strings"
	"sync"
)

// A Config says how metrics are labelled: see the Config of manager/prom, which has the
// same fields.
type Config struct {
	Group     func(lock string) string
	MaxGroups int
}

// FirstSegment returns the first segment of a lock's name, for use as Config.Group: the
// group of "jobs/nightly" is "jobs".
func FirstSegment(lock string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(lock, "/"), "/")
	return first
}

// other is the group of the locks whose own group would be one too many.
const other = "other"

// groups maps the names of locks to the values of the label "group", and bounds their
// number.
type groups struct {
	of    func(lock string) string // nil: there is no such label
	most  int
	begin func(group string) // called once for each group, under mu

	mu   sync.Mutex
	seen map[string]bool
}

func newGroups(cfg Config, begin func(group string)) *groups {
	if cfg.MaxGroups <= 0 {
		cfg.MaxGroups = 100
	}
	return &groups{of: cfg.Group, most: cfg.MaxGroups, begin: begin, seen: map[string]bool{}}
}

// group returns the group of a lock. Without Config.Group all locks are in the group "".
func (g *groups) group(lock string) string {
	if g.of == nil {
		return ""
	}
	name := strings.ToValidUTF8(g.of(lock), "�") // Prometheus accepts nothing else
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.seen[name] && len(g.seen) >= g.most {
		name = other
	}
	if !g.seen[name] {
		g.seen[name] = true
		g.begin(name)
	}
	return name
}

// with returns the labels of a metric of locks: those given, and the group if there are
// groups.
func (g *groups) with(l Labels, group string) Labels {
	if g.of == nil {
		return l
	}
	return l.with(group)
}
