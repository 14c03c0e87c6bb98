// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"weak"
)

// A registry has what a Manager has opened, by the paths of the locks. It keeps none of them
// alive: see entry.
type registry struct {
	// mu protects what follows. It is held for a few instructions only: never across I/O, a
	// channel operation or a call of user code.
	mu      sync.Mutex
	locks   map[string]entry // by path
	sweepAt int              // remove dead entries when there are this many
	mutexes mutexes
}

// locks is what is open under one name: one of them, or none.
type locks struct {
	lock  *Lock
	rw    *RWLock
	mutex *Mutex
}

// entry is a name's entry in the registry: its exclusive lock, or the reader of
// its read/write lock, which lives as long as the other two do. It does not keep
// the lock alive: its users do, and its present round while that is not FREE.
type entry struct{ weak.Pointer[Lock] }

func (e entry) locks() locks {
	switch l := e.Value(); {
	case l == nil:
		return locks{}
	case l.rw != nil:
		return locks{rw: l.rw}
	default:
		return locks{lock: l}
	}
}

// what says which kind of lock is open, for an error.
func (o locks) what() string {
	switch {
	case o.rw != nil:
		return "a read/write lock"
	case o.mutex != nil:
		return "a mutex"
	case o.lock.latch:
		return "a leader latch"
	}
	return "an exclusive lock"
}

func (o locks) entry() entry {
	if o.rw != nil {
		return entry{weak.Make(&o.rw.reader)}
	}
	return entry{weak.Make(o.lock)}
}

// enter returns what is open at path, after add has added what is missing. It reports what add does.
func (g *registry) enter(path string, add func(e *locks, path string) bool) (now locks, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.openLocked(path)
	now = old
	if !add(&now, path) {
		return now, false
	}
	switch {
	case now == old:
	case now.mutex != nil:
		g.mutexes.add(path, now.mutex)
	default:
		if len(g.locks) >= g.sweepAt {
			g.sweepLocked()
		}
		g.locks[path] = now.entry()
	}
	return now, true
}

// openLocked returns what is open at path.
func (g *registry) openLocked(path string) locks {
	if o := g.locks[path].locks(); o != (locks{}) {
		return o
	}
	return locks{mutex: g.mutexes.at[path].Value()}
}

const minSweep = 64

// sweepLocked removes the entries of locks that have been collected. It runs when
// the map has doubled since the last time: a constant cost per entry.
func (g *registry) sweepLocked() {
	for path, e := range g.locks {
		if e.locks() == (locks{}) {
			delete(g.locks, path)
		}
	}
	g.sweepAt = max(minSweep, 2*len(g.locks))
}

// at returns what is open at path.
func (g *registry) at(path string) locks {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked(path)
}

// each returns what is open under each name. It takes no lock while the loop runs.
func (g *registry) each() iter.Seq[locks] {
	return func(yield func(locks) bool) {
		g.mu.Lock()
		entries := slices.AppendSeq(make([]entry, 0, len(g.locks)), maps.Values(g.locks))
		mutexes := slices.AppendSeq(make([]weak.Pointer[Mutex], 0, len(g.mutexes.at)), maps.Values(g.mutexes.at))
		g.mu.Unlock()
		for _, e := range entries {
			if open := e.locks(); open != (locks{}) && !yield(open) {
				return
			}
		}
		for _, p := range mutexes {
			if x := p.Value(); x != nil && !yield(locks{mutex: x}) {
				return
			}
		}
	}
}

// mutexes are the registry's, by path. An entry does not keep its Mutex alive: its users do,
// and the rounds of its private lock while they are not over. registry.mu protects it.
type mutexes struct {
	at      map[string]weak.Pointer[Mutex] // made on first use
	sweepAt int                            // remove dead entries when there are this many
}

func (s *mutexes) add(path string, x *Mutex) {
	if s.at == nil {
		s.at, s.sweepAt = make(map[string]weak.Pointer[Mutex]), minSweep
	}
	if len(s.at) >= s.sweepAt { // as registry.sweepLocked
		maps.DeleteFunc(s.at, func(_ string, p weak.Pointer[Mutex]) bool { return p.Value() == nil })
		s.sweepAt = max(minSweep, 2*len(s.at))
	}
	s.at[path] = weak.Make(x)
}
