// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	. "github.com/holdfast-go/holdfast/state"
)

// showHandles writes a word as "generation:depth", with a "-" if the first
// handle has been released, and a "?" if it is in doubt.
func showHandles(h Handles) string {
	s := fmt.Sprintf("%d:%d", h.Generation(), h.Depth())
	if h.FirstReleased() {
		s += "-"
	}
	if h.InDoubt() {
		s += "?"
	}
	return s
}

// handlesOf makes a word by what can happen to one.
func handlesOf(t *testing.T, generation uint64, depth int, firstReleased bool) Handles {
	t.Helper()
	// The layout: see Handles. This is the one place outside that says it again.
	h := Handles(generation<<25 | uint64(depth))
	if firstReleased {
		h |= 1 << 23
	}
	if h.Generation() != generation || h.Depth() != depth || h.FirstReleased() != firstReleased {
		t.Fatalf("%d, %d, %v packs to %s", generation, depth, firstReleased, showHandles(h))
	}
	return h
}

func TestHandlesTransitions(t *testing.T) {
	const last = LastGeneration
	type event struct {
		name string
		do   func(Handles) (Handles, Effect)
	}
	reenter := func(g uint64) event {
		return event{fmt.Sprintf("Reenter(%d)", g), func(h Handles) (Handles, Effect) { return h.Reenter(g) }}
	}
	first := func(g uint64) event {
		return event{fmt.Sprintf("ReleaseFirst(%d)", g), func(h Handles) (Handles, Effect) { return h.ReleaseFirst(g) }}
	}
	nested := event{"ReleaseNested", Handles.ReleaseNested}
	doubt := func(g uint64) event {
		return event{fmt.Sprintf("Doubt(%d)", g), func(h Handles) (Handles, Effect) { return h.Doubt(g) }}
	}
	confirm := func(g uint64) event {
		return event{fmt.Sprintf("Confirm(%d)", g), func(h Handles) (Handles, Effect) { return h.Confirm(g) }}
	}
	doubted := func(g uint64) event {
		return event{fmt.Sprintf("ReleaseDoubted(%d)", g), func(h Handles) (Handles, Effect) { return h.ReleaseDoubted(g) }}
	}
	then := func(a, b event) event {
		return event{a.name + ", " + b.name, func(h Handles) (Handles, Effect) { h, _ = a.do(h); return b.do(h) }}
	}

	tests := []struct {
		generation    uint64
		depth         int
		firstReleased bool
		event         event
		want          string
	}{
		{5, 1, false, reenter(5), "5:2 entered"},
		{5, 2, true, reenter(5), "5:3- entered"}, // by a nested handle
		{5, 1, false, reenter(4), "5:1 dead"},
		{5, 1, false, reenter(6), "5:1 dead"},
		{5, MaxDepth - 1, false, reenter(5), "5:8388607 entered"},
		{5, MaxDepth, false, reenter(5), "5:8388607 full"},
		{5, MaxDepth, true, reenter(5), "5:8388607- full"},
		{last, 1, false, reenter(last), "549755813887:2 entered"},

		{5, 1, false, first(5), "6:1 ended"},
		{5, 2, false, first(5), "5:2- left"},
		{5, MaxDepth, false, first(5), "5:8388607- left"},
		{5, 1, true, first(5), "5:1- dead"}, // released before
		{5, 1, false, first(4), "5:1 dead"}, // a handle of another holder, long ago
		{5, 1, false, first(6), "5:1 dead"},
		{0, 1, false, first(0), "1:1 ended"},
		{last - 1, 1, false, first(last - 1), "549755813887:1 ended"},

		{5, 1, false, doubt(5), "5:1? nothing"},
		{5, 3, false, doubt(5), "5:3? nothing"},
		{5, 1, false, doubt(4), "5:1 dead"},
		{5, 2, true, doubt(5), "5:2- dead"},
		{5, 1, false, confirm(5), "5:1 nothing"},
		{5, 1, false, then(doubt(5), confirm(5)), "5:1 nothing"},
		{5, 1, false, then(doubt(5), confirm(4)), "5:1? dead"},
		{5, 2, false, then(doubt(5), nested), "5:1? left"},
		{5, 1, false, then(doubt(5), reenter(5)), "5:2? entered"},
		{5, 1, false, then(doubt(5), first(5)), "6:1 ended"},
		{5, 2, false, then(doubt(5), first(5)), "5:2- left"},
		{5, 1, false, then(doubt(5), doubted(5)), "6:1 ended"},
		{5, 2, false, then(doubt(5), doubted(5)), "5:2- left"},
		{5, 1, false, then(doubt(5), doubted(4)), "5:1? dead"},
		{5, 1, false, doubted(5), "5:1 dead"}, // somebody has confirmed it

		{5, 1, true, nested, "6:1 ended"},
		{5, 2, true, nested, "5:1- left"},
		{5, 2, false, nested, "5:1 left"},
		{5, MaxDepth, true, nested, "5:8388606- left"},
		{last - 1, 1, true, nested, "549755813887:1 ended"},
	}
	for _, tt := range tests {
		h := handlesOf(t, tt.generation, tt.depth, tt.firstReleased)
		next, e := tt.event.do(h)
		if got := showHandles(next) + " " + e.String(); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", showHandles(h), tt.event.name, got, tt.want)
		}
	}
}

