// SPDX-License-Identifier: Apache-2.0

package futures_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/futures"
)

// A result is settled once and awaited by many.
func ExampleFuture_Wait() {
	var p futures.Promise[string]
	f := p.Future()

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			v, err := f.Wait(context.Background())
			fmt.Println(v, err)
		})
	}
	p.Settle("ready", nil)
	all.Wait()
	// Output:
	// ready <nil>
	// ready <nil>
	// ready <nil>
}

// A wait that is given up returns the reason, and leaves the future as it was.
func ExampleFuture_Wait_givenUp() {
	var p futures.Promise[string]
	errHurry := errors.New("no time for this")
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, errHurry)
	defer cancel()

	_, err := p.Future().Wait(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, errHurry), p.Settled())
	// Output:
	// context deadline exceeded: no time for this
	// true true false
}

// Done is for use in a select statement.
func ExampleFuture_Done() {
	var p futures.Promise[string]
	tick := make(chan time.Time)
	go p.Settle("ready", nil)

	select {
	case <-p.Future().Done():
		v, err, _ := p.Future().Poll()
		fmt.Println(v, err)
	case <-tick:
		fmt.Println("tick")
	}
	// Output: ready <nil>
}

// A function can wait for the result in place of a goroutine.
func ExampleFuture_OnDone() {
	var p futures.Promise[int]
	called := make(chan struct{})
	p.Future().OnDone(func(v int, err error) {
		fmt.Println("settled with", v, err)
		close(called)
	})
	stop := p.Future().OnDone(func(int, error) { fmt.Println("never called") })
	fmt.Println("stopped:", stop())

	p.Settle(42, nil)
	<-called
	// Output:
	// stopped: true
	// settled with 42 <nil>
}

// The first call of Settle wins.
func ExamplePromise_Settle() {
	var p futures.Promise[string]
	fmt.Println(p.Settle("first", nil))
	fmt.Println(p.Settle("second", nil))
	v, err, ok := p.Future().Poll()
	fmt.Println(v, err, ok)
	// Output:
	// true
	// false
	// first <nil> true
}

func ExampleResolved() {
	f := futures.Resolved(0, errors.New("refused at once"))
	_, err := f.Wait(context.Background())
	fmt.Println(err)
	// Output: refused at once
}

func ExampleAll() {
	var a, b futures.Promise[string]
	all := futures.All(a.Future(), b.Future())
	b.Settle("two", nil)
	a.Settle("one", nil)
	fmt.Println(all.Wait(context.Background()))
	// Output: [one two] <nil>
}

func ExampleAny() {
	var slow, quick, broken futures.Promise[string]
	first := futures.Any(slow.Future(), quick.Future(), broken.Future())
	broken.Settle("", errors.New("broken"))
	quick.Settle("quick", nil)
	fmt.Println(first.Wait(context.Background()))
	// Output: quick <nil>
}

func ExampleMap() {
	var p futures.Promise[string]
	length := futures.Map(p.Future(), func(s string) (int, error) { return len(s), nil })
	p.Settle("holdfast", nil)
	fmt.Println(length.Wait(context.Background()))
	// Output: 8 <nil>
}

// A function that panics does not take the program with it: the panic is an error of the
// future.
func ExamplePanicError() {
	f := futures.Map(futures.Resolved(0, nil), func(n int) (int, error) { return 1 / n, nil })
	_, err := f.Wait(context.Background())
	if p, ok := errors.AsType[*futures.PanicError](err); ok {
		fmt.Println(p.Value)
	}
	// Output:
	// runtime error: integer divide by zero
}

// A promise can settle as another future does. Whatever comes first is the result.
func ExamplePromise_Follow() {
	var quick, slow futures.Promise[string]
	var answer futures.Promise[string]
	answer.Follow(slow.Future())
	answer.Follow(quick.Future())

	quick.Settle("quick", nil)
	slow.Settle("slow", nil)
	fmt.Println(answer.Future().Wait(context.Background()))
	// Output:
	// quick <nil>
}
