// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

func TestFlags(t *testing.T) {
	all := []Flags{PrevReleased, Wanted, Over, GateClosed, GrantTold}
	var a AtomicFlags
	var want Flags
	for _, f := range all {
		if a.Load().Has(f) {
			t.Errorf("flag %#x is set from the start, or by another", uint32(f))
		}
		if before := a.Set(f); before != want {
			t.Errorf("Set(%#x): before it was %#x, want %#x", uint32(f), uint32(before), uint32(want))
		}
		want |= f
		if before := a.Set(f); before != want {
			t.Errorf("Set(%#x) again: before it was %#x, want %#x", uint32(f), uint32(before), uint32(want))
		}
		if got := a.Load(); got != want || !got.Has(f) {
			t.Errorf("after Set(%#x): %#x, want %#x", uint32(f), uint32(got), uint32(want))
		}
	}
	if !want.Has(Wanted|Over) || (Wanted | GateClosed).Has(Wanted|Over) {
		t.Error("Has of two flags must ask for both")
	}
}

// Of two goroutines that set different flags exactly one finds the other's set.
func TestFlagsHaveOneSecondSetter(t *testing.T) {
	for range 5000 {
		var a AtomicFlags
		var seconds atomic.Int32
		var wg sync.WaitGroup
		set := func(mine, other Flags) {
			if a.Set(mine).Has(other) {
				seconds.Add(1)
			}
		}
		wg.Go(func() { set(PrevReleased, Wanted) })
		set(Wanted, PrevReleased)
		wg.Wait()
		if n := seconds.Load(); n != 1 {
			t.Fatalf("%d second setters", n)
		}
	}
}