// Random histories of an object that one holder after another uses, against
// a plain set of handles. A handle is alive until it is released, once, and a
// handle of an earlier holder is dead whatever the present one does.
func TestHandlesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a AtomicHandles
		a.Arm()
		var (
			generation    = uint64(0)
			nested        = 0     // handles of the present holder beside its first
			firstReleased = false // its first
			firsts        []uint64
		)
		taken := func() { firsts = append(firsts, a.Load().Generation()) }
		taken()
		ended := func() {
			generation, nested, firstReleased = generation+1, 0, false
			taken()
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			handle := rapid.SampledFrom(firsts).Draw(t, "handle")
			if rapid.Bool().Draw(t, "present") {
				handle = generation
			}
			present := handle == generation
			var got, want Effect
			event := rapid.SampledFrom([]string{"reenter", "release only", "release first", "release nested"}).Draw(t, "event")
			switch event {
			case "reenter":
				if firstReleased && nested == 0 {
					t.Fatal("the holder should have ended")
				}
				got, want = a.Reenter(handle), Dead
				if present {
					want = Entered
					nested++
				}
			case "release only":
				before := a.Load()
				if a.ReleaseOnly(handle) {
					got = Ended
				} else if a.Load() != before {
					t.Fatalf("it did nothing, and made %s of %s", showHandles(a.Load()), showHandles(before))
				}
				if present && !firstReleased && nested == 0 {
					want = Ended
					ended()
				}
			case "release first":
				got, want = a.ReleaseFirst(handle), Dead
				if present && !firstReleased {
					want = Left
					firstReleased = true
					if nested == 0 {
						want = Ended
						ended()
					}
				}
				if got == Left {
					if h := a.Load(); h.Depth() != nested+1 || !h.FirstReleased() {
						t.Fatalf("the word is %s before the first handle's count is taken back", showHandles(h))
					}
					got = a.ReleaseNested()
				}
			case "release nested":
				if nested == 0 {
					continue // whoever calls it has one
				}
				got, want = a.ReleaseNested(), Left
				nested--
				if nested == 0 && firstReleased {
					want = Ended
					ended()
				}
			}
			if got != want {
				t.Fatalf("%s of %d in %s: got %v, want %v", event, handle, showHandles(a.Load()), got, want)
			}
			depth := nested
			if !firstReleased {
				depth++
			}
			if h := a.Load(); h.Generation() != generation || h.Depth() != depth || h.FirstReleased() != firstReleased {
				t.Fatalf("the word is %s, want %d:%d, first released %v", showHandles(h), generation, depth, firstReleased)
			}
		}
	})
}

