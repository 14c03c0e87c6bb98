// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// logged returns a lock with one holder, as retained does, and its manager's log.
func logged(t *testing.T) (*Lock, *records) {
	l, log := retained(t), new(records)
	l.m.cfg.Logger = slog.New(log)
	done := make(chan struct{})
	l.m.done = done
	t.Cleanup(func() {
		close(done) // what is pending is logged
		l.m.wg.Wait()
	})
	return l, log
}

// pendingIn turns the lock's round into one whose only holder is waiting.
func pendingIn(l *Lock) {
	setWord(l, state.Pack(state.Fetching, 1))
	l.cur.Load().made.Store(nil)
}

// setWord overwrites the word of l's present round, and marks the round as
// started.
func setWord(l *Lock, w state.Word) {
	r := l.cur.Load()
	r.word.Apply(func(state.Word) (state.Word, state.Effect) { return w, state.Nothing })
	r.flags.Set(state.Wanted)
}

// waitForDropped collects garbage until n dropped holds of l were logged, or are to be.
func waitForDropped(t *testing.T, l *Lock, log *records, n int) {
	t.Helper()
	dropped := 0
	for range 200 {
		runtime.GC()
		if dropped = droppedOf(l.m, log); dropped >= n {
			break
		}
		<-time.After(5 * time.Millisecond) // the runtime runs cleanups at a time of its own
	}
	if dropped != n {
		t.Errorf("%d dropped holds were logged, want %d", dropped, n)
	}
}

// droppedOf returns how many dropped holds were logged, or are to be.
func droppedOf(m *Manager, log *records) (n int) {
	m.drops.mu.Lock()
	defer m.drops.mu.Unlock()
	for _, d := range m.drops.pending {
		n += d.holds
	}
	for _, line := range log.with("dropped") {
		_, rest, _ := strings.Cut(line, " holds=")
		holds, _, _ := strings.Cut(rest, " ")
		logged, _ := strconv.Atoi(holds)
		n += logged
	}
	return n
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
			for range maxHomes + 2 {
				l.Acquire(t.Context())
			}
		}, maxHomes + 2},
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
			waitForDropped(t, l, log, test.n)
			runtime.KeepAlive(l)
		})
		t.Run("pending/"+test.what, func(t *testing.T) {
			l, log := logged(t)
			pendingIn(l)
			test.drop(t, l)
			// It makes no difference whether the round was granted meanwhile.
			setWord(l, state.Pack(state.Retained, l.cur.Load().word.Load().Holders()))
			waitForDropped(t, l, log, test.n)
			runtime.KeepAlive(l)
		})
	}
}

// Many Holds are dropped. The log says so in a line for each lock, or in one for all, and
// not again for a minute.
func TestF317_DroppedHoldsAreCounted(t *testing.T) {
	const line = "ERROR holdfast: a Hold was dropped without a Release: the lock stays held until the session ends "
	bubble(t, func(c *cluster) {
		m := c.open("a")
		drop := func(locks, holds int) {
			for i := range holds {
				m.drops.note(m, droppedHold{lock: fmt.Sprintf("jobs/%d", i%locks)}, "retained/7")
			}
			later(dropPause)
		}
		for _, test := range []struct {
			locks, holds int
			want         []string
		}{
			{1, 1, []string{line + "lock=jobs/0 holds=1 state=retained/7"}},
			{1, 1000, []string{line + "lock=jobs/0 holds=1000 state=retained/7"}},
			{2, 1001, []string{line + "lock=jobs/0 holds=501 state=retained/7", line + "lock=jobs/1 holds=500 state=retained/7"}},
			{lossLines + 1, 1000, []string{"ERROR holdfast: Holds were dropped without a Release: their locks stay held until the session ends locks=11 holds=1000 first=jobs/0"}},
		} {
			c.log.clear()
			drop(test.locks, test.holds)
			if lines := c.log.with("dropped"); !slices.Equal(lines, test.want) {
				c.t.Errorf("%d holds of %d locks: logged %q, want %q", test.holds, test.locks, lines, test.want)
			}
		}
		c.log.clear()
		m.drops.note(m, droppedHold{"mutexes/a", true}, "")
		later(lossMoment)
		for range 1000 {
			m.drops.note(m, droppedHold{"mutexes/a", true}, "")
			later(time.Millisecond)
		}
		mutex := "ERROR holdfast: the lock of a Mutex was lost, and its Hold was dropped without a Release: this process's goroutines wait for it for ever lock=mutexes/a holds="
		if lines := c.log.with("dropped"); len(lines) > 1 {
			c.t.Errorf("logged %d lines in a second", len(lines))
		}
		later(dropPause)
		if lines := c.log.with("dropped"); len(lines) != 2 || !strings.HasPrefix(lines[1], mutex) {
			c.t.Errorf("a minute later: logged %q", lines)
		}
		later(2 * dropPause)
		if m.drops.running {
			c.t.Error("a goroutine waits although no Hold was dropped")
		}
	})
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
	waitForDropped(t, l, log, 1)
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
