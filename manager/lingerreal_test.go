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

// Another process gets an idle lock within three times the median of an ordinary
// hand-over. The test prints both medians, which are up to the machine.
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
	var handOver, fromIdle []time.Duration
	for range times {
		// From the Release to the grant of a process that waits.
		h := mustLock(t, a)
		next := b.Acquire(ctx)
		select {
		case <-next.round.io().positionKnown().Done():
		case <-ctx.Done():
			t.Fatal("b is not queued")
		}
		start := time.Now()
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
			<-time.After(5 * time.Millisecond) // it is watched
			return time.Now()
		}))
	}
	slices.Sort(handOver)
	slices.Sort(fromIdle)
	usual, idle := handOver[times/2], fromIdle[times/2]
	t.Logf("hand-over: median %v; from Lock to the grant of an idle lock: median %v, %.2f times", usual, idle, float64(idle)/float64(usual))
	if idle > 3*usual {
		t.Errorf("an idle lock takes %v, more than three times a hand-over (%v)", idle, usual)
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
