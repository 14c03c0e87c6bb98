// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var (
	errA = errors.New("error a")
	errB = errors.New("error b")
	errC = errors.New("error c")
)

// A script settles the promises a, b and c of a combined future, one after the
// other: "b=2" settles b with the value 2, "b!" with errB. Each step is
// followed by what is to be seen of the combined future then: "-" for not
// settled, else its result.
func runScript(t *testing.T, combine func(fs ...*Future[int]) (poll func() string), script string) {
	t.Helper()
	steps := strings.Fields(script)
	// The steps before "|" are done before the futures are combined.
	var ps [3]Promise[int]
	settle := func(s string) {
		i := s[0] - 'a'
		if v, ok := strings.CutPrefix(s[1:], "="); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			ps[i].Settle(n, nil)
			return
		}
		ps[i].Settle(0, []error{errA, errB, errC}[i])
	}
	for len(steps) > 0 && steps[0] != "|" {
		settle(steps[0])
		steps = steps[1:]
	}
	poll := combine(ps[0].Future(), ps[1].Future(), ps[2].Future())
	look := func(after, want string) {
		t.Helper()
		got := poll()
		if got != want {
			t.Errorf("%s: after %s: got %q, want %q", script, after, got, want)
		}
		if got == "-" {
			return
		}
		for i := range ps {
			if n := listed(ps[i].Future()); n != 0 {
				t.Errorf("%s: after %s: settled, and %d callbacks left with input %d", script, after, n, i)
			}
		}
	}
	look("|", steps[1])
	for steps = steps[2:]; len(steps) > 0; steps = steps[2:] {
		settle(steps[0])
		look(steps[0], steps[1])
	}
}

func show[T any](f *Future[T]) string {
	v, err, ok := f.Poll()
	switch {
	case !ok:
		return "-"
	case err != nil:
		return strings.ReplaceAll(strings.ReplaceAll(err.Error(), "error ", "!"), "\n", "")
	default:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ",")
	}
}

func TestAll(t *testing.T) {
	for _, script := range []string{
		"| - a=1 - b=2 - c=3 [1,2,3]",
		"| - c=3 - a=1 - b=2 [1,2,3]",
		"a=1 | - b=2 - c=3 [1,2,3]",
		"a=1 b=2 c=3 | [1,2,3]",
		"| - b! !b a=1 !b c! !b",
		"| - a=1 - c! !c b! !c",
		"b! | !b a=1 !b c=3 !b",
		"c! | !c a=1 !c b! !c",
		"b! c! | !b a! !b",
	} {
		runScript(t, func(fs ...*Future[int]) func() string {
			all := All(fs...)
			return func() string { return show(all) }
		}, script)
	}
	if v, err, ok := All[int]().Poll(); v == nil || len(v) != 0 || err != nil || !ok {
		t.Errorf("All of none: got %#v, %v, %v; want an empty slice", v, err, ok)
	}
}

func TestAny(t *testing.T) {
	for _, script := range []string{
		"| - b=2 2 a=1 2 c! 2",
		"| - a! - b=2 2 c=3 2",
		"| - c! - a! - b! !a!b!c",
		"a=1 | 1 b=2 1 c! 1",
		"c=3 | 3 a=1 3 b=2 3",
		"b=2 c=3 | 2 a=1 2",
		"a! | - b! - c=3 3",
		"a! b! c! | !a!b!c",
	} {
		runScript(t, func(fs ...*Future[int]) func() string {
			first := Any(fs...)
			return func() string { return show(first) }
		}, script)
	}
	if v, err, ok := Any[int]().Poll(); v != 0 || err != ErrNone || !ok {
		t.Errorf("Any of none: got %v, %v, %v; want %v", v, err, ok, ErrNone)
	}
	if _, err, _ := Any(Resolved(1, errA), Resolved(2, errB)).Poll(); !errors.Is(err, errA) || !errors.Is(err, errB) {
		t.Errorf("Any of errors: got %v, want both", err)
	}
}

// The same future may be given twice.
func TestCombineTwice(t *testing.T) {
	var p Promise[int]
	all, first := All(p.Future(), p.Future()), Any(p.Future(), p.Future())
	p.Settle(1, nil)
	if got := show(all) + show(first); got != "[1,1]1" {
		t.Errorf("got %s", got)
	}
}

