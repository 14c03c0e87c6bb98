// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/holdfast-go/holdfast/stress/internal/checks"
	"github.com/holdfast-go/holdfast/stress/internal/verdict"
)

// BenchmarkJudge judges a million events.
func BenchmarkJudge(b *testing.B) {
	h, events := generate(1, 1_000_000)
	for b.Loop() {
		if v := judged(h, events); v.Outcome != verdict.OK {
			b.Fatalf("%v: %+v", v.Outcome, v.Findings[0])
		}
	}
	b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// What the judge has in memory is bounded by what is open, however long the history is.
func TestMemoryIsBounded(t *testing.T) {
	h, events := generate(1, 50_000)
	j := New(h)
	var holds, recent, overlap, patience, revocations, linear, register int // at most
	for i, e := range events {
		j.Add(e)
		if i%1000 != 0 {
			continue
		}
		open := 0
		for _, p := range j.scene.Processes {
			open += len(p.Holds)
		}
		holds, recent = max(holds, open), max(recent, len(j.scene.Faults.Recent))
		overlap, patience, revocations = max(overlap, j.overlap.Remembers()), max(patience, j.patience.Remembers()), max(revocations, j.revocations.Remembers())
		linear, register = max(linear, j.linear.Remembers()), max(register, j.register.Remembers())
	}
	for _, tt := range []struct {
		what       string
		got, bound int
	}{
		{"holds", holds, 1000}, // whose requests are open: the generator writes many
		{"faults", recent, 100},
		{"overlap", overlap, 1000},
		{"patience", patience, 4000},
		{"revocations", revocations, 1000},
		{"linear", linear, 5*checks.ManyOperations + 1000},
		{"register", register, 6 * checks.Memory},
	} {
		if tt.got > tt.bound {
			t.Errorf("%s: %d, want at most %d", tt.what, tt.got, tt.bound)
		}
	}
}
