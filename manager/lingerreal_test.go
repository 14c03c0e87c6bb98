// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Another process gets an idle lock about as soon as if it queued for a free one and then
// waited for an ordinary hand-over. The test prints the medians, which are up to the
// machine, and fails only if something waits that must not.
func TestRealLinger(t *testing.T) {
	zk := realzk.Shared(t)
	const times = 100
	a := exclusive(t, openReal(t, zk.Addr(), "a"), "jobs")
	b := exclusive(t, openReal(t, zk.Addr(), "b"), "jobs")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	measure := func(begin func(Hold) time.Time) time.Duration {
		h := mustLock(t, a)
		start := begin(h)
		next, err := b.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		mustRelease(t, next)
		return took
	}
	var free, handOver, fromIdle []time.Duration
	for range times {
		// From Lock to the grant of a lock that is free.
		start := time.Now()
		h := mustLock(t, b)
		free = append(free, time.Since(start))
		mustRelease(t, h)

		// From the Release to the grant of a process that waits.
		h = mustLock(t, a)
		next := b.Acquire(ctx)
		select {
		case <-ioOf(next).whereabouts().known().Done():
		case <-ctx.Done():
			t.Fatal("b is not queued")
		}
		start = time.Now()
		h.Release()
		if _, err := next.Granted().Wait(ctx); err != nil {
			t.Fatal(err)
		}
		handOver = append(handOver, time.Since(start))
		mustRelease(t, next)
	}
	if err := a.SetLinger(time.Hour); err != nil {
		t.Fatal(err)
	}
	for range times {
		// From the Lock of another process to its grant, while the lock is idle.
		fromIdle = append(fromIdle, measure(func(h Hold) time.Time {
			h.Release()
			<-time.After(20 * time.Millisecond) // it is watched
			return time.Now()
		}))
	}
	for _, all := range [][]time.Duration{free, handOver, fromIdle} {
		slices.Sort(all)
	}
	queued, usual, idle := free[times/2], handOver[times/2], fromIdle[times/2]
	t.Logf("medians: a free lock %v, a hand-over %v, an idle lock %v (%.2f hand-overs)", queued, usual, idle, float64(idle)/float64(usual))
	if most := 5*(queued+usual) + 20*time.Millisecond; idle > most {
		t.Errorf("an idle lock takes %v, want %v at most", idle, most)
	}
}

// BenchmarkLinger measures Lock and Unlock, and Acquire and Release, of a lock that
// lingers and that nothing else uses.
func BenchmarkLinger(b *testing.B) {
	srv := zktest.NewServer(zktest.Config{Logger: slog.New(slog.DiscardHandler)})
	defer srv.Close()
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	for _, linger := range []time.Duration{0, time.Minute} {
		m, err := Open(ctx, Config{Servers: []string{addr}, Linger: linger, SessionTimeout: 40 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		defer m.Close()
		l := exclusive(b, m, "lingers")
		b.Run("linger="+linger.String()+"/lock-unlock", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h, err := l.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
		if linger == 0 {
			continue // the releases would pile up
		}
		b.Run("linger="+linger.String()+"/acquire-release", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Acquire(ctx).Release()
			}
		})
	}
}
