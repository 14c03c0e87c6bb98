// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"unsafe"
)

// Taking a lock that this process owns costs no allocation, whatever the
// context.
func TestRetainedAllocatesNothing(t *testing.T) {
	l := retained(t)
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := l.Acquire(t.Context())
	defer h.Release()
	inside, cancelInside := h.Context(t.Context())
	defer cancelInside()
	for _, test := range []struct {
		what string
		do   func()
	}{
		{"acquire and release", func() { l.Acquire(context.Background()).Release() }},
		{"with a context that can end", func() { l.Acquire(cancellable).Release() }},
		{"reentering by context", func() { l.Acquire(inside).Release() }},
		{"looking", func() { l.State(); l.Stats(); h.Depth(); h.Granted().Poll(); h.Lost() }},
	} {
		// Under the race detector pools forget at random, and slots are made anew.
		want := 0.0
		if raceEnabled {
			want = 3
		}
		if n := testing.AllocsPerRun(1000, test.do); n > want {
			t.Errorf("%s: %v allocations, want %v", test.what, n, want)
		}
	}
	if s := unsafe.Sizeof(Hold{}); s > 3*unsafe.Sizeof(uint64(0)) {
		t.Errorf("a Hold has %d bytes", s)
	}
}

// BenchmarkIdleLock reports the bytes that a lock costs which nobody holds or
// wants, its entry in the manager included.
func BenchmarkIdleLock(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		m := &Manager{
			cfg:     Config{Root: "/holdfast", Logger: slog.New(slog.DiscardHandler)},
			locks:   make(map[string]entry),
			sweepAt: minSweep,
		}
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("accounts/%08d", i)
		}
		locks := make([]*Lock, n)
		before := liveHeap()
		for i, name := range names {
			l, err := m.Exclusive(name)
			if err != nil {
				b.Fatal(err)
			}
			locks[i] = l
		}
		b.ReportMetric(float64(liveHeap()-before)/n, "B/lock")
		runtime.KeepAlive(names)
		runtime.KeepAlive(locks)
		runtime.KeepAlive(m)
	}
}