// Many goroutines reenter and release beside the holder's own handle, which
// several of them try to release: one succeeds, and whoever takes the last
// handle away ends the generation, once.
func TestHandlesHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	var a AtomicHandles
	a.Arm()
	for generation := range uint64(rounds) {
		var wg sync.WaitGroup
		var ended, releasedFirst, old atomic.Int32
		start := make(chan struct{})
		for i := range 4 {
			wg.Go(func() {
				<-start
				for range 4 {
					if a.Reenter(generation) != Entered {
						return // the holder has ended, and stays so
					}
					if generation > 0 && a.ReleaseFirst(generation-1) != Dead {
						old.Add(1)
					}
					if a.ReleaseNested() == Ended {
						ended.Add(1)
					}
				}
			})
			if i < 2 {
				wg.Go(func() {
					<-start
					if i == 1 && a.ReleaseOnly(generation) {
						releasedFirst.Add(1)
						ended.Add(1)
						return
					}
					switch a.ReleaseFirst(generation) {
					case Left:
						releasedFirst.Add(1)
						if a.ReleaseNested() == Ended {
							ended.Add(1)
						}
					case Ended:
						releasedFirst.Add(1)
						ended.Add(1)
					}
				})
			}
		}
		close(start)
		wg.Wait()
		if ended.Load() != 1 || releasedFirst.Load() != 1 || old.Load() != 0 {
			t.Fatalf("generation %d: ended %d times, the first handle released %d times, an old one %d times",
				generation, ended.Load(), releasedFirst.Load(), old.Load())
		}
		if got, want := showHandles(a.Load()), fmt.Sprintf("%d:1", generation+1); got != want {
			t.Fatalf("the word is %s, want %s", got, want)
		}
	}
}

// A handle in doubt is withdrawn by one goroutine and used by another at the
// same moment: either it is confirmed and stays alive, or it is withdrawn and
// whoever wanted to use it is told. An old handle changes neither.
func TestDoubtIsDecidedOnce(t *testing.T) {
	var a AtomicHandles
	a.Arm()
	for range 2000 {
		generation := a.Load().Generation()
		if e := a.Doubt(generation); e != Nothing || !a.Load().InDoubt() {
			t.Fatalf("doubt: %v, %s", e, showHandles(a.Load()))
		}
		var confirmed, withdrawn, old Effect
		var wg sync.WaitGroup
		wg.Go(func() { confirmed = a.Confirm(generation) })
		wg.Go(func() { withdrawn = a.ReleaseDoubted(generation) })
		wg.Go(func() { old = a.ReleaseDoubted(generation - 1) })
		wg.Wait()
		alive := a.Load().Alive(generation)
		if alive && a.Doubt(generation) == Nothing && a.ReleaseOnly(generation) {
			t.Fatal("a handle in doubt was released as if it were not")
		}
		a.Confirm(generation)
		kept := confirmed == Nothing && withdrawn == Dead && alive
		lost := confirmed == Dead && withdrawn == Ended && !alive
		if kept == lost || old != Dead {
			t.Fatalf("confirm: %v; withdrawal: %v; an old one's: %v; alive: %v", confirmed, withdrawn, old, alive)
		}
		if kept && a.ReleaseFirst(generation) != Ended {
			t.Fatalf("the confirmed handle cannot be released: %s", showHandles(a.Load()))
		}
	}
}

func TestHandlesDoNotAllocate(t *testing.T) {
	var a AtomicHandles
	a.Arm()
	if n := testing.AllocsPerRun(100, func() {
		g := a.Load().Generation()
		a.Reenter(g)
		a.ReleaseNested()
		a.ReleaseFirst(g)
		a.ReleaseOnly(g + 1)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if got := unsafe.Sizeof(a); got != 8 {
		t.Errorf("an AtomicHandles has %d bytes, want 8", got)
	}
}
