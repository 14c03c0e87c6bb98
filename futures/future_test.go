// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errTest = errors.New("an error")

// isClosed reports whether c is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// listed returns how many callbacks are registered with f.
func listed[T any](f *Future[T]) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for c := f.callbacks; c != nil; c = c.next {
		n++
	}
	return n
}

// check checks that f is settled with v and err, by every method that says so.
func check[T comparable](t *testing.T, f *Future[T], v T, err error) {
	t.Helper()
	if gotV, gotErr, ok := f.Poll(); gotV != v || gotErr != err || !ok {
		t.Errorf("Poll: got %v, %v, %v; want %v, %v, true", gotV, gotErr, ok, v, err)
	}
	if !isClosed(f.Done()) {
		t.Error("Done: the channel is open")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if gotV, gotErr := f.Wait(ended); gotV != v || gotErr != err {
		t.Errorf("Wait: got %v, %v; want %v, %v", gotV, gotErr, v, err)
	}
	type result struct {
		v   T
		err error
	}
	results := make(chan result)
	f.OnDone(func(v T, err error) { results <- result{v, err} })
	if got := <-results; got != (result{v, err}) {
		t.Errorf("OnDone: got %v, %v; want %v, %v", got.v, got.err, v, err)
	}
	if n := listed(f); n != 0 {
		t.Errorf("%d callbacks left", n)
	}
}

func TestSettle(t *testing.T) {
	for _, err := range []error{nil, errTest} {
		var p Promise[int]
		if v, err, ok := p.Future().Poll(); v != 0 || err != nil || ok || p.Settled() {
			t.Errorf("before Settle: Poll returned %v, %v, %v, Settled %v", v, err, ok, p.Settled())
		}
		if !p.Settle(7, err) || p.Settle(8, errors.New("another")) || !p.Settled() {
			t.Error("the first Settle settles, and no other")
		}
		check(t, p.Future(), 7, err)
		check(t, Resolved("x", err), "x", err)
	}
}

// A second settler that came too late to see that the first had won, and waited
// for it, loses too.
func TestF067_SettleBehindAnother(t *testing.T) {
	var f Future[int]
	_, first := f.settle(7, nil)
	_, second := f.settle(8, errTest)
	if !first || second {
		t.Errorf("the first settled: %v, the second: %v", first, second)
	}
	check(t, &f, 7, nil)
}

// Done makes a channel only if the future is pending and has none.
func TestDone(t *testing.T) {
	var p, q Promise[int]
	p.Settle(7, nil)
	if q.Settle(8, nil); p.Future().Done() != q.Future().Done() || p.Future().Done() != Resolved("", nil).Done() {
		t.Error("futures that were settled before Done have different channels")
	}
	// The two orders in which the channel of a Done comes too late.
	var f Future[int]
	c := f.Done()
	if f.offer(make(chan struct{})) != c {
		t.Error("offered after another: the second channel was taken")
	}
	if f.settle(7, nil); !isClosed(c) {
		t.Error("offered after another: open after Settle")
	}
	var g Future[int]
	if g.settle(7, nil); !isClosed(g.offer(make(chan struct{}))) {
		t.Error("offered after Settle: the channel will never be closed")
	}
}

// A wait that is given up takes as long as its context, and others go on.
func TestWaitGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		patient := make(chan int)
		go func() {
			v, _ := p.Future().Wait(t.Context())
			patient <- v
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		v, err := p.Future().Wait(ctx)
		if got := time.Since(start); v != 0 || err != context.DeadlineExceeded || got != time.Minute {
			t.Errorf("got %v, %v after %v; want 0, %v after a minute", v, err, got, context.DeadlineExceeded)
		}
		p.Settle(7, nil)
		if v := <-patient; v != 7 {
			t.Errorf("got %d, want 7", v)
		}
	})
}

// lateContext is done, and settles p while Wait looks at it, so that Wait can
// choose between the future and the context.
type lateContext struct {
	context.Context
	p *Promise[int]
}

func (c lateContext) Done() <-chan struct{} {
	c.p.Settle(7, nil)
	return c.Context.Done()
}

func TestWaitPrefersTheResult(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select chooses at random
		var p Promise[int]
		if v, err := p.Future().Wait(lateContext{ended, &p}); v != 7 || err != nil {
			t.Fatalf("got %v, %v; want 7, nil", v, err)
		}
	}
}

// incomparable is an error whose values cannot be compared with ==.
type incomparable []string

func (e incomparable) Error() string { return strings.Join(e, " ") }

// endedContext is a context of the user's own making.
type endedContext struct {
	context.Context
	err error
}

