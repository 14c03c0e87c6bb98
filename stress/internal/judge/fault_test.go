// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/history"
	"github.com/holdfast-go/holdfast/stress/internal/scene"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// Of very many faults the verdict lists those that cost a lock, and counts them all.
func TestManyFaults(t *testing.T) {
	for _, tt := range []struct {
		faults, each int // one in each costs a lock
	}{{scene.ManyFaults / 2, 7}, {3 * scene.ManyFaults, 7}, {3 * scene.ManyFaults, 1}} {
		t.Run(fmt.Sprintf("%d, of which one in %d costs a lock", tt.faults, tt.each), func(t *testing.T) {
			h := header()
			h.Nemesis = []string{"cut-connection"}
			j := New(h)
			costly := 0
			for i := range tt.faults {
				at, op := int64(i+1)*60_000*ms, uint64(i+1)
				hold := held(history.Event{Op: op, Lock: "a", Mode: history.Exclusive, Token: op}, at, ms)
				if i%tt.each == 0 {
					costly++
					hold[2].Kind, hold = history.Lost, hold[:3]
				}
				j.all(hold[:2]...)
				for k, kind := range []history.Kind{history.FaultBegan, history.FaultEnded} {
					j.Add(history.Event{At: at + int64(k+1)*10*ms, Kind: kind, Process: history.Harness, Fault: i + 1, Text: "cut-connection", Target: "process 0", OK: true})
				}
				for _, e := range hold[2:] {
					e.At += 28 * ms
					j.Add(e)
				}
			}
			v := j.Interim()
			if n := v.FaultCount(); n != tt.faults || len(v.Faults) != 1 || v.Faults[0].Held != tt.faults || v.Faults[0].Lost != costly {
				t.Errorf("%d faults: %+v, want %d and %d lost locks", n, v.Faults, tt.faults, costly)
			}
			listed, last := 0, 0
			for _, f := range v.Injected {
				if f.Fault <= last {
					t.Fatalf("fault %d is listed after %d", f.Fault, last)
				}
				last = f.Fault
				listed += len(f.Lost)
			}
			if listed != min(costly, len(v.Injected)) || last != tt.faults || len(v.Injected) > scene.ManyFaults+scene.ManyFaults/8 {
				t.Errorf("%d faults are listed until number %d, of which %d cost a lock", len(v.Injected), last, listed)
			}
			note, want := checkOf(v, verdict.Hits).Note, ""
			if tt.faults > scene.ManyFaults {
				want = fmt.Sprintf("%d faults are counted by their kinds, but not listed one by one", tt.faults-len(v.Injected))
			}
			if !strings.HasPrefix(note, want) || want == "" && note != "" {
				t.Errorf("the note is %q, want %q", note, want)
			}
		})
	}
}
