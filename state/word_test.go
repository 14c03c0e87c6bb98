// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

// The transitions, and the texts with which they panic if they must not happen.
var transitions = []struct {
	name   string
	do     func(Word) (Word, Effect)
	panics string
}{
	{"arrive", arrive, ""},
	{"arrive-closed", func(w Word) (Word, Effect) { return w.Arrive(true) }, ""},
	{"pin", Word.Pin, "state: pin of a lock with no holders"},
	{"leave", Word.Leave, "state: leave of a lock with no holders"},
	{"grant", Word.Grant, "state: grant of a lock that is granted already"},
	{"cancel", Word.Cancel, ""},
	{"end", Word.End, ""},
	{"finish", Word.Finish, "state: finish of a round that is not releasing"},
	{"leave-idle", Word.LeaveIdle, "state: leave of a lock with no holders"},
	{"end-idle", Word.EndIdle, ""},
	{"let-in-2", func(w Word) (Word, Effect) { return w.LetIn(2) }, ""},
	{"merge", Word.Merge, ""},
}

func arrive(w Word) (Word, Effect) { return w.Arrive(false) }

// A row of the table is a word that a round can have. A column is a transition:
//
//	retained/3:entered   it returns that word and that effect
//	=:next               it returns the same word and that effect
//	!                    it panics
const table = `
word            arrive                arrive-closed       pin                   leave                 grant                   cancel                 end                finish               leave-idle            end-idle            let-in-2              merge
free/0          fetching/1:started    fetching/1:started  !                     !                     =:dead                  =:nothing              =:nothing          !                    !                     =:nothing           =:dead                =:dead

fetching/0      fetching/1:joined     =:next              !                     !                     releasing/0:abandoned   releasing/0:abandoned  releasing/0:ended  !                    !                     =:nothing           =:dead                released/0:merged
fetching/1      fetching/2:joined     =:next              fetching/2:joined     fetching/0:withdrawn  retained/1:granted      =:nothing              releasing/0:ended  !                    fetching/0:withdrawn  =:nothing           =:dead                released/0:merged
fetching/2      fetching/3:joined     =:next              fetching/3:joined     fetching/1:left       retained/2:granted      =:nothing              releasing/0:ended  !                    fetching/1:left       =:nothing           =:dead                released/0:merged
fetching/max-1  fetching/max:joined   =:next              fetching/max:joined   fetching/max-2:left   retained/max-1:granted  =:nothing              releasing/0:ended  !                    fetching/max-2:left   =:nothing           =:dead                released/0:merged
fetching/max    =:full                =:next              =:full                fetching/max-1:left   retained/max:granted    =:nothing              releasing/0:ended  !                    fetching/max-1:left   =:nothing           =:dead                released/0:merged

retained/0      retained/1:entered    =:next              !                     !                     !                       =:nothing              releasing/0:ended  !                    !                     releasing/0:ended    retained/2:entered    =:dead
retained/1      retained/2:entered    =:next              retained/2:entered    releasing/0:ended     !                       =:nothing              releasing/0:ended  !                    retained/0:idled      =:nothing           retained/3:entered    =:dead
retained/2      retained/3:entered    =:next              retained/3:entered    retained/1:left       !                       =:nothing              releasing/0:ended  !                    retained/1:left       =:nothing           retained/4:entered    =:dead
retained/max-1  retained/max:entered  =:next              retained/max:entered  retained/max-2:left   !                       =:nothing              releasing/0:ended  !                    retained/max-2:left   =:nothing           =:full                =:dead
retained/max    =:full                =:next              =:full                retained/max-1:left   !                       =:nothing              releasing/0:ended  !                    retained/max-1:left   =:nothing           =:full                =:dead

releasing/0     =:next                =:next              =:dead                =:dead                =:dead                  =:nothing              =:nothing          released/0:finished  =:dead                =:nothing           =:dead                =:dead
released/0      =:next                =:next              =:dead                =:dead                =:dead                  =:nothing              =:nothing          !                    =:dead                =:nothing           =:dead                =:dead
`

