// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"
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
				at := int64(i+1) * 60_000 * ms
				op := uint64(i + 1)
				hold := func(kind history.Kind, at int64) {
					j.Add(history.Event{At: at, Kind: kind, Op: op, Lock: "a", Mode: history.Exclusive, Token: op})
				}
				fault := history.Event{At: at + 10*ms, Kind: history.FaultBegan, Process: history.Harness, Fault: i + 1, Text: "cut-connection", Target: "process 0", OK: true}
				hold(history.Request, at)
				hold(history.Granted, at+1*ms)
				j.Add(fault)
				fault.At, fault.Kind = at+20*ms, history.FaultEnded
				j.Add(fault)
				if i%tt.each == 0 {
					costly++
					hold(history.Lost, at+30*ms)
				} else {
					hold(history.Release, at+30*ms)
					hold(history.Released, at+31*ms)
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
			i := slices.IndexFunc(v.Checks, func(c verdict.Check) bool { return c.Name == j.hits.Name })
			note := v.Checks[i].Note
			want := ""
			if tt.faults > scene.ManyFaults {
				want = fmt.Sprintf("%d faults are counted by their kinds, but not listed one by one", tt.faults-len(v.Injected))
			}
			if !strings.HasPrefix(note, want) || want == "" && note != "" {
				t.Errorf("the note is %q, want %q", note, want)
			}
		})
	}
}
