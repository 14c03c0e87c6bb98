// SPDX-License-Identifier: Apache-2.0

package zkio

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/zkio/zktest"
)

// inPool runs fn in a bubble with a pool whose gate is open.
func inPool(t *testing.T, workers int, fn func(t *testing.T, p *pool, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(workers)
		s := new(Session)
		p.gate(s, true)
		fn(t, p, s)
		p.finish()
	})
}

// block submits n tasks that run until free is called, and waits until they run
// or wait for a worker.
func block(p *pool, q Queue, n int) (free func()) {
	gate := make(chan struct{})
	for range n {
		p.submit(q, task(func(*Session) { <-gate }))
	}
	synctest.Wait()
	return sync.OnceFunc(func() { close(gate) })
}

// journal notes which tasks ran, in order.
type journal struct {
	mu  sync.Mutex
	ran []int
}

func (j *journal) task(n int) task {
	return func(*Session) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ran = append(j.ran, n)
	}
}

func (j *journal) all() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ran)
}

// TestPoolOrder: releases come before fetches, and each in the order of their
// submission.
func TestPoolOrder(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, s *Session) {
		one, others := block(p, Releases, 1), block(p, Releases, 8)
		var j journal
		for i := range 5 {
			p.submit(Fetches, j.task(10+i))
			p.submit(Releases, j.task(i))
		}
		one() // one worker does it all
		synctest.Wait()
		if got, want := j.all(), []int{0, 1, 2, 3, 4, 10, 11, 12, 13, 14}; !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
		others()
	})
}

// TestPoolReservesWorkers: fetches that hang leave eight workers to releases.
func TestPoolReservesWorkers(t *testing.T) {
	inPool(t, 12, func(t *testing.T, p *pool, s *Session) {
		wantLoad := func(fetches, releases, busy int) {
			t.Helper()
			if f, r, b := p.load(); f != fetches || r != releases || b != busy {
				t.Errorf("%d fetches and %d releases wait, %d tasks run; want %d, %d and %d", f, r, b, fetches, releases, busy)
			}
		}
		fetches := block(p, Fetches, 20)
		wantLoad(16, 0, 4)
		releases := block(p, Releases, 10)
		wantLoad(16, 2, 12)
		fetches()
		releases()
		synctest.Wait()
		wantLoad(0, 0, 0)
	})
}

// TestPoolRefetchesWait: what can wait is served after the fetches, even those that
// come later, but for every fourth turn.
func TestPoolRefetchesWait(t *testing.T) {
	for _, test := range []struct {
		what               string
		refetches, fetches int // that wait for the only worker
		want               string
	}{
		{"none wait", 0, 5, "fffff"},
		{"none come", 5, 0, "rrrrr"},
		{"one comes", 5, 1, "frrrrr"},
		{"more come than there are turns", 2, 10, "fffrfffrffff"},
		{"many wait", 6, 5, "fffrffrrrrr"},
	} {
		inPool(t, reservedWorkers+1, func(t *testing.T, p *pool, s *Session) {
			free := block(p, Fetches, 1)
			var got strings.Builder
			for range test.refetches {
				p.submit(Refetches, task(func(*Session) { got.WriteByte('r') }))
			}
			for range test.fetches {
				p.submit(Fetches, task(func(*Session) { got.WriteByte('f') }))
			}
			free()
			synctest.Wait()
			if got.String() != test.want {
				t.Errorf("%s: ran %s, want %s", test.what, got.String(), test.want)
			}
		})
	}
}

// TestPoolRefetchesLeaveWorkers: refetches that hang leave a third of the fetching
// workers to fetches; all of them together leave eight to releases.
func TestPoolRefetchesLeaveWorkers(t *testing.T) {
	for _, test := range []struct{ workers, refetches, fetches int }{
		{9, 1, 0},
		{10, 1, 1},
		{14, 4, 2},
		{32, 16, 8},
	} {
		inPool(t, test.workers, func(t *testing.T, p *pool, s *Session) {
			busy := func(want int, what string) {
				t.Helper()
				if _, _, busy := p.load(); busy != want {
					t.Errorf("of %d workers, %d are busy with %s, want %d", test.workers, busy, what, want)
				}
			}
			refetches := block(p, Refetches, 40)
			busy(test.refetches, "refetches")
			fetches := block(p, Fetches, 40)
			busy(test.refetches+test.fetches, "all fetches")
			releases := block(p, Releases, 40)
			busy(test.workers, "all tasks")
			refetches()
			fetches()
			releases()
			synctest.Wait()
			busy(0, "nothing")
		})
	}
}