func (c endedContext) Done() <-chan struct{} { return closed }
func (c endedContext) Err() error            { return c.err }

func TestWaitError(t *testing.T) {
	canceled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	expired := func(cause error) context.Context {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), cause)
		cancel()
		return ctx
	}
	child, cancel := context.WithCancel(canceled(errTest))
	defer cancel()
	wrapped := fmt.Errorf("shutting down: %w", context.Canceled)

	for _, tt := range []struct {
		name string
		ctx  context.Context
		want string
		is   []error
		only error // the error itself, if it is not a new one
	}{
		{"canceled", canceled(nil), "context canceled", nil, context.Canceled},
		{"canceled with a cause", canceled(errTest), "context canceled: an error", []error{context.Canceled, errTest}, nil},
		{"canceled through the parent", child, "context canceled: an error", []error{context.Canceled, errTest}, nil},
		{"canceled with a cause that says so", canceled(wrapped), "shutting down: context canceled", []error{context.Canceled}, wrapped},
		{"expired", expired(nil), "context deadline exceeded", nil, context.DeadlineExceeded},
		{"expired with a cause", expired(errTest), "context deadline exceeded: an error", []error{context.DeadlineExceeded, errTest}, nil},
		{"a context of another kind", endedContext{t.Context(), errTest}, "an error", nil, errTest},
		{"an error that cannot be compared", endedContext{t.Context(), incomparable{"no", "luck"}}, "no luck: no luck", nil, nil},
	} {
		var p Promise[int]
		v, err := p.Future().Wait(tt.ctx)
		if v != 0 || err == nil || err.Error() != tt.want || p.Settled() {
			t.Errorf("%s: got %v, %v, settled: %v; want 0, %v", tt.name, v, err, p.Settled(), tt.want)
			continue
		}
		for _, is := range tt.is {
			if !errors.Is(err, is) {
				t.Errorf("%s: the error is not %v", tt.name, is)
			}
		}
		if tt.only != nil && err != tt.only {
			t.Errorf("%s: got %#v, want %#v itself", tt.name, err, tt.only)
		}
	}
}

// The functions run at the same time, in goroutines of their own.
func TestOnDoneMayBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		var calls atomic.Int32
		release := make(chan struct{})
		fn := func(int, error) { calls.Add(1); <-release }
		stop := p.Future().OnDone(fn)
		p.Future().OnDone(fn)
		p.Settle(7, nil)
		p.Future().OnDone(fn) // already settled
		synctest.Wait()
		if n := calls.Load(); n != 3 || stop() {
			t.Errorf("%d calls, want 3, of which none can be stopped", n)
		}
		close(release)
	})
}

// Every subset of four functions is stopped, in both orders: so callbacks leave
// the list from its front, its middle and its end.
func TestOnDoneStop(t *testing.T) {
	const n = 4
	for subset := range 1 << n {
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}} {
			synctest.Test(t, func(t *testing.T) {
				var p Promise[int]
				var calls [n]atomic.Int32
				var stops [n]func() bool
				for i := range n {
					stops[i] = p.Future().OnDone(func(int, error) { calls[i].Add(1) })
				}
				left := n
				for _, i := range order {
					if subset>>i&1 == 0 {
						continue
					}
					left--
					if !stops[i]() || stops[i]() || listed(p.Future()) != left {
						t.Errorf("stop %d prevents the call once; %d callbacks left, want %d", i, listed(p.Future()), left)
					}
				}
				p.Settle(7, nil)
				synctest.Wait()
				for i := range n {
					if got, want := calls[i].Load(), int32(1-subset>>i&1); got != want || stops[i]() {
						t.Errorf("stopped %04b: function %d called %d times, want %d", subset, i, got, want)
					}
				}
			})
		}
	}
}

func TestF058_OnDonePanic(t *testing.T) {
	var buf bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&buf, nil)))
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		others := 0
		p.Future().OnDone(func(int, error) { panic("what a pity") })
		p.Future().OnDone(func(int, error) { others++ })
		p.Settle(7, nil)
		synctest.Wait()
		if others != 1 {
			t.Errorf("the other function was called %d times, want once", others)
		}
	})
	for _, want := range []string{"level=ERROR", "OnDone", `panic="what a pity"`, "TestF058_OnDonePanic"} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &buf)
		}
	}
}

func TestNilFunctions(t *testing.T) {
	for want, do := range map[string]func(f *Future[int]){
		"futures: OnDone of a nil function": func(f *Future[int]) { f.OnDone(nil) },
		"futures: Map of a nil function":    func(f *Future[int]) { Map[int, int](f, nil) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			do(Resolved(7, nil))
		}()
	}
}

