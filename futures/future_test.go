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
}

func TestSettle(t *testing.T) {
	tests := []struct {
		name string
		make func() *Promise[int]
	}{
		{"nobody waits", func() *Promise[int] { return new(Promise[int]) }},
		{"with a channel", func() *Promise[int] {
			p := new(Promise[int])
			p.Future().Done()
			return p
		}},
		{"with callbacks", func() *Promise[int] {
			p := new(Promise[int])
			p.Future().OnDone(func(int, error) {})
			p.Future().OnDone(func(int, error) {})
			return p
		}},
	}
	for _, tt := range tests {
		for _, err := range []error{nil, errTest} {
			t.Run(fmt.Sprintf("%s, error %v", tt.name, err), func(t *testing.T) {
				p := tt.make()
				if v, err, ok := p.Future().Poll(); v != 0 || err != nil || ok || p.Settled() {
					t.Errorf("before Settle: Poll returned %v, %v, %v, Settled %v", v, err, ok, p.Settled())
				}
				if !p.Settle(7, err) {
					t.Error("the first Settle did not settle")
				}
				for range 2 {
					if p.Settle(8, errors.New("another")) {
						t.Error("a second Settle settled")
					}
				}
				if !p.Settled() {
					t.Error("Settled: got false after Settle")
				}
				check(t, p.Future(), 7, err)
				if n := listed(p.Future()); n != 0 {
					t.Errorf("%d callbacks left", n)
				}
			})
		}
	}
}

// A second settler that came too late to see that the first had won, and
// waited for it, loses too.
func TestF067_SettleBehindAnother(t *testing.T) {
	var f Future[int]
	if _, ok := f.settle(7, nil); !ok {
		t.Error("the first did not settle")
	}
	if _, ok := f.settle(8, errTest); ok {
		t.Error("the second settled")
	}
	check(t, &f, 7, nil)
}

func TestResolved(t *testing.T) {
	check(t, Resolved("x", nil), "x", nil)
	check(t, Resolved("x", errTest), "x", errTest)
}

func TestDone(t *testing.T) {
	t.Run("one channel for all, before and after", func(t *testing.T) {
		var p Promise[int]
		c := p.Future().Done()
		if isClosed(c) {
			t.Error("closed before Settle")
		}
		if p.Future().Done() != c {
			t.Error("another channel at the second call")
		}
		p.Settle(7, nil)
		if !isClosed(c) {
			t.Error("open after Settle")
		}
		if p.Future().Done() != c {
			t.Error("another channel after Settle")
		}
	})
	t.Run("the shared one where nobody had asked", func(t *testing.T) {
		var p, q Promise[int]
		p.Settle(7, nil)
		q.Settle(8, nil)
		if p.Future().Done() != q.Future().Done() || p.Future().Done() != Resolved("", nil).Done() {
			t.Error("the channels differ")
		}
	})
	// The two orders in which a channel comes too late.
	t.Run("offered after another", func(t *testing.T) {
		var f Future[int]
		c := f.Done()
		if f.offer(make(chan struct{})) != c {
			t.Error("the second channel was taken")
		}
		f.settle(7, nil)
		if !isClosed(c) {
			t.Error("open after Settle")
		}
	})
	t.Run("offered after Settle", func(t *testing.T) {
		var f Future[int]
		f.settle(7, nil)
		if !isClosed(f.offer(make(chan struct{}))) {
			t.Error("the channel will never be closed")
		}
	})
}

func TestWaitUntilSettled(t *testing.T) {
	for _, want := range []error{nil, errTest} {
		synctest.Test(t, func(t *testing.T) {
			var p Promise[int]
			const waiters = 10
			var returned atomic.Int32
			for range waiters {
				go func() {
					defer returned.Add(1)
					if v, err := p.Future().Wait(t.Context()); v != 7 || err != want {
						t.Errorf("got %v, %v; want 7, %v", v, err, want)
					}
				}()
			}
			synctest.Wait()
			if n := returned.Load(); n != 0 {
				t.Errorf("%d waits returned before Settle", n)
			}
			p.Settle(7, want)
			synctest.Wait()
			if n := returned.Load(); n != waiters {
				t.Errorf("%d waits returned, want %d", n, waiters)
			}
		})
	}
}

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
		if got := time.Since(start); got != time.Minute {
			t.Errorf("gave up after %v, want a minute", got)
		}
		if v != 0 || err != context.DeadlineExceeded {
			t.Errorf("got %v, %v; want 0, %v", v, err, context.DeadlineExceeded)
		}
		p.Settle(7, nil) // nobody else is disturbed
		if v := <-patient; v != 7 {
			t.Errorf("got %d, want 7", v)
		}
	})
}

