// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	. "github.com/holdfast-go/holdfast/state"
)

// showHandles writes a word as "generation:depth", with a "-" if the first handle
// has been released, and a "?" if it is in doubt.
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

// parseHandles reads what showHandles writes. It repeats the layout of Handles,
// so the table below holds the layout too.
func parseHandles(t *testing.T, s string) Handles {
	t.Helper()
	var generation, depth uint64
	if _, err := fmt.Sscanf(s, "%d:%d", &generation, &depth); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	h := Handles(generation<<25 | depth)
	if strings.HasSuffix(s, "-") {
		h |= 1 << 23
	}
	if showHandles(h) != s {
		t.Fatalf("%s packs to %s", s, showHandles(h))
	}
	return h
}

// Each line is a word, one or more transitions of handles of a generation, the
// word after them, and the last effect. max is 8388607, and last 549755813887.
func TestHandlesTransitions(t *testing.T) {
	if MaxDepth != 8388607 || LastGeneration != 549755813887 {
		t.Errorf("MaxDepth is %d, LastGeneration %d", MaxDepth, uint64(LastGeneration))
	}
	const script = `
		5:1      reenter(5)    5:2      entered
		5:2-     reenter(5)    5:3-     entered   # by a nested handle
		5:1      reenter(4)    5:1      dead
		5:1      reenter(6)    5:1      dead
		5:8388606  reenter(5)  5:max    entered
		5:max    reenter(5)    5:max    full
		5:max-   reenter(5)    5:max-   full
		last:1   reenter(last) last:2   entered
		5:0      reenter(4)    5:0      dead      # a handle of the last holder, of a free word
		5:0-     reenter(4)    5:0-     dead      # and of a spent one

		5:1      first(5)      6:0-     ended
		5:2      first(5)      5:2-     left
		5:max    first(5)      5:max-   left
		5:1-     first(5)      5:1-     dead      # released before
		5:1      first(4)      5:1      dead      # a handle of an earlier holder
		5:1      first(6)      5:1      dead
		5:0      first(4)      5:0      dead
		5:0-     first(4)      5:0-     dead
		0:1      first(0)      1:0-     ended
		549755813886:1  first(549755813886)  last:0-  ended

		5:1      doubt(5)      5:1?     nothing
		5:3      doubt(5)      5:3?     nothing
		5:1      doubt(4)      5:1      dead
		5:2-     doubt(5)      5:2-     dead
		5:1      confirm(5)    5:1      nothing
		5:1      doubt(5),confirm(5)  5:1   nothing
		5:1      doubt(5),confirm(4)  5:1?  dead
		5:2      doubt(5),nested(5)   5:1?  left
		5:1      doubt(5),reenter(5)  5:2?  entered
		5:1      doubt(5),first(5)    6:0-  ended
		5:2      doubt(5),first(5)    5:2-  left
		5:1      doubt(5),doubted(5)  6:0-  ended
		5:2      doubt(5),doubted(5)  5:2-  left
		5:1      doubt(5),doubted(4)  5:1?  dead
		5:1      doubted(5)    5:1      dead      # it was confirmed

		5:1-     nested(5)     6:0-     ended
		5:2-     nested(5)     5:1-     left
		5:2      nested(5)     5:1      left
		5:max-   nested(5)     5:8388606-  left
		549755813886:1-  nested(5)  last:0-  ended
	`
	transitions := map[string]func(Handles, uint64) (Handles, Effect){
		"reenter": Handles.Reenter, "first": Handles.ReleaseFirst, "doubt": Handles.Doubt,
		"confirm": Handles.Confirm, "doubted": Handles.ReleaseDoubted,
		"nested": func(h Handles, _ uint64) (Handles, Effect) { return h.ReleaseNested() },
	}
	for line := range strings.Lines(strings.NewReplacer("max", "8388607", "last", "549755813887").Replace(script)) {
		line, _, _ = strings.Cut(line, "#")
		cells := strings.Fields(line)
		if len(cells) == 0 {
			continue
		}
		h, e := parseHandles(t, cells[0]), Nothing
		for event := range strings.SplitSeq(cells[1], ",") {
			name, arg, _ := strings.Cut(event, "(")
			var generation uint64
			if _, err := fmt.Sscan(strings.TrimSuffix(arg, ")"), &generation); err != nil {
				t.Fatal(err)
			}
			h, e = transitions[name](h, generation)
		}
		if got := showHandles(h) + " " + e.String(); got != cells[2]+" "+cells[3] {
			t.Errorf("%s: got %s", strings.TrimSpace(line), got)
		}
	}
}

