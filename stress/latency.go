// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A latencyKind says what was waited for.
type latencyKind int

const (
	// entered: Acquire found the lock held by this process.
	entered latencyKind = iota
	// waited: Acquire found it not so, and the grant came later.
	waited
	// called: Lock, TryLock and Do, which do not tell which of the two it was.
	called
	numLatencyKinds
)

func (k latencyKind) String() string {
	return [numLatencyKinds]string{"Acquire, lock held here", "Acquire, not held here", "Lock, TryLock, Do"}[k]
}

// longest is the longest wait that is told from longer ones.
const longest = 10 * time.Minute

// latency collects how long it took to get in, in nanoseconds, with three
// significant figures. All workers of a process share one: beside what they
// wait for, the wait for its mutex is nothing.
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
	// In range, so it cannot fail.
	_ = l.kinds[k].RecordValue(int64(min(max(d, 1), longest)))
}

// latencyReport is a latency on its way to the parent: by kind, encoded as
// HdrHistogram does.
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

// add adds what a process reported.
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

// latencySummary is what is said of one kind.
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
