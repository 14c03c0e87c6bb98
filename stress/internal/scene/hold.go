// SPDX-License-Identifier: Apache-2.0

package scene

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

// A Phase is how far a hold is.
type Phase int

// The phases, in their order.
const (
	Waiting Phase = iota
	Inside
	Releasing
	over
)

// A Hold is an acquisition of a worker, from its request to the end of its release.
type Hold struct {
	Process *Process
	worker  int
	Op      uint64
	Lock    *Lock
	Mode    history.Mode
	Fence   history.Fence
	Permits int
	Session string
	Phase   Phase

	Requested, Granted int64
	Since              int64  // when the worker was told that it has the mode
	Upgraded           bool   // from an upgradable read: the token is still that of the read
	Asked              int64  // when its process first asked for what it has under the token
	Ended              int64  // when it was released or told lost
	Known              int64  // when the worker has last been told that it holds the lock
	with               *group // of what its worker has asked for at once, or nil
	released           bool   // its worker has released it
	Settled            bool   // its release has ended in good order
	Revoked            int64  // when the revocation began that the worker is to be told of
}

// A group is what a worker waits for at the same time: it gets all, or none.
type group struct{ locks []*Lock }

// Locks returns the locks for which h waits.
func (h *Hold) Locks() []*Lock {
	if h.with != nil {
		return h.with.locks
	}
	return []*Lock{h.Lock}
}

// Joins notes that h waits together with what its worker waits for already, if anything.
func (h *Hold) Joins() {
	for _, o := range h.Process.Holds {
		if o == h || o.worker != h.worker || o.Phase != Waiting {
			continue
		}
		if o.with == nil {
			o.with = &group{[]*Lock{o.Lock}}
		}
		h.with = o.with
	}
	if h.with != nil && !slices.Contains(h.with.locks, h.Lock) {
		h.with.locks = append(h.with.locks, h.Lock)
	}
}

// Begin returns a new hold, for the first event of it.
func (sc *Scene) Begin(p *Process, e history.Event) *Hold {
	l := sc.Lock(e.Lock, e.Mode)
	h := &Hold{Process: p, worker: e.Worker, Op: e.Op, Lock: l, Mode: cmp.Or(e.Mode, l.Mode, history.Exclusive), Requested: e.At}
	if old := p.Holds[e.Op]; old != nil {
		sc.Drop(old)
	}
	p.Holds[e.Op] = h
	l.open++
	p.Counts[Waiting]++
	p.grasp(h, e.At)
	return h
}

// Hold returns the hold that e is about, or nil if it is over.
func (sc *Scene) Hold(e history.Event) *Hold { return sc.Process(e).Holds[e.Op] }

// Drop forgets h.
func (sc *Scene) Drop(h *Hold) {
	if h.Phase == over {
		return
	}
	p := h.Process
	p.Counts[h.Phase]--
	h.Phase = over
	delete(p.Holds, h.Op)
	l := h.Lock
	if g := p.loosen(h, sc.Now, sc.Header.Linger != 0 && !l.Passing); g != nil {
		sc.Excuses.ended(sc, p, l, g)
	}
	l.open--
	if l.Passing && l.open == 0 {
		sc.rest(l)
	}
}

// Grant notes that h is granted. The caller puts it among those inside.
func (sc *Scene) Grant(h *Hold, e history.Event) {
	p := h.Process
	p.Counts[h.Phase]--
	h.Phase, h.Granted, h.Fence, h.Permits = Inside, e.At, e.Fence(), max(e.Permits, 1)
	h.Since, h.Known, h.Asked = e.At, e.At, h.Lock.asked(h)
	h.Session, h.Mode = cmp.Or(e.Session, p.Session), cmp.Or(e.Mode, h.Mode)
	p.Counts[Inside]++
	p.enter(h, e.At)
	sc.Excuses.granted(h)
}

// Release notes that the worker of h has begun to release it.
func (h *Hold) Release(at int64) {
	h.Process.Counts[Inside]--
	h.Phase, h.Ended, h.released = Releasing, at, true
	h.Process.Counts[Releasing]++
}

// Leave notes that h is not inside any more.
func (h *Hold) Leave(at int64) {
	h.Ended = at
	l := h.Lock
	if i := slices.Index(l.Inside, h); i >= 0 {
		l.Inside = slices.Delete(l.Inside, i, i+1)
	}
	l.leaves(h)
}

// End returns when h ended, or a time that is not reached if it has not.
func (h *Hold) End() int64 { return cmp.Or(h.Ended, never) }

// String says which hold it is.
func (h *Hold) String() string {
	s := fmt.Sprintf("process %d, worker %d", h.Process.Number, h.worker)
	if h.Process.Incarnation > 0 {
		s = fmt.Sprintf("process %d (start %d), worker %d", h.Process.Number, h.Process.Incarnation+1, h.worker)
	}
	if h.Mode == history.WriteMode || !h.Mode.Alone() {
		s += ", " + string(h.Mode)
	}
	if h.Fence.Token != 0 {
		s += ", " + h.Fence.String()
	}
	return s
}
