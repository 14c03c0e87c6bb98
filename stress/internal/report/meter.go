// SPDX-License-Identifier: Apache-2.0

package report

// meters measure for how long each process held and awaited each lock, in cells of equal
// width. They are what the timeline shows from afar, and where acquisitions were left out.
type meters struct {
	origin, width int64 // of a cell, in nanoseconds
	most          int   // number of cells; the width doubles when more would be needed
	all           map[row]*meter
}

// A row is what a meter is for: a process and a lane, by index.
type row struct{ process, lane int }

// A meter follows one process at the locks of one lane.
type meter struct {
	holding, waiting int // workers that do so since the time below
	since            int64
	cells            []cell
}

// A cell says what happened in a short time.
type cell struct {
	held   int64 // nanoseconds in which at least one worker held the lock
	waited int64 // nanoseconds, of all workers together
	grants int
}

// The cells of all meters together.
const mostCells = 1_000_000

// newMeters returns meters for about as many rows as given.
func newMeters(origin int64, rows int) *meters {
	return &meters{
		origin: origin,
		width:  1_000_000,
		most:   min(max(mostCells/max(rows, 1), 128), 4096),
		all:    map[row]*meter{},
	}
}

// note tells that from at on so many more workers of the row wait and hold.
func (ms *meters) note(r row, at int64, waiting, holding int) {
	m := ms.all[r]
	if m == nil {
		m = &meter{since: at}
		ms.all[r] = m
	}
	ms.advance(m, at)
	m.waiting += waiting
	m.holding += holding
	if holding > 0 {
		m.cells[len(m.cells)-1].grants += holding
	}
}

func (ms *meters) finish(end int64) {
	for _, m := range ms.all {
		ms.advance(m, end)
	}
}

// advance fills the meter's cells up to the one of the time given.
func (ms *meters) advance(m *meter, at int64) {
	at = max(at, m.since, ms.origin) // events of two processes may be out of order by a little
	for at-ms.origin >= ms.width*int64(ms.most) {
		ms.widen()
	}
	last := int((at - ms.origin) / ms.width)
	for len(m.cells) <= last {
		m.cells = append(m.cells, cell{})
	}
	for i := int((max(m.since, ms.origin) - ms.origin) / ms.width); i <= last && m.holding+m.waiting > 0; i++ {
		from := max(m.since, ms.origin+int64(i)*ms.width)
		until := min(at, ms.origin+int64(i+1)*ms.width)
		if m.holding > 0 {
			m.cells[i].held += until - from
		}
		m.cells[i].waited += (until - from) * int64(m.waiting)
	}
	m.since = at
}

func (ms *meters) widen() {
	ms.width *= 2
	for _, m := range ms.all {
		half := m.cells[:(len(m.cells)+1)/2]
		for i := range half {
			sum := m.cells[2*i]
			if 2*i+1 < len(m.cells) {
				next := m.cells[2*i+1]
				sum.held += next.held
				sum.waited += next.waited
				sum.grants += next.grants
			}
			half[i] = sum
		}
		m.cells = half
	}
}
