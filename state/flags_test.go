// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"sync"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

func TestFlags(t *testing.T) {
	var a AtomicFlags
	var want Flags
	for _, f := range []Flags{PrevReleased, Wanted, Over, GateClosed, GrantTold, Lingers, ReleaseAsked, GateOpening, ContentionAsked, Contended, Interrupted, Recovered} {
		if a.Load().Has(f) {
			t.Errorf("flag %#x is set from the start, or by another", uint32(f))
		}
		for range 2 {
			if before := a.Set(f); before != want {
				t.Errorf("Set(%#x) returns %#x, want %#x", uint32(f), uint32(before), uint32(want))
			}
			if want |= f; a.Load() != want || !want.Has(f) {
				t.Errorf("after Set(%#x): %#x, want %#x", uint32(f), uint32(a.Load()), uint32(want))
			}
		}
	}
	if a.Clear(GateClosed); a.Load() != want&^GateClosed {
		t.Errorf("after Clear of one: %#x, want the others of %#x", uint32(a.Load()), uint32(want))
	}
	if a.ClearIf(GateClosed|Over) || a.Load() != want&^GateClosed {
		t.Errorf("after ClearIf of two, of which one is not set: %#x, want %#x", uint32(a.Load()), uint32(want&^GateClosed))
	}
	if !a.ClearIf(Wanted|Over) || a.Load() != want&^(GateClosed|Wanted|Over) {
		t.Errorf("after ClearIf of two: %#x, want the others of %#x", uint32(a.Load()), uint32(want))
	}
	if !want.Has(Wanted|Over) || (Wanted | GateClosed).Has(Wanted|Over) {
		t.Error("Has of two flags must ask for both")
	}
}

// Of two goroutines that set different flags exactly one finds the other's set.
func TestFlagsHaveOneSecondSetter(t *testing.T) {
	for range 5000 {
		var a AtomicFlags
		var wg sync.WaitGroup
		var prev Flags
		wg.Go(func() { prev = a.Set(PrevReleased) })
		wanted := a.Set(Wanted)
		wg.Wait()
		if prev.Has(Wanted) == wanted.Has(PrevReleased) {
			t.Fatalf("before Set(PrevReleased) %#x, before Set(Wanted) %#x", uint32(prev), uint32(wanted))
		}
	}
}
