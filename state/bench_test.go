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
// instruction to what a lock does.
var pairs = []struct {
	name string
	make func(tb testing.TB) func()
}{
	// Two compare-and-swaps of a word that is never contended for: the
	// measure of all others.
	{"bare-cas", func(testing.TB) func() {
		var v stdatomic.Uint32
		return func() {
			v.CompareAndSwap(0, 1)
			v.CompareAndSwap(1, 0)
		}
	}},
	// The loop that Apply stands for, written out.
	{"hand-written", func(testing.TB) func() {
		var v atomic.Uint32
		v.Store(uint32(Pack(Retained, 1)))
		return func() {
			for {
				old := v.Load()
				if Word(old).Phase() != Retained || Word(old).Holders() == MaxHolders {
					panic("not retained")
				}
				if v.CompareAndSwap(old, old+1) {
					break
				}
			}
			for {
				old := v.Load()
				if Word(old).Phase() != Retained || Word(old).Holders() < 2 {
					panic("not retained")
				}
				if v.CompareAndSwap(old, old-1) {
					break
				}
			}
		}
	}},
	// Apply, with a gate to look at, as a lock has one.
	{"apply", func(tb testing.TB) func() {
		a := retained(tb)
		gate := new(stdatomic.Bool)
		return func() {
			if _, e, _ := a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) }); e != Entered {
				panic(e)
			}
			if _, e, _ := a.Apply(Word.Leave); e != Left {
				panic(e)
			}
		}
	}},
	{"mutex", func(testing.TB) func() {
		var mu sync.Mutex
		n := 0
		return func() {
			mu.Lock()
			n++
			mu.Unlock()
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

func BenchmarkPairParallel(b *testing.B) {
	for _, p := range pairs {
		if p.name == "bare-cas" {
			continue // it has no loop, so its swaps fail here
		}
		for _, parallelism := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("way=%s/goroutines-per-cpu=%d", p.name, parallelism), func(b *testing.B) {
				do := p.make(b)
				b.SetParallelism(parallelism)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						do()
					}
				})
			})
		}
	}
}
