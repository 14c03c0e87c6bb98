// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// retained returns a lock that its process owns, with one holder and no ZooKeeper
// behind it, which entering and leaving the lock do not need.
func retained(tb testing.TB) *Lock {
	tb.Helper()
	m := &Manager{cfg: Config{Root: "/bench"}}
	l := newLock(m, "/bench/lock", queue.Exclusive)
	r := l.cur.Load()
	r.word.Apply(func(w state.Word) (state.Word, state.Effect) { return state.Pack(state.Retained, 1), state.Granted })
	r.io().tenure = &tenure{session: new(zkio.Session)}
	r.io().events.Raise(state.FirstLookAsked)
	r.io().settleGrant()
	return l
}

// BenchmarkRetained measures Acquire and Release of a lock that the process owns. It
// also reports their time as a multiple of two bare compare-and-swaps, and of RLock
// and RUnlock of a sync.RWMutex, measured in turns with them. Of many turns each the
// best counts, because other load on the machine can only add to a turn.
func BenchmarkRetained(b *testing.B) {
	l := retained(b)
	ctx := context.Background()
	var word atomic.Uint32

	const perTurn = 10_000
	ours, bare, rw := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	var mu sync.RWMutex
	inside := 0 // linters do not like an empty critical section
	turn := func(n int, best *time.Duration, do func()) {
		start := time.Now()
		for range n {
			do()
		}
		if n == perTurn {
			*best = min(*best, time.Since(start))
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= perTurn {
		turn(min(left, perTurn), &ours, func() { l.Acquire(ctx).Release() })
		b.StopTimer()
		turn(perTurn, &bare, func() {
			word.CompareAndSwap(0, 1)
			word.CompareAndSwap(1, 0)
		})
		turn(perTurn, &rw, func() {
			mu.RLock()
			inside++
			mu.RUnlock()
		})
		b.StartTimer()
	}
	b.StopTimer()
	if b.N >= perTurn {
		b.ReportMetric(float64(bare.Nanoseconds())/perTurn, "ns/2CAS")
		b.ReportMetric(float64(ours)/float64(bare), "x2CAS")
		b.ReportMetric(float64(ours)/float64(rw), "xRWMutex")
	}
}

// clockRead keeps the compiler from leaving out what is measured.
var clockRead time.Time

// openListening opens a manager of a server that listens on a port, not in virtual time.
func openListening(b *testing.B, with ...func(*Config)) *Manager {
	b.Helper()
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	cfg := Config{Servers: []string{addr}, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range with {
		f(&cfg)
	}
	m, err := Open(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = m.Close(), srv.Close() })
	return m
}

// BenchmarkChecked measures what programs call of a lock that the process owns: what reads the
// clock, and Do and Context, with contexts of package context to compare them with.
func BenchmarkChecked(b *testing.B) {
	ctx := context.Background()
	l := exclusive(b, openListening(b), "checked")
	h, err := l.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Release()
	nothing := func(context.Context, Hold) error { return nil }
	for _, way := range []struct {
		name string
		do   func() error
	}{
		{"now", func() error { clockRead = time.Now(); return nil }}, // to compare with
		{"err", h.Err},
		{"lock-release", func() error {
			h, err := l.Lock(ctx)
			h.Release()
			return err
		}},
		{"acquire-release", func() error { l.Acquire(ctx).Release(); return nil }},
		{"std-context", func() error { stdContext(ctx, false); return nil }},
		{"std-context-done", func() error { stdContext(ctx, true); return nil }},
		{"context", func() error {
			_, cancel := h.Context(ctx)
			cancel()
			return nil
		}},
		{"context-done", func() error {
			inside, cancel := h.Context(ctx)
			inside.Done()
			cancel()
			return nil
		}},
		{"do", func() error { return l.Do(ctx, nothing) }},
		{"do-done", func() error {
			return l.Do(ctx, func(ctx context.Context, _ Hold) error { ctx.Done(); return nil })
		}},
		{"acquire-release-after-do", func() error { l.Acquire(ctx).Release(); return nil }},
	} {
		b.Run("what="+way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := way.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// stdContext makes and ends a context with a value and a cause.
func stdContext(parent context.Context, done bool) {
	ctx, cancel := context.WithCancelCause(parent)
	ctx = context.WithValue(ctx, heldKey{}, 1)
	if done {
		ctx.Done()
	}
	cancel(nil)
}

// BenchmarkRetainedParallel measures the same from all processors at once. It also reports
// the time as a multiple of what they need to increment and decrement one bare word with
// compare-and-swap loops, and to swap a word of their own three times in between: that a
// holder enters and leaves by one shared word costs as much. Bare pairs would come in bursts,
// because the processor that has the word keeps it for several. Both are medians of many
// turns: other load on the machine can shorten a turn, too, since a goroutine that runs alone
// loses no races.
func BenchmarkRetainedParallel(b *testing.B) {
	l := retained(b)
	ctx := context.Background()
	var word atomic.Uint32
	change := func(by uint32) {
		for {
			if old := word.Load(); word.CompareAndSwap(old, old+by) {
				return
			}
		}
	}
	enter := func() func() { return func() { l.Acquire(ctx).Release() } }
	pair := func() func() {
		own := new([3 * 128]atomic.Uint32) // in lines of its own
		return func() {
			change(1)
			for i := range uint32(3) {
				own[128].CompareAndSwap(i, (i+1)%3)
			}
			change(^uint32(0))
		}
	}

	const perTurn = 20_000
	processors := runtime.GOMAXPROCS(0)
	turn := func(n int, work func() func()) time.Duration {
		var ready atomic.Int32
		var all sync.WaitGroup
		for range processors - 1 {
			all.Go(func() {
				do := work()
				for ready.Add(1); int(ready.Load()) < processors; {
					runtime.Gosched()
				}
				for range n {
					do()
				}
			})
		}
		do := work()
		for int(ready.Load()) < processors-1 {
			runtime.Gosched()
		}
		start := time.Now()
		ready.Add(1)
		for range n {
			do()
		}
		all.Wait()
		return time.Since(start)
	}
	var ours, bare []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= perTurn * processors {
		n := min((left+processors-1)/processors, perTurn)
		took := turn(n, enter)
		b.StopTimer()
		if n == perTurn {
			ours = append(ours, took)
			bare = append(bare, turn(n, pair))
		}
		b.StartTimer()
	}
	b.StopTimer()
	if len(ours) > 0 {
		slices.Sort(ours)
		slices.Sort(bare)
		o, c := ours[len(ours)/2], bare[len(bare)/2]
		b.ReportMetric(float64(c)/float64(perTurn*processors), "ns/pair")
		b.ReportMetric(float64(o)/float64(c), "xpair")
	}
}