// lateContext has ended, and settles p while Wait looks at it: when Wait comes
// to choose, the future is settled and the context has ended.
type lateContext struct {
	context.Context
	p *Promise[int]
}

func (c lateContext) Done() <-chan struct{} {
	c.p.Settle(7, nil)
	return c.Context.Done()
}

// The result goes before the end of the context, also when both come at once.
func TestWaitSettledAsContextEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // each time the runtime chooses by chance
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
	wrapped := fmt.Errorf("shutting down: %w", context.Canceled)
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

	tests := []struct {
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Promise[int]
			v, err := p.Future().Wait(tt.ctx)
			if v != 0 || err == nil || err.Error() != tt.want {
				t.Fatalf("got %v, %v; want 0, %v", v, err, tt.want)
			}
			for _, is := range tt.is {
				if !errors.Is(err, is) {
					t.Errorf("the error is not %v", is)
				}
			}
			if tt.only != nil && err != tt.only {
				t.Errorf("got %#v, want %#v itself", err, tt.only)
			}
			if p.Settled() {
				t.Error("the wait has settled the future")
			}
		})
	}
}

func TestOnDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		var calls atomic.Int32
		release := make(chan struct{})
		fn := func(v int, err error) {
			if v != 7 || err != errTest {
				t.Errorf("called with %v, %v; want 7, %v", v, err, errTest)
			}
			calls.Add(1)
			<-release // it may block: it is on a goroutine of its own
		}
		stops := []func() bool{p.Future().OnDone(fn), p.Future().OnDone(fn)}
		synctest.Wait()
		if n := calls.Load(); n != 0 {
			t.Errorf("%d calls before Settle", n)
		}
		p.Settle(7, errTest)
		stops = append(stops, p.Future().OnDone(fn)) // settled already
		synctest.Wait()
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
		for i, stop := range stops {
			if stop() {
				t.Errorf("stop %d reports that it has prevented a call that was made", i)
			}
		}
		close(release)
		synctest.Wait()
		if n := calls.Load(); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}

func TestOnDoneStop(t *testing.T) {
	const n = 4
	// Every subset is stopped, in both orders: so entries leave the list from
	// its front, its middle and its end.
	for _, backwards := range []bool{false, true} {
		for subset := range 1 << n {
			synctest.Test(t, func(t *testing.T) {
				var p Promise[int]
				var calls [n]atomic.Int32
				var stops [n]func() bool
				for i := range n {
					stops[i] = p.Future().OnDone(func(int, error) { calls[i].Add(1) })
				}
				order := []int{0, 1, 2, 3}
				if backwards {
					slices.Reverse(order)
				}
				left := n
				for _, i := range order {
					if subset>>i&1 == 0 {
						continue
					}
					if !stops[i]() {
						t.Errorf("stop %d has not prevented the call", i)
					}
					if stops[i]() {
						t.Errorf("stop %d has prevented the call twice", i)
					}
					left--
					if got := listed(p.Future()); got != left {
						t.Errorf("%d callbacks registered, want %d", got, left)
					}
				}
				p.Settle(7, nil)
				synctest.Wait()
				for i := range n {
					want := int32(1 - subset>>i&1)
					if got := calls[i].Load(); got != want {
						t.Errorf("stopped %04b: function %d called %d times, want %d", subset, i, got, want)
					}
					if stops[i]() {
						t.Errorf("stop %d has prevented a call after Settle", i)
					}
				}
			})
		}
	}
}

