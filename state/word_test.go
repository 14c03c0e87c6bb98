// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

const maxH = MaxHolders

// The table of all transitions reads as follows: a row is a word, and each
// column says what becomes of it by one transition:
//
//	"retained/3 entered"  the new word and the effect
//	"= next"              the word stays as it is, and the effect
//	"! lock with no"      the transition panics, with a text that holds this
//
// The counts of the rows are 0, 1, 2, max-1 and max. Columns: see columns.
var columns = []struct {
	name string
	do   func(Word) (Word, Effect)
}{
	{"Arrive(gate open)", func(w Word) (Word, Effect) { return w.Arrive(false) }},
	{"Arrive(gate closed)", func(w Word) (Word, Effect) { return w.Arrive(true) }},
	{"Pin", Word.Pin},
	{"Leave", Word.Leave},
	{"Grant", Word.Grant},
	{"Cancel", Word.Cancel},
	{"End", Word.End},
	{"Finish", Word.Finish},
}

type row struct {
	word string
	want [8]string
}

// Words that a round can have.
var rows = []row{
	// word           gate open                 gate closed          Pin                       Leave                     Grant                   Cancel                   End                  Finish
	{"free/0", [8]string{"fetching/1 started", "fetching/1 started", "! pin of", "! leave of", "= dead", "= nothing", "= nothing", "! finish of"}},

	{"fetching/0", [8]string{"fetching/1 joined", "= next", "! pin of", "! leave of", "releasing/0 abandoned", "releasing/0 abandoned", "releasing/0 ended", "! finish of"}},
	{"fetching/1", [8]string{"fetching/2 joined", "= next", "fetching/2 joined", "fetching/0 withdrawn", "retained/1 granted", "= nothing", "releasing/0 ended", "! finish of"}},
	{"fetching/2", [8]string{"fetching/3 joined", "= next", "fetching/3 joined", "fetching/1 left", "retained/2 granted", "= nothing", "releasing/0 ended", "! finish of"}},
	{"fetching/max-1", [8]string{"fetching/max joined", "= next", "fetching/max joined", "fetching/max-2 left", "retained/max-1 granted", "= nothing", "releasing/0 ended", "! finish of"}},
	{"fetching/max", [8]string{"= full", "= next", "= full", "fetching/max-1 left", "retained/max granted", "= nothing", "releasing/0 ended", "! finish of"}},

	{"retained/0", [8]string{"retained/1 entered", "= next", "! pin of", "! leave of", "! grant of", "= nothing", "releasing/0 ended", "! finish of"}},
	{"retained/1", [8]string{"retained/2 entered", "= next", "retained/2 entered", "releasing/0 ended", "! grant of", "= nothing", "releasing/0 ended", "! finish of"}},
	{"retained/2", [8]string{"retained/3 entered", "= next", "retained/3 entered", "retained/1 left", "! grant of", "= nothing", "releasing/0 ended", "! finish of"}},
	{"retained/max-1", [8]string{"retained/max entered", "= next", "retained/max entered", "retained/max-2 left", "! grant of", "= nothing", "releasing/0 ended", "! finish of"}},
	{"retained/max", [8]string{"= full", "= next", "= full", "retained/max-1 left", "! grant of", "= nothing", "releasing/0 ended", "! finish of"}},

	{"releasing/0", [8]string{"= next", "= next", "= dead", "= dead", "= dead", "= nothing", "= nothing", "released/0 finished"}},

	{"released/0", [8]string{"= next", "= next", "= dead", "= dead", "= dead", "= nothing", "= nothing", "! finish of"}},
}

// Words that no round can have: every transition refuses them.
var corruptRows = []string{
	"free/1", "free/2", "free/max-1", "free/max",
	"releasing/1", "releasing/2", "releasing/max-1", "releasing/max",
	"released/1", "released/2", "released/max-1", "released/max",
}