// Every transition of every phase, at the ends of the count and next to them. A
// word that is not in the table is corrupt, and every transition panics.
func TestTransitions(t *testing.T) {
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		if cells := strings.Fields(line); len(cells) > 0 {
			rows[cells[0]] = cells[1:]
		}
	}
	for p := range Word(16) {
		for _, n := range []Word{0, 1, 2, MaxHolders - 1, MaxHolders} {
			w := p*(MaxHolders+1) + n
			row, ok := rows[show(w)]
			if ok == corrupt(w) {
				t.Errorf("%v: is in the table: %v, is corrupt: %v", w, ok, corrupt(w))
				continue
			}
			for i, tr := range transitions {
				want, panics := "!", "state: corrupt word"
				if ok {
					want, panics = strings.Replace(row[i], "=", show(w), 1), tr.panics
				}
				next, e, panicked := try(w, tr.do)
				got := show(next) + ":" + e.String()
				if panicked != "" {
					got = "!"
				}
				if got != want || !strings.HasPrefix(panicked, panics) && got == "!" {
					t.Errorf("%v %s: got %s, panic %q; want %s, panic %q", w, tr.name, got, panicked, want, panics)
				}
			}
		}
	}
}

// corrupt reports whether no round can have the word w.
func corrupt(w Word) bool {
	p := w.Phase()
	return p > Released || w.Holders() != 0 && p != Fetching && p != Retained
}

// show writes a word as the table does.
func show(w Word) string {
	if n := MaxHolders - w.Holders(); n == 0 {
		return w.Phase().String() + "/max"
	} else if n <= 2 {
		return fmt.Sprintf("%v/max-%d", w.Phase(), n)
	}
	return w.String()
}

// try calls the transition do, and returns the text of its panic, if any.
func try(w Word, do func(Word) (Word, Effect)) (next Word, e Effect, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = p.(string)
		}
	}()
	next, e = do(w)
	return next, e, ""
}

// A mask that is off by one bit would let the count leak into the phase.
func TestF061_Layout(t *testing.T) {
	for _, tt := range []struct {
		phase   Phase
		holders int
		want    Word
	}{
		{Free, 0, 0x00000000},
		{Fetching, 0, 0x10000000},
		{Fetching, 1, 0x10000001},
		{Fetching, MaxHolders, 0x1fffffff},
		{Retained, 0, 0x20000000},
		{Retained, 1 << 27, 0x28000000},
		{Retained, 0x0ffffffe, 0x2ffffffe},
		{Retained, 0x0fffffff, 0x2fffffff},
		{Releasing, 0, 0x30000000},
		{Released, MaxHolders, 0x4fffffff},
	} {
		w := Pack(tt.phase, tt.holders)
		if w != tt.want || w.Phase() != tt.phase || w.Holders() != tt.holders {
			t.Errorf("%v/%d is %#08x (%v/%d), want %#08x", tt.phase, tt.holders, uint32(w), w.Phase(), w.Holders(), uint32(tt.want))
		}
	}
}

func TestPackRefuses(t *testing.T) {
	for _, tt := range []struct {
		p    Phase
		n    int
		want string
	}{
		{Retained, -1, "state: no word for retained/-1"},
		{Retained, MaxHolders + 1, "state: no word for retained/268435456"},
		{Released + 1, 0, "state: no word for phase(5)/0"},
		{16, 0, "state: no word for phase(16)/0"},
	} {
		_, _, panicked := try(0, func(Word) (Word, Effect) { return Pack(tt.p, tt.n), Nothing })
		if panicked != tt.want {
			t.Errorf("Pack(%d, %d): panic %q, want %q", tt.p, tt.n, panicked, tt.want)
		}
	}
}

