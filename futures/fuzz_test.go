// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// The operations of a history, by letter.
const operations = "" +
	"s" + // settle
	"e" + // settle with an error
	"p" + // Poll, and Settled
	"d" + // Done
	"c" + // OnDone
	"x" + // stop a function given to OnDone
	"w" + // Wait, in a goroutine of its own
	"g" // Wait with a context that is done

// Every history of up to four operations.
func TestHistories(t *testing.T) {
	n := 0
	var run func(history string)
	run = func(history string) {
		n++
		synctest.Test(t, func(t *testing.T) { runHistory(t, history) })
		if len(history) < 4 && !t.Failed() {
			for _, op := range operations {
				run(history + string(op))
			}
		}
	}
	run("")
	t.Logf("%d histories", n)
}

// Longer ones.
func FuzzFuture(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same histories at every run
	for range 200 {
		script := make([]byte, 1+rng.IntN(40))
		for i := range script {
			script[i] = byte(rng.UintN(256))
			if i < len(script)/2 && script[i]%8 < 2 {
				script[i] += 2 // else most would begin with Settle
			}
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		var history []byte
		for _, b := range script {
			history = append(history, operations[b%8])
		}
		synctest.Test(t, func(t *testing.T) { runHistory(t, string(history)) })
	})
}

// runHistory performs operations on one promise. What they return must be what a
// single goroutine would compute with a plain variable: the first Settle counts,
// and every reader sees its result.
func runHistory(t *testing.T, history string) {
	var p Promise[int]
	f := p.Future()
	var ( // the model
		settled bool
		val     int
		err     error
	)
	type reader struct {
		calls   int // of the function, or returns of the wait
		stop    func() bool
		stopped bool
	}
	var readers []*reader
	var channel <-chan struct{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	failf := func(at int, format string, args ...any) {
		t.Helper()
		t.Errorf("%s, operation %d: "+format, append([]any{history, at}, args...)...)
	}
	see := func(at int, v int, e error) {
		if !settled || v != val || e != err {
			failf(at, "saw %d, %v; settled: %v, with %d, %v", v, e, settled, val, err)
		}
	}
	for i, op := range history {
		switch op {
		case 's', 'e':
			var e error
			if op == 'e' {
				e = errTest
			}
			was := settled
			if !was {
				settled, val, err = true, i, e // before Settle starts the readers
			}
			if p.Settle(i, e) == was {
				failf(i, "Settle returned %v", !was)
			}
		case 'p':
			v, e, ok := f.Poll()
			if ok != settled || p.Settled() != settled {
				failf(i, "Poll says %v, Settled %v, want %v", ok, p.Settled(), settled)
			}
			if ok {
				see(i, v, e)
			}
		case 'd':
			c := f.Done()
			if channel == nil {
				channel = c
			}
			if c != channel || isClosed(c) != settled {
				failf(i, "the same channel: %v, closed: %v, want %v", c == channel, isClosed(c), settled)
			}
		case 'c':
			r := new(reader)
			r.stop = f.OnDone(func(v int, e error) {
				see(i, v, e)
				r.calls++
			})
			readers = append(readers, r)
		case 'x':
			if len(readers) == 0 || readers[i%len(readers)].stop == nil {
				continue
			}
			r := readers[i%len(readers)]
			want := !settled && !r.stopped
			if got := r.stop(); got != want {
				failf(i, "stop returned %v, want %v", got, want)
			}
			r.stopped = r.stopped || want
		case 'w':
			r := new(reader)
			readers = append(readers, r)
			go func() {
				v, e := f.Wait(context.Background())
				see(i, v, e)
				r.calls++
			}()
		case 'g':
			if v, e := f.Wait(ended); settled {
				see(i, v, e)
			} else if v != 0 || !errors.Is(e, context.Canceled) {
				failf(i, "a wait given up returned %d, %v", v, e)
			}
		}
		synctest.Wait()
		registered := 0
		for j, r := range readers {
			want := 0
			if settled && !r.stopped {
				want = 1
			} else if !settled && !r.stopped && r.stop != nil {
				registered++
			}
			if r.calls != want {
				failf(i, "reader %d: %d calls, want %d", j, r.calls, want)
			}
		}
		if n := listed(f); n != registered {
			failf(i, "%d callbacks listed, want %d", n, registered)
		}
	}
	if !settled {
		settled = true
		p.Settle(0, nil) // so that no wait stays behind
	}
}