func TestTransitions(t *testing.T) {
	seen := make(map[Word]bool)
	run := func(r row) {
		w := parse(t, r.word)
		if seen[w] {
			t.Errorf("two rows for %v", w)
		}
		seen[w] = true
		for i, c := range columns {
			if got, want := outcome(w, c.do), r.want[i]; !matches(t, w, got, want) {
				t.Errorf("%v %s: got %q, want %q", r.word, c.name, got, want)
			}
		}
	}
	for _, r := range rows {
		run(r)
	}
	for _, w := range corruptRows {
		run(row{w, [8]string{"! corrupt word", "! corrupt word", "! corrupt word", "! corrupt word",
			"! corrupt word", "! corrupt word", "! corrupt word", "! corrupt word"}})
	}

	// Nothing is missing from the tables.
	for p := Free; p <= Released; p++ {
		for _, n := range []int{0, 1, 2, maxH - 1, maxH} {
			if w := Pack(p, n); !seen[w] {
				t.Errorf("no row for %v", w)
			}
		}
	}
	if got, want := len(seen), 5*5; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

// A phase without a name is refused by every transition.
func TestTransitionsOfNamelessPhases(t *testing.T) {
	for p := uint32(Released) + 1; p < 16; p++ {
		for _, n := range []uint32{0, 1, 2, maxH - 1, maxH} {
			w := Word(p)*(maxH+1) + Word(n)
			for _, c := range columns {
				if got := outcome(w, c.do); !matches(t, w, got, "! corrupt word") {
					t.Errorf("%#08x %s: got %q, want a panic", uint32(w), c.name, got)
				}
			}
		}
	}
}

// parse reads a word as the tables write it.
func parse(t *testing.T, s string) Word {
	t.Helper()
	phase, count, _ := strings.Cut(s, "/")
	for p := Free; p <= Released; p++ {
		if p.String() != phase {
			continue
		}
		switch count {
		case "max":
			return Pack(p, maxH)
		case "max-1":
			return Pack(p, maxH-1)
		case "max-2":
			return Pack(p, maxH-2)
		}
		var n int
		if _, err := fmt.Sscan(count, &n); err == nil {
			return Pack(p, n)
		}
	}
	t.Fatalf("no word: %q", s)
	return 0
}

// outcome performs a transition and describes what came of it.
func outcome(w Word, do func(Word) (Word, Effect)) (s string) {
	defer func() {
		if p := recover(); p != nil {
			s = fmt.Sprintf("! %v", p)
		}
	}()
	next, e := do(w)
	return fmt.Sprintf("%v %v", next, e)
}

// matches reports whether the outcome got is what a cell of the table says.
func matches(t *testing.T, w Word, got, want string) bool {
	t.Helper()
	what, effect, _ := strings.Cut(want, " ")
	switch what {
	case "!":
		return strings.HasPrefix(got, "! state: "+effect)
	case "=":
		return got == w.String()+" "+effect
	default:
		return got == parse(t, what).String()+" "+effect
	}
}

func TestPack(t *testing.T) {
	for p := Free; p <= Released; p++ {
		for _, n := range []int{0, 1, 2, 1 << 16, maxH - 1, maxH} {
			w := Pack(p, n)
			if w.Phase() != p || w.Holders() != n {
				t.Errorf("Pack(%v, %d) = %v", p, n, w)
			}
		}
	}
	if w := Pack(Free, 0); w != 0 {
		t.Errorf("free/0 is %#x, want the zero value", uint32(w))
	}
}

func TestPackRefuses(t *testing.T) {
	tests := []struct {
		p    Phase
		n    int
		want string
	}{
		{Retained, -1, "state: no word for retained/-1"},
		{Retained, maxH + 1, "state: no word for retained/268435456"},
		{Released + 1, 0, "state: no word for phase(5)/0"},
		{16, 0, "state: no word for phase(16)/0"},
	}
	for _, tt := range tests {
		func() {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("Pack(%d, %d): panic %v, want %q", tt.p, tt.n, got, tt.want)
				}
			}()
			Pack(tt.p, tt.n)
		}()
	}
}

func TestString(t *testing.T) {
	tests := []struct {
		v    fmt.Stringer
		want string
	}{
		{Free, "free"}, {Fetching, "fetching"}, {Retained, "retained"}, {Releasing, "releasing"}, {Released, "released"},
		{Phase(5), "phase(5)"}, {Phase(255), "phase(255)"},
		{Word(0), "free/0"}, {Pack(Retained, 3), "retained/3"}, {Pack(Fetching, maxH), "fetching/268435455"},
		{Word(0xf0000007), "phase(15)/7"},
		{Nothing, "nothing"}, {Started, "started"}, {Joined, "joined"}, {Entered, "entered"}, {Next, "next"},
		{Full, "full"}, {Dead, "dead"}, {Left, "left"}, {Withdrawn, "withdrawn"}, {Ended, "ended"},
		{Granted, "granted"}, {Abandoned, "abandoned"}, {Finished, "finished"},
		{Finished + 1, "effect(13)"}, {Effect(255), "effect(255)"},
	}
	for _, tt := range tests {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%T: got %q, want %q", tt.v, got, tt.want)
		}
	}
}
