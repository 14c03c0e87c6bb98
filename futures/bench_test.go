// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// A promise is made, used by one reader or none, and settled.
func BenchmarkSettle(b *testing.B) {
	for _, by := range []struct {
		name string
		use  func(f *Future[int])
	}{
		{"channel=no", func(*Future[int]) {}},
		{"channel=yes", func(f *Future[int]) { f.Done() }},
		{"callbacks=1", func(f *Future[int]) { f.register(&callback[int]{call: func(int, error) {}}) }},
	} {
		b.Run(by.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p Promise[int]
				by.use(p.Future())
				p.Settle(7, nil)
			}
		})
	}
}

// A future that is settled is read by many goroutines.
func BenchmarkSettled(b *testing.B) {
	ctx := context.Background()
	for _, channel := range []bool{false, true} {
		var p Promise[int]
		f := p.Future()
		if channel {
			f.Done()
		}
		p.Settle(7, nil)
		for _, op := range []struct {
			name string
			do   func()
		}{
			{"wait", func() { _, _ = f.Wait(ctx) }},
			{"poll", func() { _, _, _ = f.Poll() }},
			{"done", func() { f.Done() }},
		} {
			b.Run(fmt.Sprintf("op=%s/channel=%v", op.name, channel), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						op.do()
					}
				})
			})
		}
	}
}

// Two goroutines wake each other by turns: each operation settles a future that
// the other one waits for, and waits for the one that comes back.
func BenchmarkAwait(b *testing.B) {
	type ball struct{ there Promise[*ball] } // settled with the ball that comes back
	for _, by := range []struct {
		name  string
		await func(*Future[*ball]) *ball
	}{
		{"wait", func(f *Future[*ball]) *ball { next, _ := f.Wait(context.Background()); return next }},
		{"done", func(f *Future[*ball]) *ball { <-f.Done(); next, _, _ := f.Poll(); return next }},
	} {
		b.Run("by="+by.name, func(b *testing.B) {
			b.ReportAllocs()
			mine := new(ball)
			var other sync.WaitGroup
			other.Go(func() {
				for theirs := by.await(mine.there.Future()); theirs != nil; {
					back := new(ball)
					theirs.there.Settle(back, nil)
					theirs = by.await(back.there.Future())
				}
			})
			for b.Loop() {
				back := new(ball)
				mine.there.Settle(back, nil)
				mine = by.await(back.there.Future())
			}
			mine.there.Settle(nil, nil)
			other.Wait()
		})
	}
}

// From Settle until the last of many readers has its result.
func BenchmarkFanOut(b *testing.B) {
	for _, by := range []struct {
		name string
		read func(f *Future[int], all *sync.WaitGroup)
	}{
		{"wait", func(f *Future[int], all *sync.WaitGroup) {
			all.Go(func() { _, _ = f.Wait(context.Background()) })
		}},
		{"ondone", func(f *Future[int], all *sync.WaitGroup) {
			all.Add(1)
			f.OnDone(func(int, error) { all.Done() })
		}},
	} {
		for _, readers := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("by=%s/waiters=%d", by.name, readers), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var p Promise[int]
					var all sync.WaitGroup
					for range readers {
						by.read(p.Future(), &all)
					}
					p.Settle(7, nil)
					all.Wait()
				}
			})
		}
	}
}

func BenchmarkAll(b *testing.B) {
	for _, inputs := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("inputs=%d", inputs), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ps := make([]Promise[int], inputs)
				fs := make([]*Future[int], inputs)
				for i := range ps {
					fs[i] = ps[i].Future()
				}
				all := All(fs...)
				for i := range ps {
					ps[i].Settle(i, nil)
				}
				if _, err, ok := all.Poll(); err != nil || !ok {
					b.Fatal("not settled")
				}
			}
		})
	}
}
