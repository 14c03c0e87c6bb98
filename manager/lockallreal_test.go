// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/realzk"
)

var lockAllFor = flag.Duration("lockall", 3*time.Second, "how long TestRealLockAll keeps its processes busy")

// insiders counts who is inside the locks, by the processes' own words.
type insiders struct {
	mu sync.Mutex
	in map[string]map[string]int // holders, by lock and process
}

// enter notes that a holder of the process is inside the locks. It returns the first lock
// in which another process is.
func (i *insiders) enter(process string, locks []string) (conflict string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range locks {
		if i.in[l] == nil {
			i.in[l] = make(map[string]int)
		}
		i.in[l][process]++
		if len(i.in[l]) > 1 {
			conflict = fmt.Sprintf("%s: %v", l, i.in[l])
		}
	}
	return conflict
}

func (i *insiders) leave(process string, locks []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range locks {
		if i.in[l][process]--; i.in[l][process] == 0 {
			delete(i.in[l], process)
		}
	}
}

// Four processes acquire random subsets of ten locks together, on a real server, beside
// callers in each of them that nest two single locks. No call waits for ever, and when a
// process has a subset, no other is inside one of its locks.
func TestRealLockAll(t *testing.T) {
	t.Parallel()
	zk := realzk.Shared(t)
	const processes, names = 4, 10
	var (
		inside  = &insiders{in: make(map[string]map[string]int)}
		stop    atomic.Bool
		workers sync.WaitGroup
		groups  atomic.Int64
		nested  atomic.Int64
		longest atomic.Int64
	)
	root := fmt.Sprintf("/lockall-%d", time.Now().UnixNano())
	work := func(process string, began time.Time, count *atomic.Int64, names []string, hs Holds) {
		if wait := int64(time.Since(began)); count == &groups {
			for old := longest.Load(); wait > old && !longest.CompareAndSwap(old, wait); old = longest.Load() {
			}
		}
		if err := hs.Err(); err != nil {
			if !errors.Is(err, ErrLost) { // the machine may be slow
				t.Errorf("%s: %v", process, err)
			}
			hs.Release()
			return
		}
		conflict := inside.enter(process, names)
		if conflict != "" && hs.Err() == nil {
			t.Errorf("%s has %v, and others are inside: %s", process, names, conflict)
		}
		<-time.After(time.Millisecond) // its work
		inside.leave(process, names)
		count.Add(1)
		if err := hs.Unlock(t.Context()); err != nil && !errors.Is(err, ErrLost) {
			t.Errorf("%s: unlock: %v", process, err)
		}
	}
	for p := range processes {
		m, err := Open(t.Context(), Config{Servers: []string{zk.Addr()}, Root: root, Label: fmt.Sprint("p", p), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		for w := range 4 {
			workers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(p), uint64(w)))
				for !stop.Load() {
					var chosen []string
					for _, i := range rng.Perm(names)[:2+rng.IntN(3)] {
						chosen = append(chosen, fmt.Sprint("l", i))
					}
					began := time.Now()
					if w > 1 {
						hs, err := m.LockAll(t.Context(), several(t, m, chosen...)...)
						if err != nil {
							t.Errorf("p%d: %v", p, err)
							return
						}
						work(m.cfg.Label, began, &groups, chosen, hs)
						continue
					}
					// Single locks are nested in one order, or they would deadlock by
					// themselves.
					chosen = []string{min(chosen[0], chosen[1]), max(chosen[0], chosen[1])}
					var hs Holds
					for _, l := range several(t, m, chosen...) {
						h, err := l.Lock(t.Context())
						if err != nil {
							t.Errorf("p%d: %v", p, err)
							return
						}
						hs = append(hs, h)
					}
					work(m.cfg.Label, began, &nested, chosen, hs)
				}
			})
		}
	}
	select {
	case <-time.After(*lockAllFor):
	case <-t.Context().Done():
	}
	stop.Store(true)
	all := make(chan struct{})
	go func() { workers.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatal("a minute after the last call began, some have not returned: deadlock")
	}
	t.Logf("%d groups, %d nested calls; the longest wait of a group was %v", groups.Load(), nested.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	if groups.Load() == 0 || nested.Load() == 0 {
		t.Error("nothing was done")
	}
}
