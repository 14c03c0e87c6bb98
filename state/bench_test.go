// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"fmt"
	"sync"
	stdatomic "sync/atomic"
	"testing"

	"go.uber.org/atomic"

	. "github.com/holdfast-go/holdfast/state"
)

// retained returns a word that somebody holds, so that no pair of an arrival
// and a departure ends its round.
func retained(tb testing.TB) *Atomic {
	tb.Helper()
	a := new(Atomic)
	a.Apply(func(w Word) (Word, Effect) { return w.Arrive(false) })
	a.Apply(Word.Grant)
	if got := a.Load(); got != Pack(Retained, 1) {
		tb.Fatalf("the word is %v, want retained/1", got)
	}
	return a
}

// The ways to count one holder in and out again, from the bare machine
// instruction to what a lock does. What is made returns how many races it lost
// to other goroutines.
var pairs = []struct {
	name string
	make func(tb testing.TB) func() (lost int)
}{
	// Two compare-and-swaps of a word that is never contended for: the
	// measure of all others.
	{"bare-cas", func(testing.TB) func() int {
		var v stdatomic.Uint32
		return func() int {
			v.CompareAndSwap(0, 1)
			v.CompareAndSwap(1, 0)
			return 0
		}
	}},
	// The same as loops, for a word that is: the least that counting takes.
	{"cas-loop", func(testing.TB) func() int {
		var v stdatomic.Uint32
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
	// The loop that Apply stands for, written out.
	{"hand-written", func(testing.TB) func() int {
		var v atomic.Uint32
		v.Store(uint32(Pack(Retained, 1)))
		return func() (lost int) {
			for {
				old := v.Load()
				if Word(old).Phase() != Retained || Word(old).Holders() == MaxHolders {
					panic("not retained")
				}
				if v.CompareAndSwap(old, old+1) {
					break
				}
				lost++
			}
			for {
				old := v.Load()
				if Word(old).Phase() != Retained || Word(old).Holders() < 2 {
					panic("not retained")
				}
				if v.CompareAndSwap(old, old-1) {
					break
				}
				lost++
			}
			return lost
		}
	}},
	// Apply, with a gate to look at, as a lock has one.
	{"apply", func(tb testing.TB) func() int {
		a := retained(tb)
		gate := new(stdatomic.Bool)
		return func() int {
			_, e, lostIn := a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) })
			if e != Entered {
				panic(e)
			}
			_, e, lostOut := a.Apply(Word.Leave)
			if e != Left {
				panic(e)
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
	for _, p := range pairs {
		b.Run("way="+p.name, func(b *testing.B) {
			do := p.make(b)
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
	for _, p := range pairs {
		if p.name == "bare-cas" {
			continue // it has no loop, so its swaps fail here
		}
		for _, goroutines := range []int{1, 2, 8, 64, 1024} {
			b.Run(fmt.Sprintf("way=%s/goroutines=%d", p.name, goroutines), func(b *testing.B) {
				do := p.make(b)
				var (
					all   sync.WaitGroup
					start = make(chan struct{})
					lost  stdatomic.Int64
				)
				for i := range goroutines {
					share := (b.N + i) / goroutines // b.N in total
					all.Go(func() {
						<-start
						mine := 0 // added up apart, so that counting is no contention
						for range share {
							mine += do()
						}
						lost.Add(int64(mine))
					})
				}
				b.ReportAllocs()
				b.ResetTimer()
				close(start)
				all.Wait()
				if p.name != "mutex" { // which does not tell
					b.ReportMetric(float64(lost.Load())/float64(b.N), "lost/op")
				}
			})
		}
	}
}
