// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"

	"pgregory.net/rapid"

	. "github.com/holdfast-go/holdfast/state"
)

// A reference is a round as one would write it with two variables and no thought
// of speed, from the description of the phases and not from the code.
type reference struct {
	phase string
	n     int
}

// apply applies a transition to r and returns its effect, or "panic" if the
// transition must not happen.
func (r *reference) apply(transition string) (effect string) {
	waits, holds := r.phase == "fetching", r.phase == "retained"
	over := r.phase == "releasing" || r.phase == "released"
	to := func(phase string, n int, effect string) string {
		r.phase, r.n = phase, n
		return effect
	}
	oneMore := func() string {
		switch {
		case r.n == MaxHolders:
			return "full"
		case waits:
			return to("fetching", r.n+1, "joined")
		default:
			return to("retained", r.n+1, "entered")
		}
	}
	switch transition {
	case "arrive", "arrive-closed":
		switch {
		case r.phase == "free":
			return to("fetching", 1, "started")
		case over || transition == "arrive-closed":
			return "next"
		}
		return oneMore()
	case "pin", "leave", "leave-idle":
		switch {
		case over:
			return "dead"
		case r.n == 0:
			return "panic"
		case transition == "pin":
			return oneMore()
		case r.n > 1:
			return to(r.phase, r.n-1, "left")
		case waits:
			return to("fetching", 0, "withdrawn")
		case transition == "leave-idle":
			return to("retained", 0, "idled")
		}
		return to("releasing", 0, "ended")
	case "grant":
		switch {
		case holds:
			return "panic"
		case !waits:
			return "dead"
		case r.n == 0:
			return to("releasing", 0, "abandoned")
		}
		return to("retained", r.n, "granted")
	case "cancel":
		if waits && r.n == 0 {
			return to("releasing", 0, "abandoned")
		}
	case "end":
		if waits || holds {
			return to("releasing", 0, "ended")
		}
	case "end-idle":
		if holds && r.n == 0 {
			return to("releasing", 0, "ended")
		}
	case "let-in-2":
		switch {
		case !holds:
			return "dead"
		case r.n > MaxHolders-2:
			return "full"
		}
		return to("retained", r.n+2, "entered")
	case "merge":
		if !waits {
			return "dead"
		}
		return to("released", 0, "merged")
	case "finish":
		if r.phase != "releasing" {
			return "panic"
		}
		return to("released", 0, "finished")
	}
	return "nothing"
}

// Random histories of a round, from its beginning to its end and beyond: the word
// agrees with the reference at every step.
func TestReferenceModel(t *testing.T) {
	// How often each transition is drawn: a round that ends at once shows little.
	draw := []int{0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 8, 8, 9, 10, 10, 11}
	rapid.Check(t, func(t *rapid.T) {
		ref := reference{phase: "free"}
		var a Atomic
		if rapid.Bool().Draw(t, "crowded") { // near the upper end of the count
			ref = reference{"fetching", MaxHolders - 1}
			set(&a, Pack(Fetching, MaxHolders-1))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			tr := transitions[rapid.SampledFrom(draw).Draw(t, "transition")]
			before := ref
			want := ref.apply(tr.name)
			old, e, panicked := try(0, func(Word) (Word, Effect) {
				old, e, lost := a.Apply(tr.do)
				if lost != 0 {
					t.Fatalf("%v: %s: lost %d races without another goroutine", before, tr.name, lost)
				}
				return old, e
			})
			ok := e.String() == want && old.Phase().String() == before.phase && old.Holders() == before.n
			if panicked != "" || want == "panic" {
				ok = panicked != "" && want == "panic"
			}
			if w := a.Load(); !ok || w.Phase().String() != ref.phase || w.Holders() != ref.n {
				t.Fatalf("%v: %s: got %v of %v, panic %q, and the word is %v; want %s and %v",
					before, tr.name, e, old, panicked, w, want, ref)
			}
		}
	})
}
