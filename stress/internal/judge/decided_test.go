// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strings"
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
		1 p0 request a
		1.1 p0 granted a t10
		1.2 p0 release a
		1.3 p1 request a
		1.4 p1 granted a t11
		1.5 p1 release a
		2 p0 request m
		2.1 p0 granted m t12.1
		2.2 p0 release m
		3 p0 request e1
		3.1 p0 granted e1 t13
		3.2 p0 release e1
		9 h stopping now`
	mode := func(mode history.Mode) func([]porcupine.Operation) bool {
		return func(all []porcupine.Operation) bool { return all[0].Input.(checks.Action).Mode == mode }
	}
	for _, tt := range []struct {
		name string
		hard func([]porcupine.Operation) bool // the checker does not get through these
		want verdict.Outcome
		text string
	}{
		{"all are judged", func([]porcupine.Operation) bool { return false }, verdict.OK, ""},
		{"those of one lock are not", mode(history.Mutex), verdict.Void, `none of the windows of operations on lock "m" is judged`},
		{"none are", func([]porcupine.Operation) bool { return true }, verdict.Void, "2 windows of operations are not judged, and only 0 are"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := New(header())
			j.linear.Checker = func(m porcupine.Model, all []porcupine.Operation, limit time.Duration) porcupine.CheckResult {
				if tt.hard(all) {
					return porcupine.Unknown
				}
				return porcupine.CheckOperationsTimeout(m, all, limit)
			}
			for _, e := range script(t, once) {
				j.Add(e)
			}
			v := j.Finish()
			found := tt.text == ""
			for _, f := range v.Findings {
				found = found || strings.Contains(f.Text, tt.text)
			}
			if v.Outcome != tt.want || !found {
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
	at, op := int64(0), uint64(0)
	for i := range 2 * scene.ManyResting {
		op++
		e := history.Event{Lock: fmt.Sprintf("x%d", i), Op: op, Token: op}
		for _, kind := range []history.Kind{history.Request, history.Granted, history.Release, history.Released} {
			at += int64(time.Millisecond)
			e.At, e.Kind = at, kind
			j.Add(e)
		}
	}
	if j.decided.Found < scene.ManyResting-1 {
		t.Errorf("%d locks without a window that is judged were found, of %d that are forgotten", j.decided.Found, scene.ManyResting)
	}
}
