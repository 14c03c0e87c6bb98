// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/state"
)

// A slot is what a Hold points to: one handle and, if it is the holder's first
// handle, the holder. Slots are used again, so that acquiring a lock that this
// process owns allocates nothing: a lock has one or two for itself, and all locks
// share a pool.
//
// The word in the slot alone decides whether a Hold is alive: the Hold remembers
// the generation that it was made in. The CAS that releases a slot begins its
// next generation, and the slot may be in use again a moment later. An old Hold
// finds another generation there and touches nothing.
//
// A slot is only a pointer to its handle, so that the garbage collector tells us
// when a Hold has been dropped. The slot is unreachable then, and the handle,
// from which nothing leads back to the slot, says whether it had been released.
type slot struct{ *handle }

// handle is a slot's content.
type handle struct {
	word state.AtomicHandles

	// share is the present handle's, nil while there is none. Only a
	// goroutine that has the slot to itself writes it: one that took it and has
	// not published it yet, or one that gives it back. It is for reporting a
	// dropped hold; holds have their round themselves.
	share *share

	// withdrawn is set when the handle was released without its slot, which will
	// not be used again.
	withdrawn atomic.Pointer[withdrawn]

	// first is the slot of the holder's first handle, and generation its
	// generation there; first is nil if this slot is it. They are atomic because
	// an old Hold may read them while the slot is taken for a new handle. It then
	// finds the slot's generation changed and discards them.
	first      atomic.Pointer[slot]
	generation atomic.Uint64

	// cleanups are called when the handle is released; usually there are none.
	cleanups callbacks
}

// slots are free slots, for the holders of any lock.
var slots = sync.Pool{New: func() any { return newSlot(new(handle)) }}

// withdrawn is why a handle was withdrawn before the grant.
type withdrawn struct {
	gen uint64 // of the handle
	err error
}

func newSlot(h *handle) *slot {
	s := &slot{h}
	runtime.AddCleanup(s, reportDropped, h)
	return s
}

// takeSlot returns a slot for a handle in sh.
func takeSlot(sh *share) *slot {
	s := slots.Get().(*slot)
	s.share = sh
	return s
}

// nest makes the handle in h, which is not published yet, one more of the holder
// whose first handle is in first. The caller has raised that holder's depth.
func (h *handle) nest(first *slot, generation uint64) {
	h.generation.Store(generation)
	h.first.Store(first)
}

// giveBack puts the slot into the pool.
func (s *slot) giveBack(gen uint64) {
	s.share = nil
	if gen+1 < state.LastGeneration { // else it is never used again
		slots.Put(s)
	}
}

// owner returns the slot of the holder's first handle, and its generation there;
// nil and g if it is this one. The result is valid only if the handle of
// generation g is alive after the call.
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

// ended returns why the handle of generation g, which is not alive, ended: an error
// that wraps ErrReleased.
func (h *handle) ended(g uint64) error {
	if w := h.withdrawn.Load(); w != nil && w.gen == g {
		return w.err
	}
	return ErrReleased
}

// granted is alive for a handle whose round was seen to be granted. Once it has
// reported true the handle can no longer be withdrawn.
func (h *handle) granted(g uint64) bool {
	w := h.word.Load()
	return w.Alive(g) && (!w.InDoubt() || h.word.Confirm(g) != state.Dead)
}

// release releases the handle of generation g. Its effect is Dead if that was
// done before; Left if the holder has other handles; Ended if this was its last
// one, in which case the caller must take the holder's count back.
func (s *slot) release(g uint64) state.Effect {
	first, _ := s.owner(g)
	e := s.word.ReleaseFirst(g)
	if e == state.Dead {
		return e
	}
	// No other goroutine uses the slot until here: its generation has just ended,
	// or the handle still counts.
	s.cleanUp()
	if e == state.Left { // a first handle, before the nested ones
		return s.unpin()
	}
	s.first.Store(nil)
	s.share.lock.recycle(s, g)
	// The handle was alive until our CAS, so what owner read was true.
	if first != nil {
		return first.unpin()
	}
	return e
}

// releaseDoubted is release for a handle in doubt, by a caller that must not keep
// the slot alive and so knows the handle only. The slot is left to the collector,
// which may be looking at the handle already, so share stays as it is.
func (h *handle) releaseDoubted(g uint64, why *withdrawnError) state.Effect {
	first, _ := h.owner(g)
	e := h.word.ReleaseDoubted(g)
	if e == state.Dead {
		return e
	}
	h.withdrawn.Store(&withdrawn{g, why})
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

// pin raises the depth of the holder whose first handle is of this generation.
func (h *handle) pin(generation uint64) state.Effect { return h.word.Reenter(generation) }

// unpin undoes pin, or takes back the count of a released first handle.
func (s *slot) unpin() state.Effect {
	e := s.word.ReleaseNested()
	if e == state.Ended && s.withdrawn.Load() == nil {
		s.share.lock.recycle(s, s.word.Load().Generation()-1)
	}
	return e
}

// onRelease has cb called when the handle of generation g is released, or at once
// if it has been; in a race perhaps twice. cb.forget takes cb back.
func (h *handle) onRelease(g uint64, cb *callback) {
	taken := h.cleanups.add(cb)
	// If the handle was dead before, the list may be a later handle's and must
	// not keep cb.
	if taken || !h.alive(g) {
		cb.forget()
		cb.ended(nil)
	}
}

// onReleaseDo is onRelease for a function. forget takes it back.
func (h *handle) onReleaseDo(g uint64, fn func()) (forget func()) {
	cb := &callback{ender: enderFunc(func(error) { fn() })}
	h.onRelease(g, cb)
	return cb.forget
}

// cleanUp calls the callbacks given to onRelease. The goroutine that released the
// handle calls it.
func (h *handle) cleanUp() {
	if h.cleanups.empty() {
		return // no atomic write in the usual case
	}
	h.cleanups.take().call(nil)
}
