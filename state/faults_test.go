// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"
	"unsafe"

	. "github.com/holdfast-go/holdfast/state"
)

// The layout of the word, bit by bit: four bits of phase above 28 bits of count.
// An expression like 1<<28 - 1 means something else in other languages, and a
// mask that is off by one bit makes counts leak into the phase.
func TestF061_Layout(t *testing.T) {
	if MaxHolders != 0x0fffffff {
		t.Errorf("MaxHolders is %#x", MaxHolders)
	}
	if n := unsafe.Sizeof(Word(0)); n != 4 {
		t.Errorf("a word has %d bytes", n)
	}
	for _, tt := range []struct {
		phase   Phase
		holders int
		want    uint32
	}{
		{Free, 0, 0x00000000},
		{Fetching, 0, 0x10000000},
		{Fetching, 1, 0x10000001},
		{Fetching, MaxHolders, 0x1fffffff},
		{Retained, 0, 0x20000000},
		{Retained, 1 << 27, 0x28000000},
		{Retained, MaxHolders - 1, 0x2ffffffe},
		{Retained, MaxHolders, 0x2fffffff},
		{Releasing, 0, 0x30000000},
		{Released, 0, 0x40000000},
	} {
		w := Pack(tt.phase, tt.holders)
		if uint32(w) != tt.want || w.Phase() != tt.phase || w.Holders() != tt.holders {
			t.Errorf("%v/%d is %#08x (%v/%d), want %#08x", tt.phase, tt.holders, uint32(w), w.Phase(), w.Holders(), tt.want)
		}
	}
}

// The count stops at its bound: it neither carries into the phase nor changes at
// all, whoever comes and however.
func TestF060_CountStopsAtItsBound(t *testing.T) {
	for _, phase := range []Phase{Fetching, Retained} {
		var a Atomic
		a.Apply(func(Word) (Word, Effect) { return Pack(phase, MaxHolders-1), Nothing })
		if _, e, _ := a.Apply(arrive); e == Full {
			t.Errorf("%v: the last one was refused", phase)
		}
		for _, come := range []func(Word) (Word, Effect){arrive, Word.Pin, arrive} {
			if _, e, _ := a.Apply(come); e != Full {
				t.Errorf("%v: one too many gets %v, want full", phase, e)
			}
			if w := a.Load(); w != Pack(phase, MaxHolders) {
				t.Fatalf("%v: one too many makes the word %v", phase, w)
			}
		}
		if _, e, _ := a.Apply(Word.Leave); e != Left || a.Load() != Pack(phase, MaxHolders-1) {
			t.Errorf("%v: after one has left the word is %v", phase, a.Load())
		}
	}
}

// Nobody leaves whom the word does not count: that is a panic, and the word stays
// as it is. A handle decides first, so that a user's second release never comes
// so far.
func TestF062_CountDoesNotUnderflow(t *testing.T) {
	for _, w := range []Word{Pack(Free, 0), Pack(Fetching, 0), Pack(Retained, 0)} {
		var a Atomic
		a.Apply(func(Word) (Word, Effect) { return w, Nothing })
		if _, _, panicked := apply(&a, Word.Leave); panicked == "" {
			t.Errorf("%v: somebody has left", w)
		}
		if got := a.Load(); got != w {
			t.Errorf("%v became %v", w, got)
		}
	}
	var h AtomicHandles
	h.Arm()
	g := h.Load().Generation()
	if e := h.ReleaseFirst(g); e == Dead {
		t.Errorf("the first release: %v", e)
	}
	for range 3 {
		before := h.Load()
		if e := h.ReleaseFirst(g); e != Dead || h.Load() != before {
			t.Errorf("a second release: %v, and %v becomes %v", e, before, h.Load())
		}
	}
}
