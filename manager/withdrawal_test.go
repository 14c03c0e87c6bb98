// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A hold that was seen to be granted is not withdrawn any more, however the
// grant, the end of its context and the look at it fall together.
func TestWithdrawalNeverTakesAGrantedHold(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	m := newCluster(t, zktest.Config{}).open("a")
	model := mustLock(t, exclusive(t, m, "model"))
	defer mustRelease(t, model)

	var kept, withdrawn int
	for i := range rounds {
		// A round of two, about to be granted.
		l := newLock(m, "/holdfast/lock", KindExclusive)
		r := l.cur.Load()
		setWord(l, state.Pack(state.Fetching, 2))
		tr := r.trip()
		tr.lease, tr.session = model.round.trip().lease, model.round.trip().session
		h, other := newHold(r), newHold(r)
		withdraw := h.withdrawal()

		var seen, err error
		var wg sync.WaitGroup
		start := make(chan struct{})
		run := func(do func()) {
			wg.Go(func() {
				<-start
				do()
			})
		}
		run(withdraw)
		run(func() {
			r.word.Apply(state.Word.Grant)
			tr.settleGrant()
		})
		run(func() { seen = h.Err() })
		close(start)
		wg.Wait()

		err = h.Err()
		if seen == nil && err != nil {
			t.Fatalf("round %d: held, and then %v", i, err)
		}
		want := 2
		if err == nil {
			kept++
		} else {
			withdrawn++
			wantErr(t, "withdrawn", err, ErrReleased)
			want = 1
		}
		wantState(t, l, state.Retained, want)
		h.Release()
		mustRelease(t, other)
	}
	t.Logf("%d kept, %d withdrawn", kept, withdrawn)
	if kept == 0 || withdrawn == 0 {
		t.Error("only one order was tried")
	}
}
