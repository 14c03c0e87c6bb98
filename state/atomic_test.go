// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

func TestApply(t *testing.T) {
	var a Atomic
	steps := []struct {
		do   func(Word) (Word, Effect)
		want string // old word, effect, new word
	}{
		{columns[0].do, "free/0 started fetching/1"},
		{columns[0].do, "fetching/1 joined fetching/2"},
		{Word.Grant, "fetching/2 granted retained/2"},
		{columns[1].do, "retained/2 next retained/2"},
		{columns[0].do, "retained/2 entered retained/3"},
		{Word.Leave, "retained/3 left retained/2"},
		{Word.Leave, "retained/2 left retained/1"},
		{Word.Leave, "retained/1 ended releasing/0"},
		{Word.Leave, "releasing/0 dead releasing/0"},
		{Word.Finish, "releasing/0 finished released/0"},
		{columns[0].do, "released/0 next released/0"},
	}
	for _, s := range steps {
		old, e, lost := a.Apply(s.do)
		if got := old.String() + " " + e.String() + " " + a.Load().String(); got != s.want || lost != 0 {
			t.Errorf("got %q with %d races lost, want %q with none", got, lost, s.want)
		}
	}
}
