// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// retained returns a lock that its process owns, with one holder inside, and no
// ZooKeeper behind it: what enters and leaves it never gets that far.
func retained(tb testing.TB) *Lock {
	tb.Helper()
	m := &Manager{cfg: Config{Root: "/bench"}}
	l := newLock(m, "/bench/lock", KindExclusive)
	r := l.cur.Load()
	r.word.Apply(func(w state.Word) (state.Word, state.Effect) { return state.Pack(state.Retained, 1), state.Granted })
	r.trip().settleGrant()
	return l
}

func BenchmarkRetained(b *testing.B) {
	l := retained(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l.Acquire(ctx).Release()
	}
	perPair := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(perPair/bareCASPair(), "x-2CAS")
}

// bareCASPair measures two uncontended compare-and-swaps in nanoseconds: the
// best of a few runs, since anything else on the machine only adds to it.
func bareCASPair() float64 {
	const rounds, pairs = 20, 200_000
	var w atomic.Uint32
	best := time.Duration(math.MaxInt64)
	for range rounds {
		start := time.Now()
		for range pairs {
			w.CompareAndSwap(0, 1)
			w.CompareAndSwap(1, 0)
		}
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / pairs
}
