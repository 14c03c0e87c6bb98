// SPDX-License-Identifier: Apache-2.0

package futures

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errTest = errors.New("an error")

func TestWaitUntilSettled(t *testing.T) {
	for _, want := range []error{nil, errTest} {
		synctest.Test(t, func(t *testing.T) {
			var p Promise[int]
			const waiters = 10
			returned := 0
			results := make(chan error, waiters)
			for range waiters {
				go func() {
					v, err := p.Future().Wait(t.Context())
					if v != 7 {
						t.Errorf("got %d, want 7", v)
					}
					results <- err
				}()
			}
			synctest.Wait() // all of them wait
			select {
			case <-results:
				t.Error("a Wait returned before the future was settled")
			default:
			}
			if !p.Settle(7, want) {
				t.Error("Settle did not settle")
			}
			for returned < waiters {
				if err := <-results; err != want {
					t.Errorf("got error %v, want %v", err, want)
				}
				returned++
			}
		})
	}
}

func TestWaitGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Promise[int]
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTest)
		defer cancel()
		start := time.Now()
		patient := make(chan int)
		go func() {
			v, _ := p.Future().Wait(t.Context())
			patient <- v
		}()
		v, err := p.Future().Wait(ctx)
		if got := time.Since(start); got != time.Minute {
			t.Errorf("gave up after %v, want a minute", got)
		}
		if v != 0 || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errTest) {
			t.Errorf("got %d, %v; want 0 and both errors of the context", v, err)
		}
		p.Settle(7, nil) // the other is not disturbed
		if v := <-patient; v != 7 {
			t.Errorf("got %d, want 7", v)
		}
	})
}
