// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
)

// In one of five simulations, workers besiege each other: one holds a lock, and a
// goroutine of another process asks for the lock and gives up, again and again. Each time
// the gate closes to newcomers and opens again. At that very moment others act in the
// holder's process, which behave differently when the gate is open: newcomers,
// the writer of the pair, or a worker that closes the manager. Without this such moments
// hardly ever coincide.

// besieges reports whether the workers of a seed besiege each other. The other seeds are
// as they would be without this file.
func besieges(seed uint64) bool { return siegeRand(seed).IntN(5) == 0 }

func siegeRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 50)) }

// besiege adapts the plan of such a seed: the gate closes soon, and what happens at one
// moment happens in many orders.
func (p *plan) besiege() {
	rng := siegeRand(p.seed + 1)
	p.tenure = time.Millisecond * time.Duration(pick(rng, 5, 20))
	p.yield = pick(rng, uint32(2), 2, 4)
	p.stall = 0
	if rng.IntN(4) > 0 {
		p.latency = 0
	}
	p.ops *= 2
}

// besieged holds a lock while another process asks for it and gives up. It reports false
// if the worker is to do something else.
func (k *worker) besieged() bool {
	if !k.w.plan.sieges || k.rng.IntN(2) == 0 {
		return false
	}
	k.w.did("siege")
	f := k.pr.fort(k.pr.label)
	l := pick(k.rng, f.writer, f.reader, f.reader)
	k.say("besieged in %s", l.title)
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*time.Second))
	defer cancel()
	h, err := l.Lock(ctx)
	if !k.result("lock", err, context.DeadlineExceeded) {
		<-after(50 * time.Millisecond) // another worker may be replacing the manager
		return true
	}
	k.seen(h)
	v := k.w.ref.enter(k.pr.label, h, l.write)
	if v == nil {
		h.Release()
		return true
	}
	if k.rng.IntN(3) == 0 {
		k.stayer()
	}
	for range 2 + k.rng.IntN(4) {
		k.probed(l, h)
	}
	k.newcomer(l, h)
	k.w.ref.left(v)
	h.Release()
	return true
}

// A fort is the pair of locks over which the workers of one process are besieged.
type fort struct{ reader, writer lock }

// openForts opens the forts of all processes, in their order.
func (pr *process) openForts(m *manager.Manager) (forts []fort, err error) {
	if !pr.w.plan.sieges {
		return nil, nil
	}
	for i := range pr.w.plan.processes {
		name := "fort-" + processLabel(i)
		rw, err := m.ReadWrite(name)
		if err != nil {
			return nil, err
		}
		forts = append(forts, fort{
			reader: lock{shared: rw.Reader(), title: name + " for reading"},
			writer: lock{shared: rw.Writer(), title: name + " for writing", write: true, other: rw.Reader()},
		})
	}
	return forts, nil
}

// fort returns the process's own locks of the fort of the process called label.
func (pr *process) fort(label string) fort {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	for i, f := range pr.forts {
		if processLabel(i) == label {
			return f
		}
	}
	panic("no fort of " + label)
}

// withForts returns all locks of the process's present manager, with those of the forts and of the
// crowd.
func (pr *process) withForts() []lock {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	all := slices.Concat(pr.locks, pr.crowded)
	for _, f := range pr.forts {
		all = append(all, f.reader, f.writer)
	}
	return all
}

// rival returns another process, and its lock that excludes those of this one.
func (k *worker) rival() (*process, lock) {
	procs := k.w.procs
	pr := procs[k.rng.IntN(len(procs))]
	for pr == k.pr {
		pr = procs[k.rng.IntN(len(procs))]
	}
	return pr, pr.fort(k.pr.label).writer
}

// stayer has a goroutine of another process wait until the lock is given up.
func (k *worker) stayer() {
	pr, l := k.rival()
	h := k.seen(l.Acquire(context.Background()))
	k.shared.Go(func() {
		defer h.Release()
		if _, err := h.Granted().Wait(context.Background()); err != nil {
			return
		}
		if v := k.w.ref.enter(pr.label, h, l.write); v != nil {
			k.w.ref.left(v)
		}
	})
}

// probed has another process ask for the lock l, which the worker holds, and give up. Other
// goroutines of this process act as the gate opens. h is the worker's hold.
func (k *worker) probed(l lock, h manager.Hold) {
	_, theirs := k.rival()
	probe := k.seen(theirs.Acquire(context.Background()))
	// A holder that wants to know has the process look for contenders, until it has seen
	// one wait for a tenure.
	select {
	case <-h.Contended():
	case <-after(4 * k.w.plan.tenure):
	}
	<-after(k.upTo(3 * k.w.plan.tenure))

	var arrived sync.WaitGroup
	defer arrived.Wait()
	gone := make(chan struct{})
	act := func(l lock, early bool) {
		late := k.upTo(2 * k.w.plan.latency)
		if k.rng.IntN(4) > 0 {
			late = 0
		}
		hops := k.hops()
		stays := k.upTo(20 * time.Millisecond)
		arrived.Go(func() {
			if !early {
				<-gone
				<-after(late)
				hops()
			}
			h := k.seen(l.Acquire(context.Background()))
			select {
			case <-h.Granted().Done():
				if v := k.w.ref.enter(k.pr.label, h, l.write); v != nil {
					<-after(stays)
					k.w.ref.left(v)
				}
			case <-after(stays):
			}
			h.Release()
		})
	}
	restarts := k.rng.IntN(8) == 0
	for range 1 + k.rng.IntN(2) {
		act(l, restarts || k.rng.IntN(4) == 0)
	}
	if !l.write && k.rng.IntN(4) > 0 {
		arrived.Go(k.pulse(k.pr.fort(k.pr.label).writer, gone))
	}
	if restarts { // those who wait are let in step by step while others come and go
		for range 3 {
			arrived.Go(k.pulse(l, gone))
		}
	}
	probe.Release()
	select {
	case <-probe.Released().Done(): // at about the moment at which this process hears of it
	case <-after(50 * time.Millisecond):
	}
	close(gone)
	if restarts {
		<-after(k.upTo(k.w.plan.latency))
		k.hops()()
		k.restart()
	}
}

// pulse returns a function that asks for l and gives up, again and again, once a contender
// has gone.
func (k *worker) pulse(l lock, gone <-chan struct{}) func() {
	waits, rests := make([]func(), 2+k.rng.IntN(8)), k.hops()
	for i := range waits {
		waits[i] = k.hops()
	}
	return func() {
		<-gone
		for _, wait := range waits {
			h := k.seen(l.Acquire(context.Background()))
			wait()
			h.Release()
			rests()
		}
	}
}

// hops returns a function that lets other goroutines run first, for a moment in which no
// virtual time passes: the process takes some steps until it knows that a contender has
// gone.
func (k *worker) hops() func() {
	n := k.rng.IntN(pick(k.rng, 10, 40, 150))
	return func() {
		for range n {
			runtime.Gosched()
		}
	}
}
