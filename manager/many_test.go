// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// Locks that wait cost no goroutine: a process with 100,000 of them in their
// queues has as many as one with none.
//
// It runs on real time, since it is about the real number of goroutines.
func TestManyQueuedLocks(t *testing.T) {
	n := 100_000
	if raceEnabled {
		n = 2000 // the race detector makes it slow, and cannot have more than 8128 goroutines
	}
	if testing.Short() {
		n = 2000
	}
	c := newCluster(t, zktest.Config{})
	stranger := c.open("stranger")
	m := c.open("a", func(cfg *Config) { cfg.SessionTimeout = 40 * time.Second; cfg.Logger = slog.New(slog.DiscardHandler) })
	names := make([]string, n)
	ahead := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("many/%06d", i)
		ahead[i] = "/holdfast/" + names[i] + "/lock-0000000000"
		if err := c.srv.CreateAll("/holdfast/"+names[i], nil); err != nil {
			t.Fatal(err)
		}
		if err := c.srv.CreateEphemeral(session(stranger), ahead[i], nil); err != nil {
			t.Fatal(err)
		}
	}

	before := runtime.NumGoroutine()
	most := before
	look := func() { most = max(most, runtime.NumGoroutine()) }
	start := time.Now()
	holds := make([]Hold, n)
	for i, name := range names {
		holds[i] = exclusive(t, m, name).Acquire(t.Context())
		if i%1000 == 0 {
			look()
		}
	}
	await := func(what string, is func(Hold) bool) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for i := 0; i < n; {
			switch {
			case is(holds[i]):
				i++
			case time.Now().After(deadline):
				t.Fatalf("%s: %d of %d in time", what, i, n)
			default:
				look()
				<-time.After(time.Millisecond) // ten thousands of futures: looking is cheaper than waiting for each
			}
		}
		look()
	}
	await("queued", func(h Hold) bool { return h.round.io().position.Load() != nil })
	queued := time.Since(start)
	if got := len(c.srv.Children("/holdfast/" + names[n-1])); got != 2 {
		t.Errorf("%d contenders in the last queue, want 2", got)
	}
	perLock := float64(liveHeap()) / float64(n) // the server's share included

	start = time.Now()
	for i, path := range ahead {
		if err := c.srv.Delete(path); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			look()
		}
	}
	await("granted", func(h Hold) bool { _, _, ok := h.Granted().Poll(); return ok })
	granted := time.Since(start)
	wantErr(t, "the last", holds[n-1].Err(), nil)

	start = time.Now()
	for _, h := range holds {
		h.Release()
	}
	await("released", func(h Hold) bool { _, _, ok := h.Released().Poll(); return ok })
	for i, h := range holds {
		if err := settled(t, "release", h.Released()); err != nil {
			t.Fatalf("release of %s: %v", names[i], err)
		}
	}
	t.Logf("%d locks: queued in %v, granted in %v, released in %v; at most %d goroutines, %d with no lock; %.0f bytes a queued lock, the server's included",
		n, queued.Round(time.Millisecond), granted.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), most, before, perLock)
	// The clients and the server have started all theirs before the first lock.
	if most > before+10 {
		t.Errorf("%d goroutines, %d before the first lock", most, before)
	}
}

// All of a process's goroutines wait for one lock: they cost what they are.
func TestManyWaitersOfOneLock(t *testing.T) {
	const n = 10_000
	bubble(t, func(c *cluster) {
		a, b := c.lock("a"), c.lock("b")
		h := mustLock(c.t, b)
		c.takeCounts()
		holds := make([]Hold, n)
		before := runtime.NumGoroutine()
		for i := range holds {
			holds[i] = a.Acquire(c.t.Context())
		}
		later(time.Second)
		if got := runtime.NumGoroutine(); got > before {
			c.t.Errorf("%d goroutines, %d before", got, before)
		}
		wantState(c.t, a, state.Fetching, n)
		c.wantCounts("queued", map[verb]int{createNode: 1})
		mustRelease(c.t, h)
		later(time.Second)
		wantState(c.t, a, state.Retained, n)
		for _, h := range holds {
			h.Release()
		}
		later(time.Second)
		wantState(c.t, a, state.Free, 0)
	})
}
