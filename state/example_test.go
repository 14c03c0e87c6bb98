// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast/state"
)

// The effect tells each goroutine what it must do. The word is the state after it.
func ExampleAtomic_Apply() {
	var word state.Atomic
	gateClosed := false
	arrive := func(w state.Word) (state.Word, state.Effect) { return w.Arrive(gateClosed) }

	step := func(who string, t func(state.Word) (state.Word, state.Effect)) {
		old, effect, _ := word.Apply(t)
		fmt.Printf("%-12s %-12v %-9v %v\n", who, old, effect, word.Load())
	}
	step("first", arrive)
	step("second", arrive)
	step("granter", state.Word.Grant)
	step("third", arrive)
	gateClosed = true
	step("fourth", arrive)
	step("first", state.Word.Leave)
	step("second", state.Word.Leave)
	step("third", state.Word.Leave)
	step("releaser", state.Word.Finish)
	// Output:
	// first        free/0       started   fetching/1
	// second       fetching/1   joined    fetching/2
	// granter      fetching/2   granted   retained/2
	// third        retained/2   entered   retained/3
	// fourth       retained/3   next      retained/3
	// first        retained/3   left      retained/2
	// second       retained/2   left      retained/1
	// third        retained/1   ended     releasing/0
	// releaser     releasing/0  finished  released/0
}

func ExamplePack() {
	w := state.Pack(state.Retained, 3)
	fmt.Println(w, w.Phase(), w.Holders())
	// Output: retained/3 retained 3
}
