// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		workers := []*Activity[string]{{}, {}, {}}
		var seen []string
		var watching sync.WaitGroup
		watching.Go(func() {
			Watch(ctx, workers, 10*time.Second, func(id int, op *Operation[string]) {
				seen = append(seen, fmt.Sprint(id, " ", op.What, " on ", op.Lock))
			})
		})
		workers[0].Begin("long", "a")
		workers[2].BeginFor("allowed", "a", time.Minute)
		start := time.Now()
		for time.Since(start) < 25*time.Second {
			end := workers[1].Begin("short", "a")
			time.Sleep(time.Second)
			end() // what follows is short, too
		}
		workers[0].Begin("long again", "b")
		workers[1].None()
		time.Sleep(15 * time.Second)
		cancel()
		watching.Wait()
		if got := strings.Join(seen, ", "); got != "0 long on a, 0 long again on b" {
			t.Errorf("saw %q, want each long operation once", got)
		}
	})
}

func TestStacksOfAWorker(t *testing.T) {
	hang := make(chan struct{})
	var hanging sync.WaitGroup
	began := make(chan struct{})
	for _, id := range []int{1, 11} {
		hanging.Go(func() {
			Do(t.Context(), id, func(context.Context) {
				began <- struct{}{}
				hangHere(hang)
			})
		})
		<-began
	}
	defer hanging.Wait()
	defer close(hang)
	got := StacksOf(1)
	if n := strings.Count(got, "# labels:"); n != 1 || !strings.Contains(got, "hangHere") && !strings.Contains(got, "TestStacksOfAWorker") {
		t.Errorf("%d stacks, want only that of worker 1:\n%s", n, got)
	}
	if !strings.Contains(AllStacks(), "TestStacksOfAWorker") {
		t.Error("the stacks of all goroutines lack this one's")
	}
}

func hangHere(hang <-chan struct{}) { <-hang }
