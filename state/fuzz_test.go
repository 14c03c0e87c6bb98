// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"strings"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

// Whatever 32 bits a word has: it unpacks to what it was packed from, and no
// transition carries from the count into the phase, goes back to an earlier
// phase, or panics where it is not said to.
func FuzzWord(f *testing.F) {
	const unit = MaxHolders + 1 // one phase
	for p := uint32(0); p < 16; p++ {
		for _, n := range []uint32{0, 1, 2, MaxHolders - 1, MaxHolders} {
			f.Add(p*unit + n)
		}
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		w := Word(bits)
		p, n := w.Phase(), w.Holders()
		if uint32(p) != bits/unit || uint32(n) != bits%unit {
			t.Fatalf("%#08x unpacks to %d and %d", bits, p, n)
		}
		if p <= Released && Pack(p, n) != w {
			t.Fatalf("Pack(%v, %d) = %v, want %v", p, n, Pack(p, n), w)
		}

		corrupt := p > Released || n != 0 && p != Fetching && p != Retained
		live := p == Fetching || p == Retained
		panics := map[string]string{
			"Pin":    "state: pin of a lock with no holders",
			"Leave":  "state: leave of a lock with no holders",
			"Grant":  "state: grant of a lock that is granted already",
			"Finish": "state: finish of a round that is not releasing",
		}
		mustPanic := map[string]bool{ // and nothing else may
			"Pin":    p == Free || live && n == 0,
			"Leave":  p == Free || live && n == 0,
			"Grant":  p == Retained,
			"Finish": p != Releasing,
		}
		for _, c := range columns {
			next, e, panicked := try(w, c.do)
			switch {
			case corrupt:
				if !strings.HasPrefix(panicked, "state: corrupt word") {
					t.Errorf("%v %s: got %v %v, panic %q", w, c.name, next, e, panicked)
				}
				continue
			case mustPanic[c.name]:
				if !strings.HasPrefix(panicked, panics[c.name]) {
					t.Errorf("%v %s: got %v %v, panic %q", w, c.name, next, e, panicked)
				}
				continue
			case panicked != "":
				t.Errorf("%v %s: panic %q", w, c.name, panicked)
				continue
			}
			q, m := next.Phase(), next.Holders()
			if q < p || q > Released {
				t.Errorf("%v %s: goes to %v", w, c.name, next)
			}
			if q != Fetching && q != Retained && m != 0 {
				t.Errorf("%v %s: goes to %v, whose count must be 0", w, c.name, next)
			}
			// Within a phase the count moves by one at most; to another it is
			// kept (a grant), or starts at one, or is taken to 0.
			switch diff := m - n; {
			case q == p && (diff < -1 || diff > 1),
				p == Fetching && q == Retained && diff != 0,
				p == Free && q != p && next != Pack(Fetching, 1):
				t.Errorf("%v %s: goes to %v", w, c.name, next)
			}
			// An effect that says that nothing has changed says the truth, and
			// only that.
			if unchanged := e == Next || e == Full || e == Dead || e == Nothing; unchanged != (next == w) {
				t.Errorf("%v %s: %v, and goes to %v", w, c.name, e, next)
			}
		}
	})
}

// try performs a transition, and returns the text of its panic, if any.
func try(w Word, do func(Word) (Word, Effect)) (next Word, e Effect, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = p.(string)
		}
	}()
	next, e = do(w)
	return next, e, ""
}
