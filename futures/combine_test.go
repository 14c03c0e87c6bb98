// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	errA = errors.New("error a")
	errB = errors.New("error b")
	errC = errors.New("error c")
)

// poll shows a future: "-" if it is pending, else its value or its errors.
func poll[T any](f *Future[T]) string {
	v, err, ok := f.Poll()
	switch {
	case !ok:
		return "-"
	case err != nil:
		return strings.ReplaceAll(strings.ReplaceAll(err.Error(), "error ", "!"), "; ", "")
	default:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
	}
}

// A line is a history of the promises a, b and c: "b=2" settles b with 2, and
// "b!" with an error. The futures are combined at "|"; what follows that and
// every later step is what the combined future shows then.
func TestAllAndAny(t *testing.T) {
	const script = `
		all | - a=1 - b=2 - c=3 [1,2,3]
		all | - c=3 - a=1 - b=2 [1,2,3]
		all a=1 | - b=2 - c=3 [1,2,3]
		all a=1 b=2 c=3 | [1,2,3]
		all | - b! !b a=1 !b c! !b
		all | - a=1 - c! !c b! !c
		all b! | !b a=1 !b c=3 !b
		all c! | !c a=1 !c b! !c
		all b! c! | !b a! !b

		any | - b=2 2 a=1 2 c! 2
		any | - a! - b=2 2 c=3 2
		any | - c! - a! - b! !a!b!c
		any a=1 | 1 b=2 1 c! 1
		any c=3 | 3 a=1 3 b=2 3
		any b=2 c=3 | 2 a=1 2
		any a! | - b! - c=3 3
		any a! b! c! | !a!b!c
	`
	for line := range strings.Lines(strings.Trim(script, "\n\t")) {
		var ps [3]Promise[int]
		var shows func() string // set when the futures are combined
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			switch step := words[i]; {
			case step == "|":
				fs := []*Future[int]{ps[0].Future(), ps[1].Future(), ps[2].Future()}
				if words[0] == "all" {
					all := All(fs...)
					shows = func() string { return poll(all) }
				} else {
					first := Any(fs...)
					shows = func() string { return poll(first) }
				}
			case step[1] == '!':
				j := step[0] - 'a'
				ps[j].Settle(0, []error{errA, errB, errC}[j])
			default:
				v, err := strconv.Atoi(step[2:])
				if err != nil {
					t.Fatal(err)
				}
				ps[step[0]-'a'].Settle(v, nil)
			}
			if shows == nil {
				continue
			}
			i++
			if got := shows(); got != words[i] {
				t.Errorf("%s: after %s: got %s, want %s", strings.TrimSpace(line), words[i-1], got, words[i])
			}
			for j := range ps {
				if n := listed(ps[j].Future()); words[i] != "-" && n != 0 {
					t.Errorf("%s: settled, and %d callbacks left with input %d", strings.TrimSpace(line), n, j)
				}
			}
		}
	}
}

func TestCombineSpecialCases(t *testing.T) {
	if v, err, ok := All[int]().Poll(); v == nil || len(v) != 0 || err != nil || !ok {
		t.Errorf("All of none: got %#v, %v, %v; want an empty slice", v, err, ok)
	}
	if v, err, ok := Any[int]().Poll(); v != 0 || err != ErrNone || !ok {
		t.Errorf("Any of none: got %v, %v, %v; want %v", v, err, ok, ErrNone)
	}
	if _, err, _ := Any(Resolved(1, errA), Resolved(2, errB)).Poll(); !errors.Is(err, errA) || !errors.Is(err, errB) {
		t.Errorf("Any of errors: got %v, want both", err)
	}
	var p Promise[int] // given twice
	all, first := All(p.Future(), p.Future()), Any(p.Future(), p.Future())
	p.Settle(1, nil)
	if got := poll(all) + poll(first); got != "[1,1]1" {
		t.Errorf("the same future twice: got %s", got)
	}
}

