// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// Excuses are the faults that can have made something last longer.
//
// A fault of the servers can touch everything. One of a process touches what that process
// does, and what waits behind it: the waits for a lock that the process was inside, or ahead
// in the queue, while the fault lasted or the process recovered from it. If the process was
// rid of the lock in good order, that is over. If it was not, since it was killed, lost the
// lock, or gave up asking, it may have left its node until the servers ended its session, or
// at least until another process had the lock for itself. A fault that is about a lock
// touches no other one.
type excuses struct {
	faults []*fault           // that may touch what is still open, in the order of their beginnings
	cut    map[*process]int64 // those that have no connection, and since when
	spans  []span             // of what is being looked at
}

// began notes a fault.
func (x *excuses) began(sc *scene, f *fault) {
	if !f.disturbs() {
		return
	}
	f.victims, f.grips = sc.targets(f), map[*lockRecord][]*grip{}
	x.faults = append(x.faults, f)
}

// ended notes that g, of the lock, is over.
func (x *excuses) ended(sc *scene, p *process, l *lockRecord, g *grip) {
	for _, f := range x.faults {
		if !f.hits(p) || f.past(sc) < g.until {
			continue
		}
		left := *g
		if g.unsure >= f.at {
			left.until = never
		}
		f.grips[l] = append(f.grips[l], &left)
	}
}

// forget forgets the faults that can touch nothing that began at that time or later.
func (x *excuses) forget(sc *scene, oldest int64) {
	x.faults = slices.DeleteFunc(x.faults, func(f *fault) bool { return f.gone(sc) < oldest })
}

// hits reports whether the fault hits the process: that very one, not another that was
// started in its place.
func (f *fault) hits(p *process) bool { return slices.Contains(f.victims, p) }

// everywhere reports whether the fault hits servers.
func (f *fault) everywhere() bool { return f.process < 0 && f.lock == "" }

// about reports whether the fault can touch the lock. One that deletes a node touches only
// the lock that it names.
func (f *fault) about(l *lockRecord) bool {
	if f.lock == "" {
		return !f.deletes() && !f.missed()
	}
	return f.lock == l.Name
}

// disconnects reports whether the process may have had no connection in order at that time.
func (x *excuses) disconnects(sc *scene, p *process, at int64) bool {
	if _, cut := x.cut[p]; cut {
		return true
	}
	return slices.ContainsFunc(x.faults, func(f *fault) bool {
		return (f.everywhere() || f.hits(p) && !f.deletes()) && at < f.past(sc)
	})
}

// past returns when the fault is over, and what it hit goes on as before: once each process
// that it hit has a connection again. An answer that was lost may be missed first, for less
// than a session timeout. A fault of a lock's queue cuts no connection.
func (f *fault) past(sc *scene) int64 {
	switch {
	case f.until == 0:
		return never
	case f.process < 0 && f.lock != "":
		return f.until
	}
	past := max(f.until+reaction, f.connected)
	if f.loses() {
		past = max(past, f.until+sc.header.SessionTimeout)
	}
	for p, since := range sc.excuses.cut {
		if since <= past && (f.everywhere() || f.hits(p)) {
			past = f.gone(sc)
		}
	}
	return min(past, f.gone(sc))
}

// gone returns when the nodes are gone at the latest that processes have left behind. The
// servers end a session in steps of a tick, and allow it a new timeout when their leader
// changes.
func (f *fault) gone(sc *scene) int64 {
	if f.until == 0 {
		return never
	}
	return f.until + 2*sc.header.SessionTimeout
}

// loses reports whether the fault loses what a process is sent, without closing the
// connection.
func (f *fault) loses() bool { return f.kind == "blackhole-connection" || f.kind == "swallow-answer" }

// session notes what the process has been told of its connection.
func (x *excuses) session(sc *scene, p *process, text string, at int64) {
	since, cut := x.cut[p]
	switch {
	case text == history.SessionSuspended && !cut:
		x.cut[p] = at
	case cut && (text == history.SessionResumed || text == history.SessionBegan):
		x.connected(sc, p, since, at)
	}
}

// died notes that the process has ended. What it had not been rid of it has left behind.
func (x *excuses) died(sc *scene, p *process, at int64) {
	for l, g := range p.grips {
		g.unsure, g.until = at, at
		x.ended(sc, p, l, g)
	}
	clear(p.grips)
	if since, cut := x.cut[p]; cut {
		x.connected(sc, p, since, at)
	}
}

