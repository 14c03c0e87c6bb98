// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// BenchmarkMutexHandOver measures how fast 32 goroutines of a process pass a lock on, with
// a little work inside and as much outside. Beside Mutex it measures a sync.Mutex, in
// which goroutines overtake each other; and a channel as a lock, which hands the lock on in
// order, as Mutex does, so that each operation waits for a goroutine to be woken.
func BenchmarkMutexHandOver(b *testing.B) {
	const goroutines = 32
	ctx := context.Background()
	x := benchMutex(b)
	var mu sync.Mutex
	ch := make(chan struct{}, 1)
	ways := []struct {
		name         string
		lock, unlock func()
	}{
		{"sync.Mutex", mu.Lock, mu.Unlock},
		{"channel", func() { ch <- struct{}{} }, func() { <-ch }},
		{"Mutex", nil, nil},
	}
	for _, work := range []time.Duration{0, time.Microsecond, 10 * time.Microsecond} {
		for _, way := range ways {
			b.Run(fmt.Sprintf("work=%v/lock=%s", work, way.name), func(b *testing.B) {
				b.ReportAllocs()
				var all sync.WaitGroup
				for i := range goroutines {
					n := (b.N + i) / goroutines
					all.Go(func() {
						for range n {
							if way.lock != nil {
								way.lock()
								spin(work)
								way.unlock()
							} else {
								h, err := x.Lock(ctx)
								if err != nil {
									b.Error(err)
									return
								}
								spin(work)
								h.Release()
							}
							spin(work)
						}
					})
				}
				all.Wait()
			})
		}
	}
}

// spin works for d.
func spin(d time.Duration) {
	if d == 0 {
		return
	}
	for start := time.Now(); time.Since(start) < d; {
	}
}

// BenchmarkMutexPair measures what a hand-over costs without a goroutine to be woken: a
// hold is released to one that waits.
func BenchmarkMutexPair(b *testing.B) {
	x := benchMutex(b)
	ctx := context.Background()
	b.ReportAllocs()
	h := x.Acquire(ctx)
	for b.Loop() {
		next := x.Acquire(ctx)
		h.Release()
		h = next
	}
	h.Release()
}

// BenchmarkMutexLinger measures Lock and Unlock of a mutex that its process keeps while it
// is idle, and that no other goroutine wants.
func BenchmarkMutexLinger(b *testing.B) {
	x := benchMutex(b)
	if err := x.SetLinger(time.Minute); err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		h, err := x.Lock(ctx)
		if err == nil {
			err = h.Unlock(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// benchMutex returns a mutex that its process owns as long as goroutines want it.
func benchMutex(b *testing.B) *Mutex {
	b.Helper()
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	b.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	m, err := Open(context.Background(), Config{Servers: []string{addr}, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	return openMutex(b, m, "handover")
}
