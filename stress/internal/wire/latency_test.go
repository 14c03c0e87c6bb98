// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"
	"time"
)

func TestLatenciesOfProcessesAreMerged(t *testing.T) {
	all := NewLatency()
	for process := range 2 {
		l := NewLatency()
		for i := range 100 {
			l.Record(Waited, time.Duration(100*process+i+1)*time.Millisecond)
		}
		l.Record(Entered, 0)           // no time passed
		l.Record(Called, 24*time.Hour) // beyond the longest
		r, err := l.Report()
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	// A process that died reports nothing.
	if err := all.Add(LatencyReport{}); err != nil {
		t.Error(err)
	}
	if err := all.Add(LatencyReport{[]byte("nonsense")}); err == nil {
		t.Error("no error for a malformed report")
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/500 }
	for i, want := range []struct {
		count         int64
		p50, p99, max time.Duration
	}{
		Entered: {2, 1, 1, 1},
		Waited:  {200, 100 * time.Millisecond, 198 * time.Millisecond, 200 * time.Millisecond},
		Called:  {2, Longest, Longest, Longest},
	} {
		got := all.Summary()[i]
		if got.Count != want.count || !near(got.P50, want.p50) || !near(got.P99, want.p99) || !near(got.Max, want.max) {
			t.Errorf("%s: got %+v, want %+v", got.Kind, got, want)
		}
	}
}
