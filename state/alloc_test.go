// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	. "github.com/holdfast-go/holdfast/state"
)

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		name      string
		got, most uintptr
	}{
		{"Word", unsafe.Sizeof(Word(0)), 4},
		{"Atomic", unsafe.Sizeof(Atomic{}), 4},
		{"AtomicFlags", unsafe.Sizeof(AtomicFlags{}), 4},
		{"AtomicHandles", unsafe.Sizeof(AtomicHandles{}), 8},
	} {
		if tt.got > tt.most {
			t.Errorf("%s has %d bytes, want at most %d", tt.name, tt.got, tt.most)
		}
	}
}

func TestAllocs(t *testing.T) {
	a := retained(t)
	var gate atomic.Bool
	var h AtomicHandles
	for name, do := range map[string]func(){
		"a method expression": func() { a.Apply(Word.Pin); a.Apply(Word.Leave) },
		"a closure": func() {
			a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) })
			a.Apply(Word.Leave)
		},
		"entering":  func() { a.Enter(a.Load()); a.Apply(Word.Leave) },
		"an answer": func() { a.Apply(func(w Word) (Word, Effect) { return w.Arrive(true) }) },
		"Load":      func() { _ = a.Load() },
		"handles": func() {
			g, _ := h.Take()
			h.Reenter(g)
			h.ReleaseNested()
			h.ReleaseFirst(g)
			h.ReleaseOnly(h.Arm())
			h.Free(g + 2)
		},
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
