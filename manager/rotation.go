// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// A rotation is the Manager as what looks again once in a while, in case a watch event was lost:
// has every parked round look at the queue, every held one behind it, every inquiry at its two
// nodes, and the mailbox at its questions. Held rounds that have had no look behind take it. The
// pause bounds the looks of all rounds of the process together.
type rotation Manager

const (
	rotationPause = 10 * time.Millisecond // a look is a list and two reads at most: 300 requests a second
)

// rotate wakes parked rounds that have not looked for long, and held ones that have
// not looked behind. It runs until done.
func (m *rotation) rotate() {
	const period = int64(rotationTimeout / 2)
	mail := m.now() + int64(heldTimeout)
	for due := m.now() + period; m.pause(time.Duration(due - m.now())); due = max(due+period, m.now()) {
		if m.now() >= mail {
			mail = m.now() + int64(heldTimeout)
			m.box.lookAgain()
		}
		m.askAgain()
		all := m.active.list()
		m.lookAgain(all)
		m.lookBehind(all)
	}
}

// lookAgain wakes those of all that are parked and have not looked for long.
func (m *rotation) lookAgain(all []*roundIO) {
	for _, t := range all {
		if t.round.word.Load().Phase() == state.Retained {
			if u := t.raised(); u != nil && u.recheck() && !m.pause(rotationPause) {
				return
			}
			if t.incumbent().recheckGate() && !m.pause(rotationPause) {
				return
			}
			continue
		}
		p := t.position.Load()
		if p == nil || m.now()-p.at < int64(rotationTimeout) || t.round.word.Load().Phase() != state.Fetching {
			continue
		}
		t.raiseLater(state.OwnDue | state.QueueDue)
		if !m.pause(rotationPause) {
			return
		}
	}
}

// askAgain wakes the inquiries that have not looked for long.
func (m *rotation) askAgain() {
	for _, q := range m.inquiries.list() {
		if q.lookAgain(m.now()) && !m.pause(rotationPause) {
			return
		}
	}
}

// lookBehind wakes those of all that are held and have not looked behind for long, until
// the parked ones are to be seen to again. Those that looked longest ago come first, so
// that each has its turn however many there are.
func (m *rotation) lookBehind(all []*roundIO) {
	end := m.now() + int64(rotationTimeout/2)
	var due []*roundIO
	looked := make(map[*roundIO]int64)
	for _, t := range all {
		if at, ok := t.incumbent().lookOverdue(); ok {
			due, looked[t] = append(due, t), at
		}
	}
	slices.SortStableFunc(due, func(a, b *roundIO) int { return cmp.Compare(looked[a], looked[b]) })
	for _, t := range due {
		if t.incumbent().firstLook(0) || t.incumbent().lookAgain() {
			if !m.pause(time.Duration(lookPause)) || m.now() >= end {
				return
			}
		}
	}
}
