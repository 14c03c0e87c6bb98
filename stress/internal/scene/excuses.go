// SPDX-License-Identifier: Apache-2.0

package scene

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
	Faults []*Fault           // that may touch what is still open, in the order of their beginnings
	cut    map[*Process]int64 // those that have no connection, and since when
	spans  []Span             // of what is being looked at
}

// Began notes a fault.
func (x *excuses) Began(sc *Scene, f *Fault) {
	if !f.Disturbs() {
		return
	}
	f.victims, f.Grips = sc.Targets(f), map[*Lock][]*grip{}
	x.Faults = append(x.Faults, f)
}

// ended notes that g, of the lock, is over.
func (x *excuses) ended(sc *Scene, p *Process, l *Lock, g *grip) {
	for _, f := range x.Faults {
		if !f.hits(p) || f.past(sc) < g.until {
			continue
		}
		left := *g
		if g.unsure >= f.At {
			left.until = never
		}
		f.Grips[l] = append(f.Grips[l], &left)
	}
}

// Forget forgets the faults that can touch nothing that began at that time or later.
func (x *excuses) Forget(sc *Scene, oldest int64) {
	x.Faults = slices.DeleteFunc(x.Faults, func(f *Fault) bool { return f.gone(sc) < oldest })
}

// hits reports whether the fault hits the process: that very one, not another that was
// started in its place.
func (f *Fault) hits(p *Process) bool { return slices.Contains(f.victims, p) }

// everywhere reports whether the fault hits servers.
func (f *Fault) everywhere() bool { return f.Process < 0 && f.Lock == "" }

// about reports whether the fault can touch the lock. One that deletes a node touches only
// the lock that it names.
func (f *Fault) about(l *Lock) bool {
	if f.Lock == "" {
		return !f.deletes() && !f.Missed()
	}
	return f.Lock == l.Name
}

// disconnects reports whether the process may have had no connection in order at that time.
func (x *excuses) disconnects(sc *Scene, p *Process, at int64) bool {
	if _, cut := x.cut[p]; cut {
		return true
	}
	return slices.ContainsFunc(x.Faults, func(f *Fault) bool {
		return (f.everywhere() || f.hits(p) && !f.deletes()) && at < f.past(sc)
	})
}

// past returns when the fault is over, and what it hit goes on as before: once each process
// that it hit has a connection again. An answer that was lost may be missed first, for less
// than a session timeout. A fault of a lock's queue cuts no connection.
func (f *Fault) past(sc *Scene) int64 {
	switch {
	case f.Until == 0:
		return never
	case f.Process < 0 && f.Lock != "":
		return f.Until
	}
	past := max(f.Until+Reaction, f.connected)
	if f.loses() {
		past = max(past, f.Until+sc.Header.SessionTimeout)
	}
	for p, since := range sc.Excuses.cut {
		if since <= past && (f.everywhere() || f.hits(p)) {
			past = f.gone(sc)
		}
	}
	return min(past, f.gone(sc))
}

// gone returns when the nodes are gone at the latest that processes have left behind. The
// servers end a session in steps of a tick, and allow it a new timeout when their leader
// changes.
func (f *Fault) gone(sc *Scene) int64 {
	if f.Until == 0 {
		return never
	}
	return f.Until + 2*sc.Header.SessionTimeout
}

// loses reports whether the fault loses what a process is sent, without closing the
// connection.
func (f *Fault) loses() bool { return f.Kind == "blackhole-connection" || f.Kind == "swallow-answer" }

// Session notes what the process has been told of its connection.
func (x *excuses) Session(sc *Scene, p *Process, text string, at int64) {
	since, cut := x.cut[p]
	switch {
	case text == history.SessionSuspended && !cut:
		x.cut[p] = at
	case cut && (text == history.SessionResumed || text == history.SessionBegan):
		x.connected(sc, p, since, at)
	}
}