func TestMap(t *testing.T) {
	goexit := func(int) (string, error) { runtime.Goexit(); return "", nil }
	tests := []struct {
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
		{"Goexit", nil, goexit, "", ErrGoexit.Error(), ErrGoexit},
	}
	for _, tt := range tests {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, settled before %v", tt.name, before), func(t *testing.T) {
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
				if v != tt.v || got != tt.want {
					t.Errorf("got %q, %q; want %q, %q", v, got, tt.v, tt.want)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("the error is not %v", tt.is)
				}
			})
		}
	}
}

func TestPanicErrorStack(t *testing.T) {
	_, err := Map(Resolved(7, nil), func(int) (int, error) { panic("oh") }).Wait(t.Context())
	var pe *PanicError
	if !errors.As(err, &pe) {
		t.Fatalf("got %v, want a *PanicError", err)
	}
	if pe.Value != "oh" || !strings.Contains(string(pe.Stack), "TestPanicErrorStack") {
		t.Errorf("got value %v and stack\n%s", pe.Value, pe.Stack)
	}
}

// The function of Map is the user's code: it may block, and holds up nobody.
func TestMapDoesNotHoldUpSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		release := make(chan struct{})
		m := Map(p.Future(), func(v int) (int, error) {
			<-release
			return v + 1, nil
		})
		p.Settle(7, nil)
		synctest.Wait()
		if _, _, ok := m.Poll(); ok {
			t.Error("settled before the function has returned")
		}
		close(release)
		synctest.Wait()
		if got := show(m); got != "8" {
			t.Errorf("got %s, want 8", got)
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
	if n := runtime.NumGoroutine(); n > before { // fewer, if some of an earlier test were still ending
		t.Errorf("%d goroutines, before %d", n, before)
	}
	for i := range ps {
		ps[i].Settle(i, nil)
	}
	v, err := all.Wait(t.Context())
	if err != nil || len(v) != len(ps) || v[999] != 999 || show(first) != "0" {
		t.Errorf("got %d values, %v; first %s", len(v), err, show(first))
	}
	if _, err := mapped.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// An input that stays unsettled does not collect combined futures that others
// have settled: waiting for "this, or the end" in a loop must not leak.
func TestCombineForgets(t *testing.T) {
	var end Promise[int]
	for i := range 1000 {
		if got := show(Any(end.Future(), Resolved(i, nil))); got != strconv.Itoa(i) {
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
		slow.f.mu.Lock() // so that the registration with slow takes its time
		combined := make(chan *Future[[]int])
		go func() { combined <- All(quick.Future(), slow.Future()) }()
		for listed(quick.Future()) == 0 {
			runtime.Gosched()
		}
		runtime.Gosched()
		quick.Settle(0, errA)
		slow.f.mu.Unlock()
		if got := show(<-combined); got != "!a" {
			t.Fatalf("got %s, want !a", got)
		}
		if n := listed(slow.Future()); n != 0 {
			t.Fatalf("%d callbacks left", n)
		}
	}
}

// All inputs are settled while the futures are being combined.
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
		fail := round%3 == 0 // one of them fails
		var all sync.WaitGroup
		var settled atomic.Int32
		for i := range ps {
			all.Go(func() {
				var err error
				if fail && i == 1 {
					err = errB
				}
				if ps[i].Settle(i+1, err) {
					settled.Add(1)
				}
			})
		}
		a, y := All(fs...), Any(fs...)
		vals, err := a.Wait(t.Context())
		if fail && err != errB || !fail && (err != nil || fmt.Sprint(vals) != "[1 2 3 4]") {
			t.Fatalf("All: got %v, %v", vals, err)
		}
		if v, err := y.Wait(t.Context()); err != nil || v < 1 || v > 4 || fail && v == 2 {
			t.Fatalf("Any: got %v, %v", v, err)
		}
		all.Wait()
		for i := range ps {
			if n := listed(fs[i]); n != 0 {
				t.Fatalf("%d callbacks left with input %d", n, i)
			}
		}
		if settled.Load() != int32(len(ps)) {
			t.Fatal("a combined future has settled an input")
		}
	}
}
