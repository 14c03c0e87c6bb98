// SPDX-License-Identifier: Apache-2.0

package scene

import "math"

// never is a time that is not reached.
const never = int64(math.MaxInt64)

// A grip is a time in which a process has to do with a lock: from its first request until
// all that it has asked for is over. In that time it may have a node in the lock's queue,
// and others may wait behind it.
type grip struct {
	open   int   // requests and holds that are not over
	asked  int64 // when the first one was requested
	inside int64 // when the first one was granted, or never
	left   int64 // when the process was last rid of one that it had been granted
	unsure int64 // when one was last over without a release in good order
	until  int64 // when the last one was over; never while there are any, or if the node may be left
}

// ahead returns since when the grip can keep a contender waiting that got its place in the
// queue at that time, or later. A process that asked later can do so only once it is inside.
func (g *grip) ahead(queued int64) int64 {
	if g.asked <= queued {
		return g.asked
	}
	return g.inside
}

// rid returns when the process was last rid of the lock, or of a part of it.
func (g *grip) rid() int64 {
	if g == nil {
		return 0
	}
	return g.left
}

// grasp notes that h has been requested.
func (p *Process) grasp(h *Hold, at int64) {
	g := p.grips[h.Lock]
	if g == nil {
		g = &grip{asked: at, inside: never, until: never}
		p.grips[h.Lock] = g
	}
	g.open++
	g.asked = min(g.asked, at)
}

// enter notes that h has been granted.
func (p *Process) enter(h *Hold, at int64) {
	g := p.grips[h.Lock]
	g.inside = min(g.inside, at)
}

// loosen notes that h is over. It returns the grip if that was the last of it. A process
// whose locks linger may keep the node of one that it has had: then its grip is not over.
func (p *Process) loosen(h *Hold, at int64, lingers bool) (over *grip) {
	g := p.grips[h.Lock]
	if h.Granted != 0 {
		g.left = max(g.left, at)
	}
	if !h.Settled {
		g.unsure = max(g.unsure, at)
	}
	if g.open--; g.open > 0 || lingers && g.inside != never {
		return nil
	}
	g.until = at
	delete(p.grips, h.Lock)
	return g
}
