// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestLatenciesOfProcessesAreMerged(t *testing.T) {
	all := newLatency()
	for process := range 2 {
		l := newLatency()
		for i := range 100 {
			l.record(waited, time.Duration(100*process+i+1)*time.Millisecond)
		}
		l.record(entered, 0)           // no time passed
		l.record(called, 24*time.Hour) // beyond the longest
		r, err := l.report()
		if err != nil {
			t.Fatal(err)
		}
		if err := all.add(r); err != nil {
			t.Fatal(err)
		}
	}
	// A process that died reports nothing.
	if err := all.add(latencyReport{}); err != nil {
		t.Error(err)
	}
	if err := all.add(latencyReport{[]byte("nonsense")}); err == nil {
		t.Error("no error for a malformed report")
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/500 }
	for i, want := range []struct {
		count         int64
		p50, p99, max time.Duration
	}{
		entered: {2, 1, 1, 1},
		waited:  {200, 100 * time.Millisecond, 198 * time.Millisecond, 200 * time.Millisecond},
		called:  {2, longest, longest, longest},
	} {
		got := all.summary()[i]
		if got.Count != want.count || !near(got.P50, want.p50) || !near(got.P99, want.p99) || !near(got.Max, want.max) {
			t.Errorf("%s: got %+v, want %+v", got.Kind, got, want)
		}
	}
}