// A promise that follows a future has its result, unless it was settled before.
func TestFollow(t *testing.T) {
	var first, late, early, settled Promise[int]
	early.Follow(first.Future())
	settled.Follow(first.Future())
	settled.Settle(1, nil)
	if early.Settled() {
		t.Error("it is settled before the future that it follows")
	}
	wrong := errors.New("wrong")
	first.Settle(7, wrong)
	late.Follow(first.Future())
	for name, p := range map[string]*Promise[int]{"followed before": &early, "followed after": &late} {
		if v, err, ok := p.Future().Poll(); v != 7 || err != wrong || !ok {
			t.Errorf("%s: %d, %v, %v; want 7 and the error", name, v, err, ok)
		}
	}
	if v, err, _ := settled.Future().Poll(); v != 1 || err != nil {
		t.Errorf("settled before: %d, %v; want 1", v, err)
	}
}

// Done makes a channel while Settle settles. In either order, the channel that
// Done returns is closed; otherwise its receiver would wait for ever.
func TestDoneAgainstSettle(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1_000
	}
	ps := make([]Promise[int], rounds)
	cs := make([]chan struct{}, rounds) // made beforehand, since that takes longer than Settle
	var delays [2][]int
	for i := range rounds {
		cs[i] = make(chan struct{})
		delays[0], delays[1] = append(delays[0], rand.IntN(64)), append(delays[1], rand.IntN(64))
	}
	// meet returns to both goroutines at the same moment, give or take a delay.
	var arrived atomic.Int64
	meet := func(i, delay int) {
		arrived.Add(1)
		for spins := 0; arrived.Load() < int64(2*(i+1)); spins++ {
			if spins > 50 {
				runtime.Gosched() // for machines with one processor
			}
		}
		for range delay {
			arrived.Load()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range ps {
			meet(i, delays[0][i])
			ps[i].Settle(i, nil)
		}
	})
	got := make([]<-chan struct{}, rounds)
	for i := range ps {
		meet(i, delays[1][i])
		got[i] = ps[i].Future().offer(cs[i])
	}
	wg.Wait()
	early := 0
	for i, c := range got {
		if !isClosed(c) {
			t.Fatalf("round %d: settled, and the channel is open", i)
		}
		if c != (<-chan struct{})(closed) {
			early++
		}
	}
	t.Logf("the channel was there before Settle in %d of %d rounds", early, rounds)
}

// Goroutines settle, wait, poll, register and stop at the same moment, two of
// each kind. One settles, and all see its result.
func TestHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	for range rounds {
		var p Promise[int]
		f := p.Future()
		var all, callbacks sync.WaitGroup
		var wins, winner, prevented atomic.Int64
		start := make(chan struct{})
		saw := make(chan int, 10) // by every goroutine, and by functions that were not stopped
		poll := func(by string) {
			v, err, ok := f.Poll()
			if !ok || err != errTest || !isClosed(f.Done()) {
				t.Errorf("after %s: Poll returned %v, %v, and the channel is closed: %v", by, err, ok, isClosed(f.Done()))
			}
			saw <- v
		}
		for i := range 2 {
			callbacks.Add(1)
			for _, fn := range []func(){
				func() {
					if p.Settle(i+1, errTest) {
						wins.Add(1)
						winner.Store(int64(i + 1))
					}
					poll("Settle") // settled now, whichever call won
				},
				func() {
					v, err := f.Wait(t.Context())
					if err != errTest {
						t.Errorf("Wait: got error %v, want %v", err, errTest)
					}
					saw <- v
				},
				func() {
					for !p.Settled() {
						runtime.Gosched()
					}
					poll("Settled")
				},
				func() {
					c := f.Done()
					<-c
					poll("Done")
					if f.Done() != c {
						t.Error("another channel")
					}
				},
				func() {
					stop := f.OnDone(func(v int, _ error) {
						saw <- v
						callbacks.Done()
					})
					if i == 0 && stop() {
						prevented.Add(1)
						callbacks.Done()
					}
				},
			} {
				all.Go(func() { <-start; fn() })
			}
		}
		close(start)
		all.Wait()
		callbacks.Wait()
		close(saw)
		var seen []int
		for v := range saw {
			seen = append(seen, v)
		}
		want := slices.Repeat([]int{int(winner.Load())}, 10-int(prevented.Load()))
		if wins.Load() != 1 || !slices.Equal(seen, want) {
			t.Fatalf("%d settlers won; seen: %v, want %v", wins.Load(), seen, want)
		}
	}
}
