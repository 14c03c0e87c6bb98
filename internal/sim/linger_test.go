// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/state"
)

// In two of three simulations, locks linger in some of the processes: for a time, or
// until another process wants them. The referee judges the grants as it does all others.
// A lock that stays idle for ever while a worker waits for it in another process ends
// the simulation, as any wait without end. But the rotation would find such a lock, so
// there is one more check at the end, of how long another process has to wait.

// forever is a linger that no simulation outlasts.
const forever = 1000 * time.Hour

// lingers returns how long the locks of the process called label linger. It does not
// change what else the seed decides.
func (p plan) lingers(label string) time.Duration {
	for i := range p.processes {
		if label != processLabel(i) {
			continue
		}
		rng := rand.New(rand.NewPCG(p.seed, uint64(1000+i)))
		if p.seed%3 == 0 || rng.IntN(3) == 0 {
			return 0
		}
		return pick(rng, 5*time.Millisecond, 200*time.Millisecond, p.timeout, forever, forever)
	}
	return 0
}

// mayBeIdle reports whether a lock of the process may be retained without a holder.
func (pr *process) mayBeIdle() bool { return pr.w.plan.lingers(pr.label) > 0 }

// linger changes how long a lock lingers, or gives it up if it is idle.
func (k *worker) linger(l lock) {
	switch k.rng.IntN(4) {
	case 0:
		k.result("set linger", l.SetLinger(0))
	case 1:
		k.result("set linger", l.SetLinger(pick(k.rng, time.Millisecond, 300*time.Millisecond, forever)))
	default:
		k.w.futures.add("a lock that "+k.name+" has yielded", l.ReleaseIdle().Done())
	}
}

// idle visits a lock once more as soon as it has been released: it is often idle then.
func (k *worker) idle(l lock) {
	for range 1 + k.rng.IntN(4) {
		h, err := l.Lock(context.Background())
		if !k.result("lock", err) {
			return
		}
		k.visit(l, h, 1)
		k.pause(2 * time.Millisecond)
	}
}

// yieldAll gives up all locks that are idle.
func (w *world) yieldAll() {
	for _, pr := range w.procs {
		for _, l := range pr.withForts() {
			l.ReleaseIdle()
		}
		pr.mu.Lock()
		mutex := pr.mutex
		pr.mu.Unlock()
		if mutex != nil {
			mutex.ReleaseIdle()
		}
	}
}

// checkLinger checks, once nothing else happens, that a lock that one process lets linger
// goes to another one at once, without the help of the rotation.
func (w *world) checkLinger() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cycle := func(l lock) bool {
		h, err := l.Lock(ctx)
		if err == nil {
			h.Release()
		}
		return err == nil
	}
	rng := rand.New(rand.NewPCG(w.plan.seed, 4))
	for i, pr := range w.procs {
		other := w.procs[(i+1)%len(w.procs)]
		if !pr.mayBeIdle() || w.plan.sequence > 0 {
			continue
		}
		locks := pr.all()
		l := slices.IndexFunc(locks, func(l lock) bool { return l.SetLinger(forever) == nil && l.write })
		if l < 0 || !cycle(other.all()[l]) || !cycle(locks[l]) {
			continue // the process is closed
		}
		<-after(pick(rng, 0, time.Millisecond, 3*time.Second))
		if phase, n := locks[l].State(); phase != state.Retained || n != 0 {
			continue // the other process's session ended meanwhile, say
		}
		began := time.Now()
		w.did("idle lock taken")
		// Goroutines may be held up on the way.
		if most := min(time.Second+10*w.plan.stall, 6*time.Second); cycle(other.all()[l]) && time.Since(began) > most {
			w.fail("%s waited for %v, while %s of %s was idle", other.label, time.Since(began), locks[l].title, pr.label)
		}
	}
	w.yieldAll()
	var left []string
	for began := time.Now(); time.Since(began) < time.Minute; <-after(time.Second) {
		if left = w.left(); len(left) == 0 {
			return
		}
	}
	for _, what := range left {
		w.fail("a minute after the idle locks were given up: %s", what)
	}
}
