// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A LatencyKind is how a worker asked for a lock, and in which state.
type LatencyKind int

// The ways.
const (
	Entered  LatencyKind = iota // by Acquire, while this process held the lock
	Waited                      // by Acquire, while it did not
	Called                      // by Lock, TryLock or Do, which do not tell the two apart
	Together                    // by LockAll, several locks; other workloads have none
	numLatencyKinds
)

func (k LatencyKind) String() string {
	return [numLatencyKinds]string{"Acquire, already held", "Acquire, not yet held", "Lock, TryLock, Do", "LockAll"}[k]
}

// Longest is the longest latency that is recorded; longer ones count as this.
const Longest = 10 * time.Minute

// Latency records times from request to grant, in nanoseconds, with three
// significant figures. All workers of a process share one: compared with those
// times, waiting for its mutex takes none.
type Latency struct {
	mu    sync.Mutex
	kinds [numLatencyKinds]*hdrhistogram.Histogram // protected by mu
}

// NewLatency returns one without values.
func NewLatency() *Latency {
	l := new(Latency)
	for k := range l.kinds {
		l.kinds[k] = hdrhistogram.New(1, Longest.Nanoseconds(), 3)
	}
	return l
}

// Record adds a value.
func (l *Latency) Record(k LatencyKind, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The value is in range, so there is no error.
	_ = l.kinds[k].RecordValue(int64(min(max(d, 1), Longest)))
}

// LatencyReport is a latency as sent to the parent: by kind, in HdrHistogram's
// encoding.
type LatencyReport [numLatencyKinds][]byte

// Report returns what is sent to the parent.
func (l *Latency) Report() (r LatencyReport, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, h := range l.kinds {
		if r[k], err = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return r, fmt.Errorf("encoding latencies: %w", err)
		}
	}
	return r, nil
}

// Add adds the report of a process.
func (l *Latency) Add(r LatencyReport) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, b := range r {
		if len(b) == 0 {
			continue
		}
		h, err := hdrhistogram.Decode(b)
		if err != nil {
			return fmt.Errorf("decoding latencies: %w", err)
		}
		l.kinds[k].Merge(h)
	}
	return nil
}

// LatencySummary summarizes one kind.
type LatencySummary struct {
	Kind  string        `json:"kind"`
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Summary summarizes each kind.
func (l *Latency) Summary() []LatencySummary {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s []LatencySummary
	for k, h := range l.kinds {
		if LatencyKind(k) == Together && h.TotalCount() == 0 {
			continue
		}
		s = append(s, LatencySummary{
			Kind:  LatencyKind(k).String(),
			Count: h.TotalCount(),
			P50:   time.Duration(h.ValueAtQuantile(50)),
			P99:   time.Duration(h.ValueAtQuantile(99)),
			Max:   time.Duration(h.Max()),
		})
	}
	return s
}
