// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := Number(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		n          int
		what, want string
	}{
		{0, "lock", "0 locks"}, {1, "process", "1 process"}, {2, "process", "2 processes"}, {3, "mutex", "3 mutexes"},
		{2, "directory", "2 directories"}, {1234, "entry", "1,234 entries"},
	} {
		if got := Count(tt.n, tt.what); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestDuration(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"}, {7, "7 ns"}, {999, "999 ns"}, {1500, "1.50 µs"}, {99_940, "99.9 µs"},
		// What is rounded up to the next unit is in that unit.
		{999_499, "999 µs"}, {999_500, "1.00 ms"}, {999_600 * time.Microsecond, "1.00 s"}, {59_949 * ms, "59.9 s"}, {59_960 * ms, "1 min"},
		{59*time.Minute + 59_600*ms, "1 h"}, {9_996 * ms, "10.0 s"},
		{3_100_001, "3.10 ms"}, {23_456 * time.Microsecond, "23.5 ms"}, {234_400 * time.Microsecond, "234 ms"}, {2_670 * ms, "2.67 s"},
		{41_234 * ms, "41.2 s"}, {-2_001 * ms, "−2.00 s"},
		// What is exact has no more digits than it needs.
		{time.Microsecond, "1 µs"}, {50 * ms, "50 ms"}, {4 * time.Second, "4 s"}, {10 * time.Minute, "10 min"}, {24 * time.Hour, "24 h"},
		{10*time.Minute + 3*time.Second, "10 min 3 s"}, {12_339_600 * ms, "3 h 26 min"}, {24*time.Hour + time.Minute, "24 h 1 min"},
		{1234 * time.Hour, "1,234 h"}, {math.MinInt64, "−2,562,047 h 47 min"},
	} {
		if got := Duration(tt.d); got != tt.want {
			t.Errorf("%d: got %s, want %s", tt.d, got, tt.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for n, want := range map[int]string{0: "never", 1: "once", 2: "2 times", 1000: "1,000 times"} {
		if got := Times(n); got != want {
			t.Errorf("Times(%d) = %q, want %q", n, got, want)
		}
	}
}
