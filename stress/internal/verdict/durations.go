// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Durations collects durations.
type Durations struct {
	histogram *hdrhistogram.Histogram // microseconds
	most      int64
	buckets   [40]uint64
}

// NewDurations returns one that has collected none.
func NewDurations() Durations {
	return Durations{histogram: hdrhistogram.New(1, int64(24*time.Hour/time.Microsecond), 3)}
}

// Add adds a duration.
func (s *Durations) Add(d int64) {
	d = max(d, 0)
	s.most = max(s.most, d)
	us := min(d/int64(time.Microsecond), s.histogram.HighestTrackableValue())
	_ = s.histogram.RecordValue(us) // it refuses values that are too high only
	s.buckets[min(max(bits.Len64(uint64(us))-1, 0), len(s.buckets)-1)]++
}

// Sum returns the description of what was added.
func (s *Durations) Sum() Spread {
	at := func(percent float64) float64 {
		return float64(s.histogram.ValueAtQuantile(percent)) / 1e3
	}
	v := Spread{N: uint64(s.histogram.TotalCount()), Most: Milliseconds(time.Duration(s.most)), Buckets: []uint64{}}
	if v.N > 0 {
		v.Median, v.P90, v.P99 = at(50), at(90), at(99)
	}
	for i, n := range s.buckets {
		if n > 0 {
			v.Buckets = append(v.Buckets, s.buckets[len(v.Buckets):i+1]...)
		}
	}
	return v
}

// Milliseconds returns d in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
