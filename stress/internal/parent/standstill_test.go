// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stress/internal/history"
)

func TestPulse(t *testing.T) {
	const usual = BeatEvery
	for _, tt := range []struct {
		name       string
		mono, date time.Duration // that have passed since the last beat
		late       time.Duration
		says       string
	}{
		{"on time", usual, usual, 0, ""},
		{"a busy machine", usual + time.Second, usual + time.Second, 0, ""},
		{"a paused machine", usual + 3200*time.Millisecond, usual + 3200*time.Millisecond, 3200 * time.Millisecond, "the machine stood still for 3.2s"},
		{"a paused machine whose date stood still, too", usual + 2*time.Second, usual, 2 * time.Second, "the machine stood still for 2s"},
		{"a machine that slept, whose monotonic clock stood still", usual, usual + time.Hour, time.Hour, "the machine slept for 1h0m0s, or its date was changed"},
		{"a date that was put forward a little", usual, usual + time.Second/2, 0, ""},
		{"a date that was put back", usual, -time.Hour, 0, ""},
		{"a busy machine, and a date that was put forward a little", usual + 700*time.Millisecond, usual + 1400*time.Millisecond, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := history.Anchor{Mono: 1000, Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			p := newPulse(func() history.Anchor { return now })
			now.Mono += tt.mono.Nanoseconds()
			now.Wall = now.Wall.Add(tt.date)
			if late, says := p.beat(); late != tt.late || says != tt.says {
				t.Errorf("late by %v, %q; want %v, %q", late, says, tt.late, tt.says)
			}
			now.Mono += usual.Nanoseconds()
			now.Wall = now.Wall.Add(usual)
			if late, says := p.beat(); late != 0 {
				t.Errorf("and again at the next beat: %v, %q", late, says)
			}
		})
	}
}

// It looks at the clocks all the time, and tells of a standstill once.
func TestPulseWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var jump time.Duration // protected by mu
		p := newPulse(func() history.Anchor {
			mu.Lock()
			defer mu.Unlock()
			return history.Anchor{Mono: (time.Since(began) + jump).Nanoseconds(), Wall: time.Now().Add(jump)}
		})
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		var watching sync.WaitGroup
		watching.Go(func() { p.watch(ctx, func(_ time.Duration, what string) { told = append(told, what) }) })
		time.Sleep(time.Minute)
		mu.Lock()
		jump = 5 * time.Second
		mu.Unlock()
		time.Sleep(time.Minute)
		cancel()
		watching.Wait()
		if want := []string{"the machine stood still for 5s"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
