// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// A verdict that rests on windows which the checker has not got through shows nothing.
func TestWindowsThatAreNotJudged(t *testing.T) {
	const once = `
		p0 a: 1 request, 1.1 granted t10, 1.2 release; p1 a: 1.3 request, 1.4 granted t11, 1.5 release
		p0 m: 2 request, 2.1 granted t12.1, 2.2 release; p0 e1: 3 request, 3.1 granted t13, 3.2 release; h: 9 stopping now`
	for _, tt := range []struct {
		name string
		hard []history.Mode // the checker does not get through these
		want verdict.Outcome
		text string
	}{
		{"all are judged", nil, verdict.OK, ""},
		{"those of one lock are not", []history.Mode{history.Mutex}, verdict.Void, `none of the windows of operations on lock "m" is judged`},
		{"none are", []history.Mode{history.Exclusive, history.Mutex}, verdict.Void, "2 windows of operations are not judged, and only 0 are"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := New(header())
			j.linear.Checker = func(m porcupine.Model, all []porcupine.Operation, limit time.Duration) porcupine.CheckResult {
				if slices.Contains(tt.hard, all[0].Input.(checks.Action).Mode) {
					return porcupine.Unknown
				}
				return porcupine.CheckOperationsTimeout(m, all, limit)
			}
			j.all(script(t, once)...)
			v := j.Finish()
			if v.Outcome != tt.want || tt.text != "" && !says(v, tt.text) {
				t.Errorf("%v, want %v: %+v", v.Outcome, tt.want, v.Findings)
			}
		})
	}
}

// A lock that is forgotten, because it is one of many that are not in use any more, has been
// judged before.
func TestWindowsOfForgottenLocks(t *testing.T) {
	h := header()
	h.Locks = append(h.Locks, history.Lock{Name: "x*", Mode: history.Exclusive})
	j := New(h)
	j.linear.Checker = func(porcupine.Model, []porcupine.Operation, time.Duration) porcupine.CheckResult {
		return porcupine.Unknown
	}
	for i := range int64(2 * scene.ManyResting) {
		j.all(held(history.Event{Lock: fmt.Sprintf("x%d", i), Op: uint64(i + 1), Token: uint64(i + 1)}, (4*i+1)*ms, ms)...)
	}
	if j.decided.Found < scene.ManyResting-1 {
		t.Errorf("%d locks without a window that is judged were found, of %d that are forgotten", j.decided.Found, scene.ManyResting)
	}
}
