// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// An id identifies a worker process.
type id struct{ number, incarnation int }

// A process is a worker process.
type process struct {
	id
	holds   map[uint64]*hold // by their ops
	counts  [over]int        // of them, by phases
	session string           // the present one
	since   int64            // when that began
	grips   map[*lockRecord]*grip
	stops   stops
	began   int64 // when it was started, as far as the history tells
	wrote   bool  // something
	over    bool
	end     int64 // when it ended
	atEnd   [over]int
	had     []string // names of the locks that it held at its end
}

// died notes that the process held l when it ended.
func (p *process) died(l *lockRecord) {
	if !slices.Contains(p.had, l.Name) {
		p.had = append(p.had, l.Name)
	}
}

// process returns the process that e is about.
func (sc *scene) process(e history.Event) *process {
	i := id{e.Process, e.Incarnation}
	p := sc.processes[i]
	if p == nil {
		p = &process{id: i, holds: map[uint64]*hold{}, grips: map[*lockRecord]*grip{}}
		sc.processes[i] = p
		sc.forget()
	}
	return p
}

// forget forgets processes that ended long ago, if there are many.
func (sc *scene) forget() {
	const many = 1000
	if len(sc.processes) < many || len(sc.processes)%100 != 0 {
		return
	}
	for i, p := range sc.processes {
		if p.over && p.end < sc.now-int64(10*time.Minute) {
			delete(sc.processes, i)
		}
	}
}

// count notes that the number of holds in that phase changes.
func (p *process) count(ph phase, by int) { p.counts[ph] += by }

// held returns the holds of the process that are inside, in the order of their requests.
func (p *process) held() (all []*hold) {
	for _, h := range p.holds {
		if h.phase == inside {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *hold) int { return cmp.Compare(a.op, b.op) })
	return all
}
