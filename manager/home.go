// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"
	"unsafe"

	"github.com/holdfast-go/holdfast/state"
)

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

// homes are those of a lock.
type homes struct {
	home        atomic.Pointer[home] // nil until a caller enters; if it is striped, it is not used itself
	lostRaces   atomic.Uint32        // of before there were stripes, so few; see races
	longestRace atomic.Uint32
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

// hold makes the Hold of a new holder of sh, which has taken the home.
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

// enter makes the Hold of a new holder of sh, the share of a round by which this process owns
// the lock. It does not read from sh, whose cache line another processor may have taken away
// since the caller's swap.
func (l *homes) enter(sh *share) Hold {
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
		return hm.hold(sh, gen)
	}
	hm.other.Add(1)
	return newHold(sh)
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

// recycle gives back the slot of a holder of the lock. The caller's CAS has just ended the
// generation gen, so the caller has the slot to itself.
func (l *homes) recycle(s *slot, gen uint64) {
	if hm := l.homeOf(s.handle); hm != nil {
		hm.giveBack(s, gen)
	} else {
		s.giveBack(gen)
	}
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
