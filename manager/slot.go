// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/state"
)

// A slot is what a Hold points to: one handle, and, if it is a holder's first
// handle, the holder. Slots are pooled, so that taking a lock that this process
// owns allocates nothing.
//
// Whether a Hold is alive is decided by the word in its slot alone: the Hold
// remembers the generation that it was made in. A slot that is released is in
// its next generation from that very CAS on, and may be in use by somebody else
// the moment after; an old Hold finds a strange generation and touches nothing.
//
// A slot is only a pointer to its handle, so that the garbage collector tells
// us when a Hold has been dropped: its slot is unreachable then, and the
// handle, which holds nothing that leads back to the slot, says whether it had
// been released.
type slot struct{ *handle }

// handle is a slot's content.
type handle struct {
	word state.AtomicHandles

	// round is that of the present handle, nil while there is none. It is
	// written only by the goroutine that has the slot to itself: the one that
	// took it out of the pool and has not published it yet, or the one whose
	// CAS ended its generation. It is for reporting a dropped hold; holds know
	// their round themselves.
	round *round

	// first is the slot of the holder's first handle, and generation its
	// generation there; nil if this slot is it. They are atomic because
	// an old Hold may read them while the slot is taken for a new handle; it
	// then finds the slot's generation changed and discards them.
	first      atomic.Pointer[slot]
	generation atomic.Uint64

	// cleanups are called when the handle is released: see onRelease.
	cleanups atomic.Pointer[cleanup]
}

// cleanup is an entry of a stack of functions.
type cleanup struct {
	fn   func()
	next *cleanup
}

var slots = sync.Pool{New: func() any {
	h := new(handle)
	h.word.Arm()
	s := &slot{h}
	runtime.AddCleanup(s, reportDropped, h)
	return s
}}

// takeSlot returns a slot for a new holder of r, and its generation.
func takeSlot(r *round) (*slot, uint64) {
	s := slots.Get().(*slot)
	s.round = r
	return s, s.word.Load().Generation()
}

// takeNestedSlot returns a slot for a further handle of the holder whose first
// handle is in first. The caller has raised that holder's depth.
func takeNestedSlot(r *round, first *slot, generation uint64) (*slot, uint64) {
	s, g := takeSlot(r)
	s.generation.Store(generation)
	s.first.Store(first)
	return s, g
}

// recycle puts a slot back whose generation has just been ended by the
// caller's CAS, which therefore has it to itself.
func (s *slot) recycle() {
	s.round = nil
	if s.first.Load() != nil {
		s.first.Store(nil)
	}
	if s.word.Load().Generation() < state.LastGeneration {
		slots.Put(s)
	}
}

// owner returns the slot of the holder's first handle, and its generation there.
// It is meaningful only if the handle of generation g is alive after the call.
func (s *slot) owner(g uint64) (*slot, uint64) {
	if first := s.first.Load(); first != nil {
		return first, s.generation.Load()
	}
	return s, g
}

// alive reports whether the handle of generation g has not been released.
func (s *slot) alive(g uint64) bool {
	w := s.word.Load()
	return w.Generation() == g && !w.FirstReleased()
}

// release releases the handle of generation g. Its effect is Dead if that was
// done before; Left if the holder has other handles; Ended if this was its last
// one, and the caller must take the holder's count back.
func (s *slot) release(g uint64) state.Effect {
	first, firstGeneration := s.owner(g)
	switch e := s.word.ReleaseFirst(g); e {
	case state.Dead:
		return e
	case state.Left: // a first handle, released before the nested ones
		s.runCleanups()
		return e
	}
	// The handle was alive until our CAS, so what owner read was true.
	s.runCleanups()
	if first == s {
		s.recycle()
		return state.Ended
	}
	s.recycle()
	return first.unpin(firstGeneration)
}

// pin raises the depth of the holder whose first handle is in s.
func (s *slot) pin(generation uint64) state.Effect { return s.word.Reenter(generation) }

// unpin takes back what pin gave.
func (s *slot) unpin(uint64) state.Effect {
	e := s.word.ReleaseNested()
	if e == state.Ended {
		s.recycle()
	}
	return e
}

// onRelease has fn called when the handle of generation g is released, or at
// once if it has been. fn may be called twice, and on any goroutine.
func (s *slot) onRelease(g uint64, fn func()) {
	c := &cleanup{fn: fn}
	for {
		c.next = s.cleanups.Load()
		if s.cleanups.CompareAndSwap(c.next, c) {
			break
		}
	}
	// The releaser changes the word first and looks at the cleanups then; we
	// do it the other way round: at least one of us calls fn. If we came late,
	// fn stays behind for whoever releases the slot next; twice does no harm.
	if !s.alive(g) {
		fn()
	}
}

func (s *slot) runCleanups() {
	if s.cleanups.Load() == nil {
		return // the usual case: no atomic write
	}
	for c := s.cleanups.Swap(nil); c != nil; c = c.next {
		c.fn()
	}
}

// reportDropped is called when a slot has become unreachable. That of a
// released handle is of no interest: the pool gave it up. Nor is that of a
// round that is over: there is nothing left to release.
func reportDropped(h *handle) {
	if h.round == nil || h.word.Load().FirstReleased() || h.round.word.Load().Phase() > state.Retained {
		return
	}
	l := h.round.lock
	l.m.cfg.Logger.Error("holdfast: a Hold was dropped without a Release: its round can end only when the session does",
		"lock", l.name, "round", h.round.word.Load().String())
}
