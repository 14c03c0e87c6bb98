// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		workers := []*worker{{id: 0}, {id: 1}, {id: 2}}
		var seen []string
		var watching sync.WaitGroup
		watching.Go(func() {
			watch(ctx, workers, 10*time.Second, func(w *worker, op *operation) { seen = append(seen, op.what) })
		})
		workers[0].activity.begin("long", nil)
		workers[2].activity.beginFor("allowed", nil, time.Minute)
		start := time.Now()
		for time.Since(start) < 25*time.Second {
			end := workers[1].activity.begin("short", nil)
			time.Sleep(time.Second)
			end() // what follows is short, too
		}
		workers[0].activity.begin("long again", nil)
		workers[1].activity.none()
		time.Sleep(15 * time.Second)
		cancel()
		watching.Wait()
		if got := strings.Join(seen, ", "); got != "long, long again" {
			t.Errorf("saw %q, want each long operation once", got)
		}
	})
}

func TestStacksOfAWorker(t *testing.T) {
	hang := make(chan struct{})
	var hanging sync.WaitGroup
	began := make(chan struct{})
	for _, id := range []string{"1", "11"} {
		hanging.Go(func() {
			pprof.Do(t.Context(), pprof.Labels(workerLabel, id), func(context.Context) {
				began <- struct{}{}
				hangHere(hang)
			})
		})
		<-began
	}
	defer hanging.Wait()
	defer close(hang)
	got := stacksOf(1)
	if n := strings.Count(got, "# labels:"); n != 1 || !strings.Contains(got, "hangHere") && !strings.Contains(got, "TestStacksOfAWorker") {
		t.Errorf("%d stacks, want only that of worker 1:\n%s", n, got)
	}
	if !strings.Contains(allStacks(), "TestStacksOfAWorker") {
		t.Error("the stacks of all goroutines lack this one's")
	}
}

func hangHere(hang <-chan struct{}) { <-hang }
