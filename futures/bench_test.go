// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// The making and settling of a promise that nobody waits for, and of one that
// somebody asked for a channel.
func BenchmarkSettle(b *testing.B) {
	b.Run("channel=no", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var p Promise[int]
			p.Settle(7, nil)
		}
	})
	b.Run("channel=yes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var p Promise[int]
			p.Future().Done()
			p.Settle(7, nil)
		}
	})
	b.Run("callbacks=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var p Promise[int]
			p.Future().register(&callback[int]{call: func(int, error) {}})
			p.Settle(7, nil)
		}
	})
}

// What is done with a future that is settled.
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

// Two goroutines that wake each other by turns: each operation is a future that
// is settled while the other one waits for it, and another one back.
func BenchmarkAwait(b *testing.B) {
	// A ball is settled with the one that is to come back.
	type ball struct{ there Promise[*ball] }
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

// From Settle until the last of many who wait has returned.
func BenchmarkFanOut(b *testing.B) {
	for _, waiters := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("by=wait/waiters=%d", waiters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p Promise[int]
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() { _, _ = p.Future().Wait(context.Background()) })
				}
				p.Settle(7, nil)
				all.Wait()
			}
		})
		b.Run(fmt.Sprintf("by=ondone/waiters=%d", waiters), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var p Promise[int]
				var all sync.WaitGroup
				all.Add(waiters)
				for range waiters {
					p.Future().OnDone(func(int, error) { all.Done() })
				}
				p.Settle(7, nil)
				all.Wait()
			}
		})
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