// TestPoolGate: tasks wait while there is no connection, and run with the session
// that there is then.
func TestPoolGate(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, first *Session) {
		p.gate(first, false)
		var got atomic.Pointer[Session]
		for _, q := range []Queue{Fetches, Releases} {
			p.submit(q, task(func(s *Session) { got.Store(s) }))
		}
		synctest.Wait()
		if fetches, releases, busy := p.load(); fetches != 1 || releases != 1 || busy != 0 {
			t.Fatalf("%d and %d wait, %d run", fetches, releases, busy)
		}
		second := new(Session)
		p.gate(second, true)
		synctest.Wait()
		if got.Load() != second {
			t.Error("run with another session")
		}
	})
}

// TestPoolBounded: however many tasks there are, the workers are as many as
// ever.
func TestPoolBounded(t *testing.T) {
	inPool(t, 32, func(t *testing.T, p *pool, s *Session) {
		p.gate(s, false)
		var ran, now, most atomic.Int64
		before := runtime.NumGoroutine()
		count := task(func(*Session) {
			most.Store(max(most.Load(), now.Add(1)))
			runtime.Gosched()
			now.Add(-1)
			ran.Add(1)
		})
		const tasks = 100_000
		for range tasks {
			p.submit(Fetches, count)
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		p.gate(s, true)
		synctest.Wait()
		if ran.Load() != tasks || most.Load() > 24 {
			t.Errorf("%d ran, %d at a time; want %d and at most 24", ran.Load(), most.Load(), tasks)
		}
	})
}

// TestPoolDrain: no new fetches, and the releases have their turn, until a grace
// without a connection or the context ends.
func TestPoolDrain(t *testing.T) {
	for _, tt := range []struct {
		name                        string
		connect, free, grace, limit float64 // seconds until that happens; 0 is never
		took                        float64
		ran                         []int
	}{
		{"the connection comes back", 1, 3, 0, 0, 3, []int{2}},
		{"it does not", 0, 0, 1, 0, 1, nil},
		{"ctx ends", 1, 0, 0, 2, 2, []int{2}}, // the blocker goes on
	} {
		t.Run(tt.name, func(t *testing.T) {
			inPool(t, 9, func(t *testing.T, p *pool, s *Session) {
				var j journal
				free := block(p, Releases, 1)
				p.gate(s, false)
				p.submit(Fetches, j.task(1))
				p.submit(Releases, j.task(2))
				ctx, cancel := context.WithCancel(t.Context())
				grace := make(chan struct{})
				later := func(after float64, do func()) {
					if after > 0 {
						time.AfterFunc(sec(after), do)
					}
				}
				later(tt.connect, func() { p.gate(s, true) })
				later(tt.free, free)
				later(tt.grace, func() { close(grace) })
				later(tt.limit, cancel)
				began := time.Now()
				p.drain(ctx, grace)
				cancel()
				if took := time.Since(began); took != sec(tt.took) {
					t.Errorf("took %v", took)
				}
				free()
				if got := j.all(); !slices.Equal(got, tt.ran) {
					t.Errorf("ran %v, want %v", got, tt.ran)
				}
				if p.submit(Fetches, j.task(9)) || !p.submit(Releases, j.task(3)) {
					t.Error("a fetch was taken, or a release refused")
				}
				p.finish()
				if p.submit(Releases, j.task(9)) || p.submit(Fetches, j.task(9)) {
					t.Error("a task was taken at the end")
				}
				got := j.all()
				if slices.Sort(got); !slices.Equal(got, []int{1, 2, 3}) {
					t.Errorf("ran %v in the end", got)
				}
			})
		})
	}
}

func TestDelays(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, s *Session) {
		d := newDelays(p, newClock(nil))
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		note := task(func(*Session) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
		})
		for _, after := range []float64{3, 1, 2, 0, -1, 1, 5000, 6000} {
			if !d.add(nil, sec(after), Releases, note) {
				t.Error("refused")
			}
		}
		time.Sleep(10 * time.Second)
		want := []time.Duration{0, 0, 1, 1, 2, 3}
		mu.Lock()
		for i := range at {
			at[i] /= time.Second
		}
		if !slices.Equal(at, want) {
			t.Errorf("ran after %v s, want %v", at, want)
		}
		mu.Unlock()
		if d.len() != 2 {
			t.Errorf("%d wait, want 2", d.len())
		}
		p.gate(s, false)
		p.drain(t.Context(), nil) // nothing runs, so there is nothing to wait for
		fetch := d.add(nil, time.Second, Fetches, note)
		d.close()
		if fetch || d.add(nil, time.Second, Releases, note) {
			t.Error("a fetch was taken after drain, or a release after close")
		}
		p.finish()
		if mu.Lock(); len(at) != len(want)+2 {
			t.Errorf("%d ran in the end", len(at)-len(want))
		}
		mu.Unlock()
	})
}

