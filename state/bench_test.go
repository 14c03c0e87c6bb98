// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

// retained returns the word of a lock that has a holder, so that a pair of an
// arrival and a departure does not end its round.
func retained(tb testing.TB) *Atomic {
	tb.Helper()
	a := new(Atomic)
	a.Apply(arrive)
	a.Apply(Word.Grant)
	if got := a.Load(); got != Pack(Retained, 1) {
		tb.Fatalf("the word is %v, want retained/1", got)
	}
	return a
}

// The ways to count one holder in and out again, from the bare machine
// instruction to what a lock does. Each returns how many races it lost.
var ways = []struct {
	name string
	make func(tb testing.TB) func() (lost int)
}{
	{"bare-cas", func(testing.TB) func() int { // two swaps without a loop
		var v atomic.Uint32
		return func() int {
			v.CompareAndSwap(0, 1)
			v.CompareAndSwap(1, 0)
			return 0
		}
	}},
	{"cas-loop", func(testing.TB) func() int { // the least that counting takes
		var v atomic.Uint32
		return func() (lost int) {
			for old := v.Load(); !v.CompareAndSwap(old, old+1); old = v.Load() {
				lost++
			}
			for old := v.Load(); !v.CompareAndSwap(old, old-1); old = v.Load() {
				lost++
			}
			return lost
		}
	}},
	{"apply", func(tb testing.TB) func() int { // what a lock does, with its gate
		a := retained(tb)
		gate := new(atomic.Bool)
		return func() int {
			_, in, lostIn := a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) })
			_, out, lostOut := a.Apply(Word.Leave)
			if in != Entered || out != Left {
				panic(in.String() + ", " + out.String())
			}
			return lostIn + lostOut
		}
	}},
	{"mutex", func(testing.TB) func() int {
		var mu sync.Mutex
		n := 0
		return func() int {
			mu.Lock()
			n++
			mu.Unlock()
			return 0
		}
	}},
}

func BenchmarkPair(b *testing.B) {
	for _, way := range ways {
		b.Run("way="+way.name, func(b *testing.B) {
			do := way.make(b)
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

// Many goroutines on one word. Besides the time per pair, of which as many as
// there are processors go on at once, it reports how many races a pair lost.
func BenchmarkPairContended(b *testing.B) {
	for _, way := range ways[1:] { // bare-cas has no loop, so its swaps would fail
		for _, goroutines := range []int{1, 2, 8, 64, 1024} {
			b.Run(fmt.Sprintf("way=%s/goroutines=%d", way.name, goroutines), func(b *testing.B) {
				do := way.make(b)
				var wg sync.WaitGroup
				var lost atomic.Int64
				start := make(chan struct{})
				for i := range goroutines {
					share := (b.N + i) / goroutines // b.N in total
					wg.Go(func() {
						<-start
						mine := 0 // so that counting is no contention
						for range share {
							mine += do()
						}
						lost.Add(int64(mine))
					})
				}
				b.ReportAllocs()
				b.ResetTimer()
				close(start)
				wg.Wait()
				b.ReportMetric(float64(lost.Load())/float64(b.N), "lost/op")
			})
		}
	}
}
