// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// A hold that a caller has seen granted is not withdrawn. The grant and the check
// come between any two steps of the withdrawal, together or one after the other.
func TestF032_WithdrawalLeavesAGrantedHold(t *testing.T) {
	m := newCluster(t, zktest.Config{}).open("a", unobserved)
	model := mustLock(t, exclusive(t, m, "model"))
	defer mustRelease(t, model)

	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	const steps = 4
	outcomes := make(map[string]int)
	for grantAt := range steps + 1 {
		for lookAt := grantAt; lookAt <= steps; lookAt++ {
			t.Run(fmt.Sprintf("grant=%d/look=%d", grantAt, lookAt), func(t *testing.T) {
				r := fetched(model, 2)
				h, other := newHold(&r.share), newHold(&r.share)

				seen := errors.New("not looked")
				between := func(at int) {
					if at == grantAt {
						r.word.Apply(state.Word.Grant)
						r.io().settleGrant()
					}
					if at == lookAt {
						seen = h.Err()
					}
				}
				withdrawing := true
				all := h.withdrawal(ended).steps()
				if len(all) != steps {
					t.Fatalf("%d steps", len(all))
				}
				for i, step := range all {
					between(i)
					if withdrawing {
						withdrawing = step()
					}
				}
				between(steps)

				err := h.Err()
				expect(t, (seen == nil) == (err == nil), "first %v, then %v", seen, err)
				want := 2
				if err != nil {
					wantErr(t, "withdrawn", err, ErrReleased)
					wantErr(t, "withdrawn", err, context.Cause(ended))
					want = 1
				}
				outcomes[fmt.Sprint(err == nil)]++
				wantState(t, h.Lock(), state.Retained, want)
				h.Release()
				mustRelease(t, other)
			})
		}
	}
	expect(t, outcomes["true"] != 0 && outcomes["false"] != 0, "outcomes %v: one is missing", outcomes)
}
