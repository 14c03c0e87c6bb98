// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// An ID identifies a worker process.
type ID struct{ Number, Incarnation int }

// A Process is a worker process.
type Process struct {
	ID
	Holds   map[uint64]*Hold // by their ops
	Counts  [over]int        // of them, by phases
	Session string           // the present one
	Since   int64            // when that began
	grips   map[*Lock]*grip
	Stops   stops
	Began   int64 // when it was started, as far as the history tells
	Wrote   bool  // something
	Over    bool
	End     int64 // when it ended
	AtEnd   [over]int
	had     []string // names of the locks that it held at its end
}

// Died notes that the process held l when it ended.
func (p *Process) Died(l *Lock) {
	if !slices.Contains(p.had, l.Name) {
		p.had = append(p.had, l.Name)
	}
}

// Process returns the process that e is about.
func (sc *Scene) Process(e history.Event) *Process {
	i := ID{e.Process, e.Incarnation}
	p := sc.Processes[i]
	if p == nil {
		p = &Process{ID: i, Holds: map[uint64]*Hold{}, grips: map[*Lock]*grip{}}
		sc.Processes[i] = p
		sc.forget()
	}
	return p
}

// forget forgets processes that ended long ago, if there are many.
func (sc *Scene) forget() {
	const many = 1000
	if len(sc.Processes) < many || len(sc.Processes)%100 != 0 {
		return
	}
	for i, p := range sc.Processes {
		if p.Over && p.End < sc.Now-int64(10*time.Minute) {
			delete(sc.Processes, i)
		}
	}
}

// Held returns the holds of the process that are inside, in the order of their requests.
func (p *Process) Held() (all []*Hold) {
	for _, h := range p.Holds {
		if h.Phase == Inside {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *Hold) int { return cmp.Compare(a.Op, b.Op) })
	return all
}