func TestMap(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error // of the input, whose value is 7
		fn   func(int) (string, error)
		v    string
		want string // the error, or ""
		is   error
	}{
		{"value", nil, func(v int) (string, error) { return strconv.Itoa(v), nil }, "7", "", nil},
		{"error of the function", nil, func(int) (string, error) { return "x", errB }, "x", "error b", errB},
		{"error of the input", errA, func(int) (string, error) { t.Error("called"); return "", nil }, "", "error a", errA},
		{"panic", nil, func(int) (string, error) { panic("oh") }, "", "futures: the function given to Map panicked: oh", nil},
		{"panic with an error", nil, func(int) (string, error) { panic(errC) }, "", "futures: the function given to Map panicked: error c", errC},
		{"Goexit", nil, func(int) (string, error) { runtime.Goexit(); return "", nil }, "", ErrGoexit.Error(), ErrGoexit},
	} {
		for _, before := range []bool{false, true} {
			var p Promise[int]
			if before {
				p.Settle(7, tt.err)
			}
			m := Map(p.Future(), tt.fn)
			p.Settle(7, tt.err)
			v, err := m.Wait(t.Context())
			got := ""
			if err != nil {
				got = err.Error()
			}
			if v != tt.v || got != tt.want || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%s, settled before: %v: got %q, %q; want %q, %q", tt.name, before, v, got, tt.v, tt.want)
			}
		}
	}

	_, err := Map(Resolved(7, nil), func(int) (int, error) { panic("oh") }).Wait(t.Context())
	var pe *PanicError
	if !errors.As(err, &pe) || pe.Value != "oh" || !strings.Contains(string(pe.Stack), "TestMap") {
		t.Errorf("got %#v, want a *PanicError with the stack", err)
	}
}

// The function of Map is the user's code: it may block, and does not delay Settle.
func TestMapMayBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		release := make(chan struct{})
		m := Map(p.Future(), func(v int) (int, error) { <-release; return v + 1, nil })
		p.Settle(7, nil)
		synctest.Wait()
		before := poll(m)
		close(release)
		synctest.Wait()
		if got := poll(m); before != "-" || got != "8" {
			t.Errorf("got %s, and %s when the function has returned; want - and 8", before, got)
		}
	})
}

// No goroutine waits for the inputs of a combined future.
func TestCombineWithoutGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	ps := make([]Promise[int], 1000)
	fs := make([]*Future[int], len(ps))
	for i := range ps {
		fs[i] = ps[i].Future()
	}
	all, first, mapped := All(fs...), Any(fs...), Map(fs[0], func(v int) (int, error) { return v, nil })
	if n := runtime.NumGoroutine(); n > before { // fewer, if an earlier test's were still ending
		t.Errorf("%d goroutines, before %d", n, before)
	}
	for i := range ps {
		ps[i].Settle(i, nil)
	}
	v, err := all.Wait(t.Context())
	if err != nil || len(v) != len(ps) || v[999] != 999 || poll(first) != "0" {
		t.Errorf("got %d values, %v; first %s", len(v), err, poll(first))
	}
	if _, err := mapped.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// An input that stays pending does not accumulate callbacks of combined futures
// that are settled: waiting for "this, or the end" in a loop must not leak.
func TestCombineForgets(t *testing.T) {
	var end Promise[int]
	for i := range 1000 {
		if got := poll(Any(end.Future(), Resolved(i, nil))); got != strconv.Itoa(i) {
			t.Fatalf("got %s, want %d", got, i)
		}
		All(end.Future(), Resolved(i, errA))
	}
	if n := listed(end.Future()); n != 0 {
		t.Errorf("%d callbacks left", n)
	}
}

// One input settles the combined future while another is being registered.
func TestCombineEndsWhileRegistering(t *testing.T) {
	for range 200 {
		var quick, slow Promise[int]
		slow.f.mu.Lock() // so that the registration with slow waits
		combined := make(chan *Future[[]int])
		go func() { combined <- All(quick.Future(), slow.Future()) }()
		for listed(quick.Future()) == 0 {
			runtime.Gosched()
		}
		runtime.Gosched()
		quick.Settle(0, errA)
		slow.f.mu.Unlock()
		if got := poll(<-combined); got != "!a" {
			t.Fatalf("got %s, want !a", got)
		}
		if n := listed(slow.Future()); n != 0 {
			t.Fatalf("%d callbacks left", n)
		}
	}
}

// All inputs are settled while they are being combined.
func TestCombineHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 200
	}
	for round := range rounds {
		var ps [4]Promise[int]
		fs := make([]*Future[int], len(ps))
		for i := range ps {
			fs[i] = ps[i].Future()
		}
		errs := make([]error, len(ps))
		if round%3 == 0 {
			errs[1] = errB
		}
		var wg sync.WaitGroup
		var settled [4]bool
		for i := range ps {
			wg.Go(func() { settled[i] = ps[i].Settle(i+1, errs[i]) })
		}
		all, first := All(fs...), Any(fs...)
		vals, err := all.Wait(t.Context())
		if err != errs[1] || err == nil && fmt.Sprint(vals) != "[1 2 3 4]" {
			t.Fatalf("All: got %v, %v", vals, err)
		}
		if v, err := first.Wait(t.Context()); err != nil || v < 1 || v > 4 || v == 2 && errs[1] != nil {
			t.Fatalf("Any: got %v, %v", v, err)
		}
		wg.Wait()
		for i := range ps {
			if n := listed(fs[i]); n != 0 || !settled[i] {
				t.Fatalf("input %d: %d callbacks left; settled by its own promise: %v", i, n, settled[i])
			}
		}
	}
}
