// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// In one of seven simulations, workers also acquire more locks at once than their process has I/O
// goroutines for, so that the requests go together. The processes do so with the same locks.

// crowdLocks is how many locks those are.
const crowdLocks = 12

// crowds reports whether workers do that in the simulation of a seed. The other seeds are as they
// would be without this file.
func crowds(seed uint64) bool { return rand.New(rand.NewPCG(seed, 70)).IntN(5) == 0 }

func crowdName(i int) string { return fmt.Sprintf("crowd-%d", i) }

// openCrowd opens the locks that the process acquires at once.
func (pr *process) openCrowd(m *manager.Manager) (all []lock, err error) {
	if !pr.w.plan.crowds {
		return nil, nil
	}
	for i := range crowdLocks {
		l, err := m.Exclusive(crowdName(i))
		if err != nil {
			return nil, err
		}
		all = append(all, lock{shared: l, title: crowdName(i), write: true})
	}
	return all, nil
}

// crowded acquires many locks at once, and visits each when it is granted. It reports false if the
// worker is to do something else.
func (k *worker) crowded() bool {
	if !k.w.plan.crowds || k.rng.IntN(8) > 0 {
		return false
	}
	k.w.did("crowd")
	k.say("crowd")
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(10*time.Second))
	defer cancel()
	var visits sync.WaitGroup
	for _, l := range k.pr.crowd() {
		h, stays := k.seen(l.Acquire(ctx)), k.upTo(10*time.Millisecond)
		visits.Go(func() {
			defer h.Release()
			if _, err := h.Ready().Wait(context.Background()); err != nil {
				return // withdrawn, or lost
			}
			if v := k.w.ref.enter(k.pr.label, h, true); v != nil {
				<-after(stays)
				k.w.ref.left(v)
			}
		})
	}
	visits.Wait()
	return true
}

// crowd returns the locks that the process's present manager acquires at once.
func (pr *process) crowd() []lock {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.crowded
}
