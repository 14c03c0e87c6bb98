// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A latencyKind is how a worker asked for a lock, and in which state.
type latencyKind int

const (
	entered  latencyKind = iota // by Acquire, while this process held the lock
	waited                      // by Acquire, while it did not
	called                      // by Lock, TryLock or Do, which do not tell the two apart
	together                    // by LockAll, several locks; other workloads have none
	numLatencyKinds
)

func (k latencyKind) String() string {
	return [numLatencyKinds]string{"Acquire, already held", "Acquire, not yet held", "Lock, TryLock, Do", "LockAll"}[k]
}

// longest is the longest latency that is recorded; longer ones count as this.
const longest = 10 * time.Minute

// latency records times from request to grant, in nanoseconds, with three
// significant figures. All workers of a process share one: compared with those
// times, waiting for its mutex takes none.
type latency struct {
	mu    sync.Mutex
	kinds [numLatencyKinds]*hdrhistogram.Histogram // protected by mu
}

func newLatency() *latency {
	l := new(latency)
	for k := range l.kinds {
		l.kinds[k] = hdrhistogram.New(1, longest.Nanoseconds(), 3)
	}
	return l
}

func (l *latency) record(k latencyKind, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The value is in range, so there is no error.
	_ = l.kinds[k].RecordValue(int64(min(max(d, 1), longest)))
}

// latencyReport is a latency as sent to the parent: by kind, in HdrHistogram's
// encoding.
type latencyReport [numLatencyKinds][]byte

func (l *latency) report() (r latencyReport, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, h := range l.kinds {
		if r[k], err = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err != nil {
			return r, fmt.Errorf("encoding latencies: %w", err)
		}
	}
	return r, nil
}

// add adds the report of a process.
func (l *latency) add(r latencyReport) error {
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

// latencySummary summarizes one kind.
type latencySummary struct {
	Kind  string        `json:"kind"`
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

func (l *latency) summary() []latencySummary {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s []latencySummary
	for k, h := range l.kinds {
		if latencyKind(k) == together && h.TotalCount() == 0 {
			continue
		}
		s = append(s, latencySummary{
			Kind:  latencyKind(k).String(),
			Count: h.TotalCount(),
			P50:   time.Duration(h.ValueAtQuantile(50)),
			P99:   time.Duration(h.ValueAtQuantile(99)),
			Max:   time.Duration(h.Max()),
		})
	}
	return s
}
