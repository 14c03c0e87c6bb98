// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"
	"unsafe"

	"github.com/holdfast-go/holdfast/state"
)

// A lock that several processors fight for gets stripes. Its counters go on, a Hold that was
// made before can be released after, and each entry has a handle of its own.
func TestStripedLock(t *testing.T) {
	l := retained(t)
	before := l.Acquire(t.Context()) // in the lock's one home
	l.noteRaces(stripeAfter - 1)
	if l.home.Load().striped != nil {
		t.Fatalf("striped after %d races", stripeAfter-1)
	}
	l.noteRaces(1)
	if l.home.Load().striped == nil {
		t.Fatalf("not striped after %d races", stripeAfter)
	}
	l.noteRaces(3)
	if st := l.Stats(); st.Entries != 1 || st.LostRaces != stripeAfter+3 || st.LongestRace != stripeAfter-1 {
		t.Errorf("%d entries, %d races lost, %d in a row", st.Entries, st.LostRaces, st.LongestRace)
	}

	first, crowded := l.Acquire(t.Context()), l.Acquire(t.Context())
	if l.homeOf(first.slot.handle) != l.near() {
		t.Error("the first entry has not taken the home that its goroutine begins with")
	}
	if l.homeOf(crowded.slot.handle) != nil {
		t.Error("an entry that found that home taken has another, not a slot of the pool")
	}
	for _, h := range []Hold{crowded, before, first} {
		mustRelease(t, h)
	}
	if hm := l.homeOf(before.slot.handle); hm == nil || hm.slot != before.slot {
		t.Error("the home from before has not got its slot back")
	}
	if again := l.Acquire(t.Context()); again.slot != first.slot || again.gen != first.gen+1 {
		t.Errorf("the next entry has generation %d, want %d of the same slot", again.gen, first.gen+1)
	} else {
		mustRelease(t, again)
	}
	if n := l.Stats().Entries; n != 4 {
		t.Errorf("%d entries are counted, want 4", n)
	}
	wantState(t, l, state.Retained, 1)
}

// A home whose word has no generations left is replaced, in a lock with one and in a
// striped one, and nothing that it counted is lost.
func TestWornOutHome(t *testing.T) {
	for name, make := range map[string]func(*Lock){
		"only":    func(l *Lock) { l.Acquire(t.Context()).Release() },
		"striped": func(l *Lock) { l.stripe() },
	} {
		t.Run(name, func(t *testing.T) {
			l := retained(t)
			make(l)
			worn := l.near()
			setHandles(worn.slot, state.LastGeneration-1, 0)
			last := l.Acquire(t.Context())
			if l.homeOf(last.slot.handle) != worn || last.gen != state.LastGeneration-1 {
				t.Fatalf("generation %d, want the last but one", last.gen)
			}
			last.Release() // its slot is not used again
			next := l.Acquire(t.Context())
			if hm := l.homeOf(next.slot.handle); hm == nil || hm == worn || next.gen != 0 {
				t.Errorf("generation %d of home %p, want the first of a new one", next.gen, hm)
			}
			mustRelease(t, next)
			const want = uint64(state.LastGeneration + 1)
			if n := l.Stats().Entries; n != want {
				t.Errorf("%d entries are counted, want %d", n, want)
			}
		})
	}
}

// Homes that share no cache line are what stripes are for.
func TestStripesArePadded(t *testing.T) {
	if size := unsafe.Sizeof(stripes{}.homes[0]); size%128 != 0 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("a stripe has %d bytes, want a multiple of 128", size)
	}
}