// Random histories of a word that one holder after another uses, against a plain
// set of handles. A handle is alive until it is released, once, and a handle of
// an earlier holder is dead whatever the present one does.
func TestHandlesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a AtomicHandles
		var (
			generation    = uint64(0)
			nested        = 0     // handles of the present holder beside its first
			firstReleased = false // its first
			held          = false // there is a holder
			take          = a.Take
		)
		end := func() Effect {
			generation, nested, firstReleased, held = generation+1, 0, true, false
			if _, ok := a.Take(); ok {
				t.Fatal("a spent word was taken")
			}
			take = func() (uint64, bool) { return a.Arm(), true }
			if rapid.Bool().Draw(t, "free") {
				a.Free(generation)
				take, firstReleased = a.Take, false
			}
			return Ended
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			if !held {
				h := a.Load()
				if h.Holders() != generation {
					t.Fatalf("%s after %d holders", showHandles(h), generation)
				}
				if g, ok := take(); g != generation || !ok {
					t.Fatalf("%s gives out generation %d: %v", showHandles(h), g, ok)
				}
				if _, ok := a.Take(); ok {
					t.Fatal("a word was taken twice")
				}
				held, firstReleased = true, false
			}
			handle := generation
			if rapid.Bool().Draw(t, "of an earlier holder") {
				handle = rapid.Uint64Range(0, generation).Draw(t, "handle")
			}
			alive := handle == generation && !firstReleased
			before := a.Load()
			got, want := Dead, Dead
			event := rapid.SampledFrom([]string{"reenter", "release only", "release first", "release nested"}).Draw(t, "event")
			switch event {
			case "reenter":
				got = a.Reenter(handle)
				if handle == generation {
					want = Entered
					nested++
				}
			case "release only":
				if a.ReleaseOnly(handle) {
					got = Ended
				} else if a.Load() != before {
					t.Fatalf("it did nothing, and made %s of %s", showHandles(a.Load()), showHandles(before))
				}
				if alive && nested == 0 {
					want = end()
				}
			case "release first":
				got = a.ReleaseFirst(handle)
				if alive && nested == 0 {
					want = end()
				} else if alive {
					want = Left
					firstReleased = true
				}
				if got == Left {
					if h := a.Load(); h.Depth() != nested+1 || !h.FirstReleased() {
						t.Fatalf("the word is %s before the first handle's count is taken back", showHandles(h))
					}
					got = a.ReleaseNested()
				}
			case "release nested":
				if nested == 0 {
					continue // its caller must have one
				}
				got, want = a.ReleaseNested(), Left
				if nested--; nested == 0 && firstReleased {
					want = end()
				}
			}
			depth, holders := nested, generation
			if held {
				holders++
			}
			if held && !firstReleased {
				depth++
			}
			h := a.Load()
			if h.Holders() != holders {
				t.Fatalf("%s counts %d holders, want %d", showHandles(h), h.Holders(), holders)
			}
			if got != want || h.Generation() != generation || h.Depth() != depth || h.FirstReleased() != firstReleased {
				t.Fatalf("%s of %d in %s: got %v and %s; want %v and %d:%d, first released: %v",
					event, handle, showHandles(before), got, showHandles(h), want, generation, depth, firstReleased)
			}
		}
	})
}

// Goroutines reenter and release beside the holder's first handle, which two of
// them try to release. One of those succeeds, and the release of the last handle
// ends the generation, once. Then several try to take the word, and one succeeds.
func TestHandlesHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	var a AtomicHandles
	for generation := range uint64(rounds) {
		var wg sync.WaitGroup
		var taken atomic.Int32
		for range 4 {
			wg.Go(func() {
				if g, ok := a.Take(); ok && g == generation {
					taken.Add(1)
				}
			})
		}
		wg.Wait()
		if taken.Load() != 1 {
			t.Fatalf("%d took generation %d", taken.Load(), generation)
		}
		var ended, first, old atomic.Int32
		start := make(chan struct{})
		spawn := func(fn func()) { wg.Go(func() { <-start; fn() }) }
		nested := func() {
			if a.ReleaseNested() == Ended {
				ended.Add(1)
			}
		}
		for range 4 {
			spawn(func() {
				for range 4 {
					if a.Reenter(generation) != Entered {
						return // the generation has ended
					}
					if generation > 0 && a.ReleaseFirst(generation-1) != Dead {
						old.Add(1)
					}
					nested()
				}
			})
		}
		for i := range 2 {
			spawn(func() {
				e := Ended
				if i == 0 || !a.ReleaseOnly(generation) {
					e = a.ReleaseFirst(generation)
				}
				switch e {
				case Ended:
					first.Add(1)
					ended.Add(1)
				case Left:
					first.Add(1)
					nested()
				}
			})
		}
		close(start)
		wg.Wait()
		if ended.Load() != 1 || first.Load() != 1 || old.Load() != 0 {
			t.Fatalf("generation %d: ended %d times, its first handle released %d times, an old one %d times",
				generation, ended.Load(), first.Load(), old.Load())
		}
		if got, want := showHandles(a.Load()), fmt.Sprintf("%d:0-", generation+1); got != want {
			t.Fatalf("the word is %s, want %s", got, want)
		}
		a.Free(generation + 1)
	}
}

// Goroutines take one word from each other: at no moment do two have it.
func TestF065_TakeExcludes(t *testing.T) {
	const goroutines, times = 4, 50_000
	var a AtomicHandles
	var have atomic.Int32
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range times {
				generation, ok := a.Take()
				if !ok {
					continue
				}
				if n := have.Add(1); n != 1 {
					t.Errorf("%d have generation %d", n, generation)
				}
				have.Add(-1)
				if !a.ReleaseOnly(generation) {
					t.Errorf("generation %d was released by another", generation)
				}
				a.Free(generation + 1)
			}
		})
	}
	wg.Wait()
	if h := a.Load(); h.Depth() != 0 || h.FirstReleased() || h.Holders() == 0 {
		t.Errorf("the word is %s in the end", showHandles(h))
	}
}

// One goroutine withdraws a handle in doubt while another uses it: either the
// handle is confirmed and stays alive, or it is withdrawn and its user is told.
// An old handle changes neither.
func TestDoubtIsDecidedOnce(t *testing.T) {
	var a AtomicHandles
	a.Arm()
	for range 2000 {
		if a.Load().Depth() == 0 {
			a.Arm()
		}
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
			t.Fatal("ReleaseOnly released a handle in doubt")
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