// Died notes that the process has ended. What it had not been rid of it has left behind.
func (x *excuses) Died(sc *Scene, p *Process, at int64) {
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
func (x *excuses) connected(sc *Scene, p *Process, since, at int64) {
	delete(x.cut, p)
	for _, f := range x.Faults {
		if (f.everywhere() || f.hits(p)) && f.Until != 0 && since <= f.past(sc) {
			f.connected = max(f.connected, at)
		}
	}
}

// granted notes that h has been granted. If that excludes all others, and its process asked
// after another had given the lock up, then that one's node is gone.
func (x *excuses) granted(h *Hold) {
	if !h.Mode.Alone() {
		return
	}
	asked := h.Process.grips[h.Lock].asked
	for _, f := range x.Faults {
		for _, g := range f.Grips[h.Lock] {
			if g.until == never && g.unsure < asked {
				g.until = h.Granted
			}
		}
	}
}

// Waiting returns how much of the time until then faults can have kept h waiting.
func (x *excuses) Waiting(sc *Scene, h *Hold, at int64) int64 {
	x.spans = x.spans[:0]
	within := Span{h.Requested, at}
	// When the process got its place in the queue, at the latest: when it asked, when it was
	// rid of the lock that its other goroutines had, when its session began, or when
	// nothing kept it from asking any more.
	queued := max(h.Requested, h.Process.Since)
	if h.with != nil {
		queued = at // a wait for several locks goes to the end of a queue again and again
	}
	queued = max(queued, h.Process.grips[h.Lock].rid())
	for _, f := range x.Faults {
		if !f.everywhere() && f.Process >= 0 && !f.hits(h.Process) || !slices.ContainsFunc(h.Locks(), f.about) {
			continue
		}
		if s := (Span{f.At, f.past(sc)}); x.add(s, within) {
			queued = max(queued, min(s.To, at))
		}
	}
	for _, f := range x.Faults {
		if f.gone(sc) <= h.Requested {
			continue
		}
		for _, l := range h.Locks() {
			if f.about(l) {
				x.behind(sc, f, l, queued+Reaction, within)
			}
		}
	}
	return x.sum()
}

// behind adds when a contender for the lock that was in the queue at that time can have been
// behind a process that the fault hits, or behind what one has left there.
func (x *excuses) behind(sc *Scene, f *Fault, l *Lock, queued int64, within Span) {
	within = Span{max(within.From, f.At), min(within.To, f.gone(sc))}
	for _, g := range f.Grips[l] {
		x.add(Span{g.ahead(queued), g.until}, within)
	}
	within.To = min(within.To, f.past(sc))
	for _, p := range f.victims {
		if g := p.grips[l]; g != nil {
			x.add(Span{g.ahead(queued), never}, within)
		}
	}
}

// Holding returns how much of the time until then faults can have kept h from being told that
// it is to give up the lock, and its worker from doing so.
func (x *excuses) Holding(sc *Scene, h *Hold, at int64) int64 {
	x.spans = x.spans[:0]
	for _, f := range x.Faults {
		switch {
		case f.everywhere() || f.hits(h.Process) && f.about(h.Lock):
			x.add(Span{f.At, f.past(sc)}, Span{h.Revoked, at})
		case f.stays && f.Process >= 0 && h.Process.Number == (f.Process+1)%max(sc.Header.Processes, 1):
			// The harness has had the workers of two processes stay inside: of the one that
			// the fault hits, and of the next one.
			x.add(Span{f.At, cmp.Or(f.Until, never)}, Span{h.Revoked, at})
		}
	}
	return x.sum()
}

// Touches reports whether a request of p for the lock that was made now would wait longer.
func (x *excuses) Touches(sc *Scene, p *Process, l *Lock) bool {
	return slices.ContainsFunc(x.Faults, func(f *Fault) bool {
		switch {
		case f.gone(sc) <= sc.Now || !f.about(l):
			return false
		case (f.Process < 0 || f.hits(p)) && sc.Now < f.past(sc):
			return true
		}
		x.spans = x.spans[:0]
		x.behind(sc, f, l, sc.Now, Span{sc.Now, sc.Now + 1})
		return len(x.spans) > 0
	})
}

// add adds the part of s that is within the other. It reports false if there is none.
func (x *excuses) add(s, within Span) bool {
	s = Span{max(s.From, within.From), min(s.To, within.To)}
	if s.From >= s.To {
		return false
	}
	x.spans = append(x.spans, s)
	return true
}

func (x *excuses) sum() (all int64) {
	slices.SortFunc(x.spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	until := int64(0)
	for _, s := range x.spans {
		all += max(0, s.To-max(s.From, until))
		until = max(until, s.To)
	}
	return all
}
