// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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

// A home is a slot that a lock has for itself, for a caller that enters while the
// process owns the lock. Such callers take it from each other by compare-and-swap
// of its word, which costs less than the pool, and the generation of that word
// counts them. A caller that finds it taken uses the pool.
//
// A home's slot must be unreachable while a Hold has it, as any other slot: see
// slot. So the home points to it only while the word is free, and the handle never
// points to the home or to the lock of a free one.
type home struct {
	handle

	slot    *slot         // nil while it is taken; belongs to the goroutine that the word belongs to
	other   atomic.Uint64 // callers that entered without a home, after they had tried this one first
	striped *stripes      // nil: there is only this home
}

// The stripes are what a lock gets instead of its one home when several processors want the
// lock at once: homes in cache lines of their own. A caller begins with the one that its stack's
// address chooses. So goroutines that run at the same time seldom write to the same line,
// except for the round's word, and one that comes again finds its line where it left it.
type stripes struct {
	homes [numStripes]struct {
		home
		races atomic.Uint64 // lost by callers that begin here; see Stats.LostRaces
		_     [48]byte      // up to 128 bytes: a processor fetches cache lines in pairs
	}
	older *home // which they replace
}

const (
	numStripes = 8 // a power of two

	// After so many lost races a lock gets its stripes, which take a kilobyte. Most locks
	// never do.
	stripeAfter = 16
)

// near returns the home that the caller begins with.
func (c *stripes) near() *home { return &c.homes[spot()].home }

// spot is a number below numStripes that differs between most goroutines, and stays the
// same for each until the runtime moves its stack.
func spot() uintptr {
	var here byte
	p := uintptr(unsafe.Pointer(&here))
	return (p>>11 ^ p>>14) % numStripes
}

// furnish gives a new home its slot.
func (hm *home) furnish() *home {
	hm.slot = newSlot(&hm.handle)
	return hm
}

// hold makes the Hold of a new holder of r, which has taken the home.
func (hm *home) hold(sh *share, gen uint64) Hold {
	s := hm.slot
	hm.slot = nil
	hm.share = sh
	return Hold{sh, s, gen}
}

// giveBack frees the home, whose word the caller's CAS has spent. gen is the
// generation that is over.
func (hm *home) giveBack(s *slot, gen uint64) {
	hm.share = nil
	if gen+1 < state.LastGeneration { // else it stays spent
		hm.slot = s
		hm.word.Free(gen + 1)
	}
}

// enter makes the Hold of a new holder of r, a round of the lock, which this process owns. It
// does not read from r, whose cache line another processor may have taken away since the
// caller's swap.
func (l *homes) enter(r *round) Hold {
	hm := l.near()
	switch {
	case hm == nil:
		l.home.CompareAndSwap(nil, new(home).furnish())
		hm = l.near()
	case hm.word.Load().Generation() >= state.LastGeneration:
		l.stripe() // it is worn out
		hm = l.near()
	}
	if gen, ok := hm.word.Take(); ok {
		return hm.hold(&r.share, gen)
	}
	hm.other.Add(1)
	return newHold(&r.share)
}

// homes are those of a lock.
type homes struct {
	home        atomic.Pointer[home] // nil until a caller enters; if it is striped, it is not used itself
	lostRaces   atomic.Uint32        // of before there were stripes, so few; see races
	longestRace atomic.Uint32
}

// near returns the home that the caller begins with; nil if there is none yet.
func (l *homes) near() *home {
	hm := l.home.Load()
	if hm != nil && hm.striped != nil {
		hm = hm.striped.near()
	}
	return hm
}

// stripe gives the lock stripes that replace its present homes.
func (l *homes) stripe() {
	c := &stripes{older: l.home.Load()}
	for i := range c.homes {
		c.homes[i].furnish()
	}
	hm := &home{striped: c}
	hm.word.Arm()                      // for good: acquire must not take it
	l.home.CompareAndSwap(c.older, hm) // else another goroutine was first
}

// each yields each home of the lock, and the number of races that are counted there.
func (l *homes) each(yield func(hm *home, races uint64) bool) {
	hm := l.home.Load()
	for hm != nil && hm.striped != nil {
		c := hm.striped
		for i := range c.homes {
			if !yield(&c.homes[i].home, c.homes[i].races.Load()) {
				return
			}
		}
		hm = c.older
	}
	if hm != nil {
		yield(hm, 0)
	}
}

// homeOf returns the home with this handle; nil if it is a handle of the pool.
func (l *homes) homeOf(h *handle) *home {
	if hm := l.near(); hm != nil && &hm.handle == h {
		return hm // nearly always
	}
	for hm := range l.each {
		if &hm.handle == h {
			return hm
		}
	}
	return nil
}

// entries returns how many holders have entered the lock. No entry is counted by
// itself: the word of a home counts with the swap that takes it.
func (l *homes) entries() (n uint64) {
	for hm := range l.each {
		n += hm.word.Load().Holders() + hm.other.Load()
	}
	return n
}

// noteRaces counts the races that one operation lost.
func (l *homes) noteRaces(lost int) {
	if lost > 0 { // inlined
		l.countRaces(uint64(lost))
	}
}

// countRaces counts n races that one operation lost. After many the lock gets its stripes,
// and counts them there: one counter would be one more line to fight for.
func (l *homes) countRaces(n uint64) {
	if hm := l.home.Load(); hm != nil && hm.striped != nil {
		hm.striped.homes[spot()].races.Add(n)
	} else if l.lostRaces.Add(uint32(n)) >= stripeAfter && hm != nil {
		l.stripe()
	}
	for {
		old := l.longestRace.Load()
		if uint64(old) >= n || l.longestRace.CompareAndSwap(old, uint32(n)) {
			return
		}
	}
}

// races returns the number of races lost.
func (l *homes) races() uint64 {
	n := uint64(l.lostRaces.Load())
	for _, races := range l.each {
		n += races
	}
	return n
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

// recycle gives back a slot of a holder of l. The caller's CAS has just ended the
// generation gen, so the caller has the slot to itself.
func (s *slot) recycle(l *Lock, gen uint64) {
	if hm := l.homeOf(s.handle); hm != nil {
		hm.giveBack(s, gen)
	} else {
		s.giveBack(gen)
	}
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
	s.recycle(s.share.lock, g)
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
		s.recycle(s.share.lock, s.word.Load().Generation()-1)
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

// reportDropped is called when a slot has become unreachable. A released handle
// is of no interest: the pool gave it up. Nor is one whose round is over: there
// is nothing left to release.
func reportDropped(h *handle) {
	if h.withdrawn.Load() != nil || h.share == nil || h.word.Load().FirstReleased() {
		return
	}
	s := h.share.home()
	l, w := s.lock, s.word.Load()
	over := w.Phase() > state.Retained
	if over {
		if t := s.promises().turn(); t == nil || !t.isInside() {
			return
		}
	}
	omitted, ok := l.m.journal.drops.allow(droppedHold{l.Name(), over}, time.Now())
	if !ok {
		return
	}
	args := []any{"lock", l.Name(), "state", w.String()}
	if omitted > 0 {
		args = append(args, "not logged since the last", omitted)
	}
	if over {
		l.m.cfg.Logger.Error("holdfast: the lock of a Mutex was lost, and its Hold was dropped without a Release: this process's goroutines wait for it for ever", args...)
	} else {
		l.m.cfg.Logger.Error("holdfast: a Hold was dropped without a Release: the lock stays held until the session ends", args...)
	}
}