// connected notes that the process, which had no connection, has one, or has ended.
func (x *excuses) connected(sc *scene, p *process, since, at int64) {
	delete(x.cut, p)
	for _, f := range x.faults {
		if (f.everywhere() || f.hits(p)) && f.until != 0 && since <= f.past(sc) {
			f.connected = max(f.connected, at)
		}
	}
}

// granted notes that h has been granted. If that excludes all others, and its process asked
// after another had given the lock up, then that one's node is gone.
func (x *excuses) granted(h *hold) {
	if !excludes(h.mode) {
		return
	}
	asked := h.process.grips[h.lock].asked
	for _, f := range x.faults {
		for _, g := range f.grips[h.lock] {
			if g.until == never && g.unsure < asked {
				g.until = h.granted
			}
		}
	}
}

// waiting returns how much of the time until then faults can have kept h waiting.
func (x *excuses) waiting(sc *scene, h *hold, at int64) int64 {
	x.spans = x.spans[:0]
	within := span{h.requested, at}
	// When the process got its place in the queue, at the latest: when it asked, when it was
	// rid of the lock that its other goroutines had, when its session began, or when
	// nothing kept it from asking any more.
	queued := max(h.requested, h.process.since)
	if h.with != nil {
		queued = at // a wait for several locks goes to the end of a queue again and again
	}
	queued = max(queued, h.process.grips[h.lock].rid())
	for _, f := range x.faults {
		if !f.everywhere() && f.process >= 0 && !f.hits(h.process) || !slices.ContainsFunc(h.locks(), f.about) {
			continue
		}
		if s := (span{f.at, f.past(sc)}); x.add(s, within) {
			queued = max(queued, min(s.to, at))
		}
	}
	for _, f := range x.faults {
		if f.gone(sc) <= h.requested {
			continue
		}
		for _, l := range h.locks() {
			if f.about(l) {
				x.behind(sc, f, l, queued+reaction, within)
			}
		}
	}
	return x.sum()
}

// behind adds when a contender for the lock that was in the queue at that time can have been
// behind a process that the fault hits, or behind what one has left there.
func (x *excuses) behind(sc *scene, f *fault, l *lockRecord, queued int64, within span) {
	within = span{max(within.from, f.at), min(within.to, f.gone(sc))}
	for _, g := range f.grips[l] {
		x.add(span{g.ahead(queued), g.until}, within)
	}
	within.to = min(within.to, f.past(sc))
	for _, p := range f.victims {
		if g := p.grips[l]; g != nil {
			x.add(span{g.ahead(queued), never}, within)
		}
	}
}

// holding returns how much of the time until then faults can have kept h from being told that
// it is to give up the lock, and its worker from doing so.
func (x *excuses) holding(sc *scene, h *hold, at int64) int64 {
	x.spans = x.spans[:0]
	for _, f := range x.faults {
		switch {
		case f.everywhere() || f.hits(h.process) && f.about(h.lock):
			x.add(span{f.at, f.past(sc)}, span{h.revoked, at})
		case f.stays && f.process >= 0 && h.process.number == (f.process+1)%max(sc.header.Processes, 1):
			// The harness has had the workers of two processes stay inside: of the one that
			// the fault hits, and of the next one.
			to := f.until
			if to == 0 {
				to = never
			}
			x.add(span{f.at, to}, span{h.revoked, at})
		}
	}
	return x.sum()
}

// touches reports whether a request of p for the lock that was made now would wait longer.
func (x *excuses) touches(sc *scene, p *process, l *lockRecord) bool {
	return slices.ContainsFunc(x.faults, func(f *fault) bool {
		switch {
		case f.gone(sc) <= sc.now || !f.about(l):
			return false
		case (f.process < 0 || f.hits(p)) && sc.now < f.past(sc):
			return true
		}
		x.spans = x.spans[:0]
		x.behind(sc, f, l, sc.now, span{sc.now, sc.now + 1})
		return len(x.spans) > 0
	})
}

// add adds the part of s that is within the other. It reports false if there is none.
func (x *excuses) add(s, within span) bool {
	s = span{max(s.from, within.from), min(s.to, within.to)}
	if s.from >= s.to {
		return false
	}
	x.spans = append(x.spans, s)
	return true
}

// sum returns how long the spans are together.
func (x *excuses) sum() (all int64) {
	slices.SortFunc(x.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	until := int64(0)
	for _, s := range x.spans {
		all += max(0, s.to-max(s.from, until))
		until = max(until, s.to)
	}
	return all
}
