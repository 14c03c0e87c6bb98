// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	. "github.com/holdfast-go/holdfast/state"
)

// A round is the reference for the packed word: what a careful person would
// write with two variables and no thought of speed. It is written from the
// description of the phases, not from the code.
type round struct {
	phase string
	n     int
}

var errBug = errors.New("panic")

// effect of an event on the round, which is changed accordingly; errBug where
// the event must not happen.
func (r *round) arrive(gateClosed bool) (string, error) {
	if r.phase == "free" {
		r.phase, r.n = "fetching", 1
		return "started", nil
	}
	if r.phase == "releasing" || r.phase == "released" || gateClosed {
		return "next", nil
	}
	return r.count(), nil
}

func (r *round) count() string {
	if r.n == MaxHolders {
		return "full"
	}
	r.n++
	if r.phase == "fetching" {
		return "joined"
	}
	return "entered"
}

func (r *round) pin() (string, error) {
	if r.phase == "releasing" || r.phase == "released" {
		return "dead", nil
	}
	if r.n == 0 {
		return "", errBug
	}
	return r.count(), nil
}

func (r *round) leave() (string, error) {
	if r.phase == "releasing" || r.phase == "released" {
		return "dead", nil
	}
	if r.n == 0 {
		return "", errBug
	}
	r.n--
	if r.n > 0 {
		return "left", nil
	}
	if r.phase == "fetching" {
		return "withdrawn", nil
	}
	r.phase = "releasing"
	return "ended", nil
}

func (r *round) grant() (string, error) {
	switch {
	case r.phase == "retained":
		return "", errBug
	case r.phase != "fetching":
		return "dead", nil
	case r.n == 0:
		r.phase = "releasing"
		return "abandoned", nil
	}
	r.phase = "retained"
	return "granted", nil
}

func (r *round) cancel() (string, error) {
	if r.phase == "fetching" && r.n == 0 {
		r.phase = "releasing"
		return "abandoned", nil
	}
	return "nothing", nil
}

func (r *round) end() (string, error) {
	if r.phase == "fetching" || r.phase == "retained" {
		r.phase, r.n = "releasing", 0
		return "ended", nil
	}
	return "nothing", nil
}

func (r *round) finish() (string, error) {
	if r.phase != "releasing" {
		return "", errBug
	}
	r.phase = "released"
	return "finished", nil
}

// Random histories of rounds, each from its beginning to its end and on: the
// word says at every step what the reference says.
func TestReferenceModel(t *testing.T) {
	events := []struct {
		name  string
		model func(*round) (string, error)
		word  func(Word) (Word, Effect)
	}{
		{"arrive", func(r *round) (string, error) { return r.arrive(false) }, func(w Word) (Word, Effect) { return w.Arrive(false) }},
		{"arrive, gate closed", func(r *round) (string, error) { return r.arrive(true) }, func(w Word) (Word, Effect) { return w.Arrive(true) }},
		{"pin", (*round).pin, Word.Pin},
		{"leave", (*round).leave, Word.Leave},
		{"grant", (*round).grant, Word.Grant},
		{"cancel", (*round).cancel, Word.Cancel},
		{"end", (*round).end, Word.End},
		{"finish", (*round).finish, Word.Finish},
	}
	// How often each event is drawn: a round that is ended at once shows little.
	draw := []int{0, 0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6, 7}

	rapid.Check(t, func(t *rapid.T) {
		ref := round{phase: "free"}
		var a Atomic
		// Some histories begin with a crowd, so that they meet the upper end of
		// the count too: max-1 others have come before.
		if rapid.Bool().Draw(t, "crowded") {
			ref = round{phase: "fetching", n: MaxHolders - 1}
			a.Apply(func(Word) (Word, Effect) { return Pack(Fetching, MaxHolders-1), Nothing })
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			ev := events[rapid.SampledFrom(draw).Draw(t, "event")]
			before := ref
			wantEffect, wantErr := ev.model(&ref)
			old, effect, panicked := apply(&a, ev.word)
			if panicked != "" || wantErr != nil {
				if wantErr == nil || !strings.HasPrefix(panicked, "state: ") {
					t.Fatalf("%v: %s: panic %q, want %v", before, ev.name, panicked, wantErr)
				}
				ref = before // nothing has happened
			} else if effect.String() != wantEffect || old.Phase().String() != before.phase || old.Holders() != before.n {
				t.Fatalf("%v: %s: got %v of %v, want %s", before, ev.name, effect, old, wantEffect)
			}
			if w := a.Load(); w.Phase().String() != ref.phase || w.Holders() != ref.n {
				t.Fatalf("%v: %s: the word is %v, want %v", before, ev.name, w, ref)
			}
		}
	})
}

// apply applies a transition, and returns the text of its panic, if any.
func apply(a *Atomic, tr func(Word) (Word, Effect)) (old Word, e Effect, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = p.(string)
		}
	}()
	old, e, _ = a.Apply(tr)
	return old, e, ""
}