// A future that is never settled does not collect those who have given up.
func TestStoppedCallbacksAreForgotten(t *testing.T) {
	var p Promise[int]
	for range 1000 {
		p.Future().OnDone(func(int, error) {})()
	}
	if n := listed(p.Future()); n != 0 {
		t.Errorf("%d callbacks left", n)
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
	tests := []struct {
		name string
		do   func(f *Future[int])
		want string
	}{
		{"OnDone", func(f *Future[int]) { f.OnDone(nil) }, "futures: OnDone of a nil function"},
		{"Map", func(f *Future[int]) { Map[int, int](f, nil) }, "futures: Map of a nil function"},
	}
	for _, tt := range tests {
		func() {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("%s: panic %v, want %q", tt.name, got, tt.want)
				}
			}()
			tt.do(Resolved(7, nil))
		}()
	}
}

// A channel is made at the very moment when the future is settled. Whichever
// comes first, the channel that the caller got is closed afterwards: if not,
// the caller would wait for ever.
func TestDoneAgainstSettle(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1_000
	}
	ps := make([]Promise[int], rounds)
	cs := make([]chan struct{}, rounds)
	for i := range cs {
		cs[i] = make(chan struct{}) // beforehand: making it would take longer than Settle
	}
	delays := [2][]int{make([]int, rounds), make([]int, rounds)}
	for i := range rounds {
		delays[0][i], delays[1][i] = rand.IntN(64), rand.IntN(64)
	}
	var arrived atomic.Int64
	// meet returns to both goroutines at the same moment, give or take a few
	// steps, more of them in one round and less in another.
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

// Many goroutines settle, wait, look, register and stop at the same moment.
// One settler wins, and everybody sees its result.
func TestHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	const each = 2
	for range rounds {
		var p Promise[int]
		f := p.Future()
		var winner, wins atomic.Int64
		var called, prevented atomic.Int64
		var start, all sync.WaitGroup
		start.Add(1)
		spawn := func(fn func(i int)) {
			for i := range each {
				all.Go(func() {
					start.Wait()
					fn(i)
				})
			}
		}
		saw := make(chan int, 100)
		spawn(func(i int) { // settlers
			if p.Settle(i+1, errTest) {
				wins.Add(1)
				winner.Store(int64(i + 1))
			}
			// Whoever wins, it is settled now.
			if v, _, ok := f.Poll(); ok {
				saw <- v
			} else {
				t.Error("not settled after Settle")
			}
		})
		spawn(func(int) { // waiters
			v, err := f.Wait(t.Context())
			if err != errTest {
				t.Errorf("Wait: got error %v, want %v", err, errTest)
			}
			saw <- v
		})
		spawn(func(int) { // lookers: what is settled stays so, by all signs
			for {
				v, _, ok := f.Poll()
				if ok {
					if !isClosed(f.Done()) {
						t.Error("settled by Poll, and the channel is open")
					}
					saw <- v
					return
				}
				runtime.Gosched()
			}
		})
		spawn(func(int) { // receivers
			c := f.Done()
			<-c
			if v, _, ok := f.Poll(); ok {
				saw <- v
			} else {
				t.Error("the channel is closed, and Poll says not settled")
			}
			if f.Done() != c {
				t.Error("another channel")
			}
		})
		var callbacks sync.WaitGroup
		spawn(func(i int) { // registrars, who stop or not
			callbacks.Add(1)
			stop := f.OnDone(func(v int, _ error) {
				called.Add(1)
				saw <- v
				callbacks.Done()
			})
			if i == 0 && stop() {
				prevented.Add(1)
				callbacks.Done()
			}
		})
		start.Done()
		all.Wait()
		callbacks.Wait()
		close(saw)
		if n := wins.Load(); n != 1 {
			t.Fatalf("%d settlers won", n)
		}
		if got := called.Load() + prevented.Load(); got != each {
			t.Fatalf("%d calls and %d prevented, want %d together", called.Load(), prevented.Load(), each)
		}
		for v := range saw {
			if v != int(winner.Load()) {
				t.Fatalf("somebody saw %d, and %d won", v, winner.Load())
			}
		}
	}
}
