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
// handle, from which nothing leads back to the slot, says whether it had been
// released.
type slot struct{ *handle }

// handle is a slot's content.
type handle struct {
	word state.AtomicHandles

	// round is that of the present handle, nil while there is none. It is
	// written only by a goroutine that has the slot to itself: the one that
	// took it out of the pool and has not published it yet, or the one that
	// puts it back. It is for reporting a dropped hold; holds know their round
	// themselves.
	round *round

	// withdrawn is set when the handle was released by somebody who did not
	// know the slot, which will not be used again.
	withdrawn atomic.Bool

	// first is the slot of the holder's first handle, and generation its
	// generation there; nil if this slot is it. They are atomic because
	// an old Hold may read them while the slot is taken for a new handle; it
	// then finds the slot's generation changed and discards them.
	first      atomic.Pointer[slot]
	generation atomic.Uint64

	// cleanups are to be called when the handle is released; usually none are.
	cleanups callbacks
}

var slots = sync.Pool{New: func() any {
	h := new(handle)
	h.word.Arm()
	s := &slot{h}
	runtime.AddCleanup(s, reportDropped, h)
	return s
}}

// takeSlot returns a slot for a new holder of r, or for a further handle of one.
func takeSlot(r *round) *slot {
	s := slots.Get().(*slot)
	s.round = r
	return s
}

// nest makes the handle in s, of which nobody knows yet, a further one of the
// holder whose first handle is in first. The caller has raised that holder's depth.
func (h *handle) nest(first *slot, generation uint64) {
	h.generation.Store(generation)
	h.first.Store(first)
}

// recycle puts a slot back whose generation has just been ended by the caller's
// CAS, which therefore has it to itself. next is its generation from now on.
func (s *slot) recycle(next uint64) {
	s.round = nil
	if next < state.LastGeneration {
		slots.Put(s)
	}
}

// owner returns the slot of the holder's first handle, and its generation
// there; nil if it is this one, with generation g. It is meaningful only if the
// handle of generation g is alive after the call.
func (h *handle) owner(g uint64) (*slot, uint64) {
	if first := h.first.Load(); first != nil {
		return first, h.generation.Load()
	}
	return nil, g
}

// alive reports whether the handle of generation g has not been released.
func (h *handle) alive(g uint64) bool {
	return h.word.Load().Alive(g)
}

// granted is alive for a handle whose round was seen to be granted; from then on
// it cannot be withdrawn any more.
func (h *handle) granted(g uint64) bool {
	w := h.word.Load()
	return w.Alive(g) && (!w.InDoubt() || h.word.Confirm(g) != state.Dead)
}

// release releases the handle of generation g. Its effect is Dead if that was
// done before; Left if the holder has other handles; Ended if this was its last
// one, and the caller must take the holder's count back.
func (s *slot) release(g uint64) state.Effect {
	first, _ := s.owner(g)
	e := s.word.ReleaseFirst(g)
	if e == state.Dead {
		return e
	}
	// Until here the slot is nobody else's: its generation has just ended, or
	// the handle still counts.
	s.cleanUp()
	if e == state.Left { // a first handle, before the nested ones
		return s.unpin()
	}
	s.first.Store(nil)
	s.recycle(g + 1)
	// The handle was alive until our CAS, so what owner read was true.
	if first != nil {
		return first.unpin()
	}
	return e
}

// releaseDoubted is release of a handle that is in doubt, by somebody who must
// not keep the slot from being collected, and so knows the handle only. The slot
// is left to the collector; it may be looking at the handle already, so round
// stays as it is.
func (h *handle) releaseDoubted(g uint64) state.Effect {
	first, _ := h.owner(g)
	e := h.word.ReleaseDoubted(g)
	if e == state.Dead {
		return e
	}
	h.withdrawn.Store(true)
	h.cleanUp()
	switch {
	case e == state.Left:
		return h.word.ReleaseNested()
	case first != nil:
		h.first.Store(nil) // or the runtime, which keeps the handle, would keep first, too
		return first.unpin()
	}
	return e
}

// pin raises the depth of the holder whose first handle is of the given
// generation.
func (h *handle) pin(generation uint64) state.Effect { return h.word.Reenter(generation) }

// unpin takes back what pin gave, or the count of a released first handle.
func (s *slot) unpin() state.Effect {
	e := s.word.ReleaseNested()
	if e == state.Ended && !s.withdrawn.Load() {
		s.recycle(s.word.Load().Generation())
	}
	return e
}

// onRelease has fn called when the handle of generation g is released, or at
// once if it has been; in a race perhaps twice. The function that it returns
// forgets fn.
func (h *handle) onRelease(g uint64, fn func()) (forget func()) {
	forget, taken := h.cleanups.add(func(error) { fn() })
	// If the handle was dead before, the list may be a later handle's, and must
	// not keep fn.
	if taken || !h.alive(g) {
		forget()
		fn()
	}
	return forget
}

// cleanUp calls what onRelease was given. It is called by the goroutine that
// released the handle.
func (h *handle) cleanUp() {
	if h.cleanups.empty() {
		return // no atomic write in the usual case
	}
	for fn := range h.cleanups.take() {
		(*fn)(nil)
	}
}

// reportDropped is called when a slot has become unreachable. That of a
// released handle is of no interest: the pool gave it up. Nor is that of a
// round that is over: there is nothing left to release.
func reportDropped(h *handle) {
	if h.withdrawn.Load() || h.round == nil || h.word.Load().FirstReleased() || h.round.word.Load().Phase() > state.Retained {
		return
	}
	l := h.round.lock
	l.m.cfg.Logger.Error("holdfast: a Hold was dropped without a Release: its round can end only when the session does",
		"lock", l.Name(), "round", h.round.word.Load().String())
}
