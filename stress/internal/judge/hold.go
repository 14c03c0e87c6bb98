// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A phase is how far a hold is.
type phase int

const (
	waiting phase = iota
	inside
	releasing
	over
)

// A hold is an acquisition of a worker, from its request to the end of its release.
type hold struct {
	process *process
	worker  int
	op      uint64
	lock    *lockRecord
	mode    history.Mode
	fence   fence
	permits int
	session string
	phase   phase

	requested, granted int64
	since              int64  // when the worker was told that it has the mode
	upgraded           bool   // from an upgradable read: the token is still that of the read
	asked              int64  // when its process first asked for what it has under the token
	ended              int64  // when it was released or told lost
	known              int64  // when the worker has last been told that it holds the lock
	with               *group // of what its worker has asked for at once, or nil
	released           bool   // its worker has released it
	settled            bool   // its release has ended in good order
	revoked            int64  // when the revocation began that the worker is to be told of
}

// A group is what a worker waits for at the same time: it gets all, or none.
type group struct{ locks []*lockRecord }

// locks returns the locks for which h waits.
func (h *hold) locks() []*lockRecord {
	if h.with != nil {
		return h.with.locks
	}
	return []*lockRecord{h.lock}
}

// joins notes that h waits together with what its worker waits for already, if anything.
func (h *hold) joins() {
	for _, o := range h.process.holds {
		if o == h || o.worker != h.worker || o.phase != waiting {
			continue
		}
		if o.with == nil {
			o.with = &group{[]*lockRecord{o.lock}}
		}
		h.with = o.with
	}
	if h.with != nil && !slices.Contains(h.with.locks, h.lock) {
		h.with.locks = append(h.with.locks, h.lock)
	}
}

// begin returns a new hold, for the first event of it.
func (sc *scene) begin(p *process, e history.Event) *hold {
	l := sc.lock(e.Lock, e.Mode)
	h := &hold{process: p, worker: e.Worker, op: e.Op, lock: l, mode: e.Mode, requested: e.At}
	if h.mode == "" {
		h.mode = l.Mode
	}
	if h.mode == "" {
		h.mode = history.Exclusive
	}
	if old := p.holds[e.Op]; old != nil {
		sc.drop(old)
	}
	p.holds[e.Op] = h
	l.open++
	p.count(waiting, 1)
	p.grasp(h, e.At)
	return h
}

// hold returns the hold that e is about, or nil if it is over.
func (sc *scene) hold(e history.Event) *hold { return sc.process(e).holds[e.Op] }

// drop forgets h.
func (sc *scene) drop(h *hold) {
	if h.phase == over {
		return
	}
	p := h.process
	p.count(h.phase, -1)
	h.phase = over
	delete(p.holds, h.op)
	l := h.lock
	if g := p.loosen(h, sc.now, sc.header.Linger != 0 && !l.passing); g != nil {
		sc.excuses.ended(sc, p, l, g)
	}
	l.open--
	if l.passing && l.open == 0 {
		sc.rest(l)
	}
}

// grant notes that h is granted. It is among those inside once it has entered.
func (sc *scene) grant(h *hold, e history.Event) {
	p := h.process
	p.count(h.phase, -1)
	h.phase, h.granted, h.fence, h.permits = inside, e.At, fence{e.Token, e.Turn}, max(e.Permits, 1)
	h.since, h.known, h.asked = e.At, e.At, h.lock.asked(h)
	h.session = cmp.Or(e.Session, p.session)
	if e.Mode != "" {
		h.mode = e.Mode
	}
	p.count(inside, 1)
	p.enter(h, e.At)
	sc.excuses.granted(h)
}

// enters notes that h, which was granted, is one of those inside.
func (h *hold) enters() { h.lock.inside = append(h.lock.inside, h) }

// release notes that the worker of h has begun to release it.
func (h *hold) release(at int64) {
	h.process.count(inside, -1)
	h.phase, h.ended, h.released = releasing, at, true
	h.process.count(releasing, 1)
}

// leave notes that h is not inside any more.
func (h *hold) leave(at int64) {
	h.ended = at
	l := h.lock
	if i := slices.Index(l.inside, h); i >= 0 {
		l.inside = slices.Delete(l.inside, i, i+1)
	}
	l.leaves(h)
}

// end returns when h ended, or a time that is not reached if it has not.
func (h *hold) end() int64 {
	if h.ended == 0 {
		return 1<<63 - 1
	}
	return h.ended
}

// String says which hold it is.
func (h *hold) String() string {
	s := fmt.Sprintf("process %d, worker %d", h.process.number, h.worker)
	if h.process.incarnation > 0 {
		s = fmt.Sprintf("process %d (start %d), worker %d", h.process.number, h.process.incarnation+1, h.worker)
	}
	if kind(h.mode) != exclusive {
		s += ", " + string(h.mode)
	}
	if h.fence.token != 0 {
		s += ", " + h.fence.String()
	}
	return s
}
