// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"testing"

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
	var holds, actions, granted, pending []int
	for i, e := range events {
		j.Add(e)
		if i%1000 != 0 {
			continue
		}
		n, m, k := 0, 0, 0
		for _, p := range j.scene.Processes {
			n += len(p.Holds)
		}
		for _, b := range j.register.books {
			k += len(b.granted)
		}
		for _, l := range j.linear.lines {
			m += len(l.actions)
		}
		n += len(j.linear.possessions) + len(j.patience.of) + len(j.overlap.conflicts)
		holds, actions, granted = append(holds, n), append(actions, m), append(granted, k)
		pending = append(pending, len(j.overlap.pending)+len(j.patience.open)+len(j.revocations.open)+len(j.scene.Faults.Recent))
	}
	for _, tt := range []struct {
		what    string
		numbers []int
		most    int
	}{
		{"holds", holds, 1000}, // whose requests are open: the generator writes many
		{"operations", actions, 5 * manyOperations},
		{"tokens", granted, 6 * memory},
		{"pending", pending, 5000},
	} {
		if most := slices.Max(tt.numbers); most > tt.most {
			t.Errorf("%s: %d", tt.what, most)
		}
	}
}