// voidable is a task that is void when its time has come, or is not.
type voidable struct {
	task
	void bool
}

func (v voidable) Void() bool { return v.void }

// Many tasks that were delayed at once leave no memory behind.
func TestManyDelaysLeaveNothing(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, _ *Session) {
		d := newDelays(p, newClock(nil))
		for i := range 10 * delaysKeep {
			d.add(nil, time.Duration(1+i), Releases, task(func(*Session) {}))
		}
		time.Sleep(time.Second)
		if d.len() != 0 || cap(d.heap) > delaysKeep {
			t.Errorf("%d wait; memory for %d", d.len(), cap(d.heap))
		}
		d.close()
		p.finish()
	})
}

// Drop takes the owner's tasks out of those that wait, and leaves the others and their order.
func TestDelaysOfOneOwnerAreDropped(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, s *Session) {
		p.gate(s, true)
		d := newDelays(p, newClock(nil))
		owners := [3]*int{new(int), new(int), new(int)}
		var mu sync.Mutex
		var ran, want []int
		add := func(second int) {
			t.Helper()
			if !d.add(owners[second%3], time.Duration(second)*time.Second, Releases, task(func(*Session) {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, second)
			})) {
				t.Error("refused")
			}
		}
		for i := range 30 {
			add(1 + i*7%30)
		}
		time.Sleep(10500 * time.Millisecond)
		d.drop(owners[1])
		d.drop(owners[1])
		for second := 1; second <= 30; second++ {
			if second <= 10 || second%3 != 1 {
				want = append(want, second)
			}
		}
		if left := len(want) - 10; d.len() != left {
			t.Errorf("%d wait, want %d", d.len(), left)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if !slices.Equal(ran, want) || d.len() != 0 || len(d.owned) != 0 {
			t.Errorf("%v ran, want %v; %d wait", ran, want, d.len())
		}
		mu.Unlock()
		d.close()
		p.finish()
	})
}

// TestVoidTasks: what is void when its time has come is dropped; the others, and
// what is left at the end, are run.
func TestVoidTasks(t *testing.T) {
	inPool(t, 9, func(t *testing.T, p *pool, _ *Session) {
		d := newDelays(p, newClock(nil))
		var ran atomic.Int32
		count := task(func(*Session) { ran.Add(1) })
		d.add(nil, sec(1), Fetches, voidable{count, true})
		d.add(nil, sec(1), Fetches, voidable{count, false})
		d.add(nil, sec(100), Fetches, voidable{count, true})
		time.Sleep(2 * time.Second)
		if n := ran.Load(); n != 1 || d.len() != 1 {
			t.Errorf("%d ran and %d wait; want one of either", n, d.len())
		}
		d.close()
		p.finish()
		if n := ran.Load(); n != 2 {
			t.Errorf("%d ran in the end, want two", n)
		}
	})
}

// TestCloseRunsWhatIsLeft: every task that was taken is run, with a session
// that says that the client is closed.
func TestCloseRunsWhatIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, z *zktest.Server) {
		cfg := configure(z)
		cfg.Workers = 9
		c := open(t, cfg)
		s := c.Session()
		must(t, s.Create("/d", nil, nil))

		// The one worker for fetches is busy as long as there is a session.
		var late error
		c.Submit(Fetches, task(func(s *Session) { <-s.over; late = s.Sync("/d") }))
		synctest.Wait()
		var ran, live atomic.Int32
		for range 10 {
			count := task(func(s *Session) {
				ran.Add(1)
				if _, _, err := s.Get("/d"); err == nil {
					live.Add(1)
				} else if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
			if !c.Submit(Fetches, count) || !c.Submit(Releases, count) ||
				!c.SubmitAfter(time.Hour, Fetches, count) || !c.SubmitAfter(time.Hour, Releases, count) {
				t.Fatal("refused")
			}
		}
		mustClose(t, c)
		if ran.Load() != 40 || live.Load() != 10 {
			t.Errorf("%d ran, %d of them with a live session; want 40 and the 10 releases", ran.Load(), live.Load())
		}
		wantErr(t, late, ErrClosed, Closed)
		never := task(func(*Session) { t.Error("run") })
		if c.Submit(Fetches, never) || c.Submit(Releases, never) || c.SubmitAfter(1, Fetches, never) || c.SubmitAfter(0, Releases, never) {
			t.Error("a task was taken after Close")
		}
	})
}