func TestString(t *testing.T) {
	const names = "nothing started joined entered next full dead left withdrawn ended granted abandoned finished idled merged effect(15)"
	for i, want := range strings.Fields(names) {
		if got := Effect(i).String(); got != want {
			t.Errorf("effect %d: got %q, want %q", i, got, want)
		}
	}
	for i, want := range strings.Fields("free fetching retained releasing released phase(5)") {
		if got := Phase(i).String(); got != want {
			t.Errorf("phase %d: got %q, want %q", i, got, want)
		}
		if got, want := (Word(i)<<28 + 7).String(), want+"/7"; got != want {
			t.Errorf("word %s: got %q", want, got)
		}
	}
	if got, want := Pack(Fetching, MaxHolders).String(), "fetching/"+strconv.Itoa(MaxHolders); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The count stops at its bound: one more neither carries into the phase nor
// changes the word.
func TestF060_CountStopsAtItsBound(t *testing.T) {
	for _, phase := range []Phase{Fetching, Retained} {
		var a Atomic
		set(&a, Pack(phase, MaxHolders-1))
		if _, e, _ := a.Apply(arrive); e == Full {
			t.Errorf("%v: the last one was refused", phase)
		}
		for _, come := range []func(Word) (Word, Effect){arrive, Word.Pin, arrive} {
			if _, e, _ := a.Apply(come); e != Full || a.Load() != Pack(phase, MaxHolders) {
				t.Fatalf("%v: one too many: %v, and the word becomes %v", phase, e, a.Load())
			}
		}
		if _, e, _ := a.Apply(Word.Leave); e != Left || a.Load() != Pack(phase, MaxHolders-1) {
			t.Errorf("%v: one leaves: %v, and the word becomes %v", phase, e, a.Load())
		}
	}
}

// A departure that the count does not have is a panic, and the word stays as it
// is. A user's second release does not get that far: the handle refuses it.
func TestF062_CountDoesNotUnderflow(t *testing.T) {
	for _, w := range []Word{Pack(Free, 0), Pack(Fetching, 0), Pack(Retained, 0)} {
		var a Atomic
		set(&a, w)
		_, _, panicked := try(0, func(Word) (Word, Effect) { a.Apply(Word.Leave); return 0, Nothing })
		if panicked == "" || a.Load() != w {
			t.Errorf("leave of %v: panic %q, and the word becomes %v", w, panicked, a.Load())
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

// set makes w the word of a.
func set(a *Atomic, w Word) { a.Apply(func(Word) (Word, Effect) { return w, Nothing }) }

// Whatever 32 bits a word has: it unpacks to what it was packed from, and no
// transition carries from the count into the phase, goes back to an earlier
// phase, or panics without cause.
func FuzzWord(f *testing.F) {
	for p := range uint32(16) {
		for _, n := range []uint32{0, 1, 2, MaxHolders - 1, MaxHolders} {
			f.Add(p<<28 | n)
		}
	}
	f.Fuzz(func(t *testing.T, bits uint32) {
		w := Word(bits)
		p, n := w.Phase(), w.Holders()
		if uint32(p) != bits>>28 || uint32(n) != bits&MaxHolders {
			t.Fatalf("%#08x unpacks to %d and %d", bits, p, n)
		}
		if p <= Released && Pack(p, n) != w {
			t.Fatalf("Pack(%v, %d) = %v, want %v", p, n, Pack(p, n), w)
		}
		uncounted := n == 0 && p <= Retained // no holder to pin or to leave
		mustPanic := map[string]bool{"pin": uncounted, "leave": uncounted, "leave-idle": uncounted, "grant": p == Retained, "finish": p != Releasing}
		for _, tr := range transitions {
			next, e, panicked := try(w, tr.do)
			q, m := next.Phase(), next.Holders()
			unchanged := e == Next || e == Full || e == Dead || e == Nothing
			ok := false
			switch {
			case corrupt(w):
				ok = strings.HasPrefix(panicked, "state: corrupt word")
			case mustPanic[tr.name]:
				ok = strings.HasPrefix(panicked, tr.panics) && tr.panics != ""
			case panicked != "" || corrupt(next) || unchanged != (next == w):
			case tr.name == "let-in-2":
				ok = unchanged || q == p && m-n == 2
			case q == p: // the count changes by one at most
				ok = -1 <= m-n && m-n <= 1
			case p == Free:
				ok = next == Pack(Fetching, 1)
			case q == Retained:
				ok = p == Fetching && m == n
			default:
				ok = q > p
			}
			if !ok {
				t.Errorf("%v %s: got %v %v, panic %q", w, tr.name, next, e, panicked)
			}
		}
	})
}
