// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// A script is a sequence of operations on one promise, a byte each; its
// result must be what a single goroutine would compute with a plain variable:
// settled by the first who tries, the same for everybody afterwards.
func FuzzFuture(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0})
	f.Add([]byte{1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5})
	f.Add([]byte{3, 3, 3, 13, 4, 0, 4, 5})
	rng := rand.New(rand.NewPCG(1, 2)) // the same scripts at every run
	for range 200 {
		script := make([]byte, 1+rng.IntN(40))
		for i := range script {
			script[i] = byte(rng.UintN(256))
			if i < len(script)/2 && script[i]%6 == 0 {
				script[i]++ // else most scripts begin with Settle
			}
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { runOps(t, script) })
	})
}

func runOps(t *testing.T, script []byte) {
	var p Promise[byte]
	fut := p.Future()

	// The model.
	var (
		settled bool
		val     byte
		err     error
	)
	type waiter struct {
		name  string
		calls int  // of the function, or returns of the wait
		off   bool // stopped, before the future was settled
		stop  func() bool
	}
	var waiters []*waiter
	var channel <-chan struct{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	see := func(by string, v byte, e error) {
		if v != val || e != err {
			t.Errorf("%s saw %d, %v; want %d, %v", by, v, e, val, err)
		}
	}
	for i, op := range script {
		arg := op / 6
		switch op % 6 {
		case 0: // settle
			var e error
			if arg%2 == 1 {
				e = errTest
			}
			if !settled {
				val, err = arg, e // before Settle starts those who will compare
			}
			if p.Settle(arg, e) == settled {
				t.Errorf("op %d: Settle returned %v", i, !settled)
			}
			settled = true
		case 1: // poll
			v, e, ok := fut.Poll()
			if ok != settled || p.Settled() != settled {
				t.Errorf("op %d: Poll says %v, Settled %v, want %v", i, ok, p.Settled(), settled)
			}
			if ok {
				see("Poll", v, e)
			}
		case 2: // done
			c := fut.Done()
			if channel == nil {
				channel = c
			}
			if c != channel || isClosed(c) != settled {
				t.Errorf("op %d: the same channel: %v, closed: %v, want %v", i, c == channel, isClosed(c), settled)
			}
		case 3: // register a function
			w := &waiter{name: "a function"}
			w.stop = fut.OnDone(func(v byte, e error) {
				see("OnDone", v, e)
				w.calls++
			})
			waiters = append(waiters, w)
		case 4: // stop one
			if len(waiters) == 0 {
				continue
			}
			w := waiters[int(arg)%len(waiters)]
			if w.stop == nil {
				continue // it waits
			}
			want := !settled && !w.off
			if got := w.stop(); got != want {
				t.Errorf("op %d: stop returned %v, want %v", i, got, want)
			}
			w.off = w.off || want
		case 5: // wait, for ever or not at all
			if arg%2 == 0 {
				w := &waiter{name: "a wait"}
				waiters = append(waiters, w)
				go func() {
					v, e := fut.Wait(context.Background())
					see("Wait", v, e)
					w.calls++
				}()
				continue
			}
			v, e := fut.Wait(ended)
			if settled {
				see("Wait", v, e)
			} else if v != 0 || !errors.Is(e, context.Canceled) {
				t.Errorf("op %d: a wait given up returned %d, %v", i, v, e)
			}
		}
	}
	if !settled {
		for _, w := range waiters {
			if w.calls != 0 {
				t.Errorf("%s was called before Settle", w.name)
			}
		}
		p.Settle(0, nil) // nobody may be left behind
	}
	synctest.Wait()
	for i, w := range waiters {
		want := 1
		if w.off {
			want = 0
		}
		if w.calls != want {
			t.Errorf("waiter %d (%s): %d calls, want %d", i, w.name, w.calls, want)
		}
	}
	if n := listed(fut); n != 0 {
		t.Errorf("%d callbacks left", n)
	}
}
