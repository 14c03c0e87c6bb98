// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// logged returns a lock with one holder, as retained does, and its manager's log.
func logged(t *testing.T) (*Lock, *records) {
	l, log := retained(t), new(records)
	l.m.cfg.Logger = slog.New(log)
	return l, log
}

// pendingIn turns the lock's round into one whose only holder is waiting.
func pendingIn(l *Lock) {
	l.cur.Load().made.Store(nil)
	setWord(l, state.Pack(state.Fetching, 1))
}

// setWord overwrites the word of l's present round, and marks the round as
// started.
func setWord(l *Lock, w state.Word) {
	r := l.cur.Load()
	r.io()
	r.word.Apply(func(state.Word) (state.Word, state.Effect) { return w, state.Nothing })
	r.flags.Set(state.Wanted)
}

// fetched returns a round with so many holders, which is about to be granted what model has.
func fetched(model Hold, holders int) *round {
	l := newLock(model.Lock().m, "/holdfast/lock", queue.Exclusive)
	setWord(l, state.Pack(state.Fetching, holders))
	r := l.cur.Load()
	r.io().tenure = model.share.promises().tenure
	return r
}

// waitForDropped collects garbage until n dropped holds of m were logged, or counted.
func waitForDropped(t *testing.T, m *Manager, log *records, n int) {
	t.Helper()
	for range 200 {
		runtime.GC()
		m.journal.drops.mu.Lock()
		got := len(log.with("dropped")) + m.journal.drops.omitted
		m.journal.drops.mu.Unlock()
		if got == n {
			return
		} else if got > n {
			break
		}
		<-time.After(5 * time.Millisecond) // the runtime runs cleanups at a time of its own
	}
	t.Errorf("%d dropped holds were logged, and %d counted, want %d together", len(log.with("dropped")), m.journal.drops.omitted, n)
}

// A hold that is dropped without a release is logged, however it was made.
func TestF080_DroppedHoldIsLogged(t *testing.T) {
	drops := []struct {
		what string
		drop func(*testing.T, *Lock)
		n    int
	}{
		{"acquired", func(t *testing.T, l *Lock) { l.Acquire(t.Context()) }, 1},
		{"acquired, with a context that can end", func(t *testing.T, l *Lock) {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			l.Acquire(ctx)
		}, 1},
		{"reentered", func(t *testing.T, l *Lock) {
			h := l.Acquire(t.Context())
			if _, err := h.reenter("reenter"); err != nil {
				t.Error(err)
			}
			h.Release()
		}, 1},
		{"reentered, both", func(t *testing.T, l *Lock) {
			if _, err := l.Acquire(t.Context()).reenter("reenter"); err != nil {
				t.Error(err)
			}
		}, 2},
		{"acquired where one was released before", func(t *testing.T, l *Lock) {
			for range 3 {
				l.Acquire(t.Context()).Release()
			}
			l.Acquire(t.Context())
		}, 1},
		{"a crowd", func(t *testing.T, l *Lock) {
			for range 3 {
				l.Acquire(t.Context())
			}
		}, 3},
		{"with a context that was not cancelled", func(t *testing.T, l *Lock) {
			ctx, cancel := l.Acquire(t.Context()).Context(t.Context())
			_, more := context.WithCancel(ctx)
			_, _ = cancel, more
		}, 1},
		{"with a future in use", func(t *testing.T, l *Lock) {
			lost := l.Acquire(t.Context()).Lost()
			t.Cleanup(func() { isClosed(lost) })
		}, 1},
		{"with a future of its own, and a channel", func(t *testing.T, l *Lock) {
			h := l.Acquire(t.Context())
			ready, told := h.Ready(), h.Contended()
			t.Cleanup(func() { ready.Poll(); isClosed(told) })
		}, 1},
	}
	for _, test := range drops {
		t.Run("held/"+test.what, func(t *testing.T) {
			l, log := logged(t)
			test.drop(t, l)
			waitForDropped(t, l.m, log, test.n)
			if lines := log.with(`lock=lock`); len(lines) != 1 {
				t.Errorf("the lock is not named once: %q", log.with(""))
			}
			runtime.KeepAlive(l)
		})
		t.Run("pending/"+test.what, func(t *testing.T) {
			l, log := logged(t)
			pendingIn(l)
			test.drop(t, l)
			// It makes no difference whether the round was granted meanwhile.
			setWord(l, state.Pack(state.Retained, l.cur.Load().word.Load().Holders()))
			waitForDropped(t, l.m, log, test.n)
			runtime.KeepAlive(l)
		})
	}
}

// Many Holds are dropped. Each lock has one line in a minute, and ten locks at most have; the
// next line counts the rest.
func TestF317_DroppedHoldsAreCounted(t *testing.T) {
	var r dropReport
	now := time.Now()
	drop := func(what string, locks, holds, lines, counted int) {
		t.Helper()
		logged, omitted := 0, 0
		for i := range holds {
			n, ok := r.allow(droppedHold{lock: fmt.Sprint(i % locks)}, now)
			if ok {
				logged++
			}
			omitted += n
			now = now.Add(time.Millisecond)
		}
		if logged != lines || omitted != counted {
			t.Errorf("%s: %d lines, which count %d more; want %d, %d", what, logged, omitted, lines, counted)
		}
	}
	drop("a thousand of one lock", 1, 1000, 1, 0)
	drop("at the same time, of another", 2, 1000, 1, 1000)
	now = now.Add(dropPause)
	drop("a minute later", 1, 1, 1, 998)
	drop("of many locks", 1000, 1000, dropLines-1, 1)
	now = now.Add(time.Hour)
	drop("an hour later", 1, 1, 1, 990)
	if _, ok := r.allow(droppedHold{"0", true}, now); !ok {
		t.Error("what another kind of line says was not logged")
	}
}

// A released hold is not logged when it is dropped, nor one of a round that is
// over, nor a refused one.
func TestReleasedHoldIsNotLogged(t *testing.T) {
	l, log := logged(t)
	func() {
		var holds []Hold
		for range 100 {
			h := l.Acquire(t.Context())
			n, err := h.reenter("reenter")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := h.Context(t.Context())
			t.Cleanup(cancel)
			_ = ctx
			holds = append(holds, h, n)
		}
		for _, h := range holds {
			h.Release()
		}
		Hold{}.Release()
		deadHold(l, &Error{Op: "acquire", Err: ErrClosed})
	}()
	over, log2 := logged(t)
	over.Acquire(t.Context())
	setWord(over, state.Pack(state.Releasing, 0))

	// A dropped hold at the end shows that the collector has run.
	for range 5 {
		runtime.GC()
	}
	l.Acquire(t.Context())
	waitForDropped(t, l.m, log, 1)
	if lines := log2.with("dropped"); len(lines) > 0 {
		t.Errorf("a hold of a round that is over was logged: %q", lines)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(over)
}

// Pending holds are dropped while their contexts end. Whichever comes first, the
// counts add up. This test is for the race detector.
func TestDroppedWhileWithdrawn(t *testing.T) {
	l, _ := logged(t)
	pendingIn(l)
	for range 20 {
		var wg sync.WaitGroup
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			l.Acquire(ctx)
			wg.Go(func() {
				cancel()
			})
		}
		wg.Go(runtime.GC)
		wg.Wait()
	}
	for range 1000 {
		if l.cur.Load().word.Load().Holders() == 1 {
			break
		}
		<-time.After(time.Millisecond) // context.AfterFunc gives no handle to wait on
	}
	wantState(t, l, state.Fetching, 1)
}
