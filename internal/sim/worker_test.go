// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/state"
)

// A worker is one goroutine of a process. It performs random operations on the
// process's locks, one after another.
type worker struct {
	pr   *process
	w    *world
	name string
	rng  *rand.Rand

	shared sync.WaitGroup // goroutines with a hold of the worker's
}

func newWorker(pr *process, i int) *worker {
	name := fmt.Sprintf("%s.%d", pr.label, i)
	id := uint64(100)
	for _, c := range name {
		id = id*31 + uint64(c)
	}
	return &worker{pr: pr, w: pr.w, name: name, rng: rand.New(rand.NewPCG(pr.w.plan.seed, id))}
}

func (k *worker) run() {
	w := k.w
	for w.ops.Load() < int64(w.plan.ops) || w.struck.Load() < int64(w.plan.faults) {
		w.ops.Add(1)
		k.step()
		k.shared.Wait()
		k.pause(w.plan.pause)
	}
}

// pause waits for a random time, or not at all.
func (k *worker) pause(most time.Duration) {
	if k.w.plan.storm {
		most = min(most, 2*time.Millisecond)
	}
	if k.rng.IntN(4) == 0 {
		return
	}
	<-after(k.upTo(most))
}

func (k *worker) upTo(d time.Duration) time.Duration { return k.w.plan.upTo(k.rng, d) }

// step performs one operation.
func (k *worker) step() {
	if k.takeTurn() || k.besieged() || k.crowded() {
		return
	}
	all := k.pr.all()
	l := all[pick(k.rng, k.w.plan.locks...)]
	type way struct {
		what string
		do   func(lock)
	}
	ways := []way{
		{"lock", k.lock}, {"lock", k.lock}, {"bounded lock", k.bounded}, {"try", k.try}, {"acquire", k.acquire},
		{"cancel", k.cancel}, {"cancel", k.cancel}, {"do", k.do}, {"drop", k.drop},
		{"lock all", k.together},
		{"holder", k.holder}, {"cached holder", k.cached}, {"watch holder", k.watch},
	}
	if k.rng.IntN(60) == 0 {
		k.restart()
		return
	}
	if k.rng.IntN(20) == 0 {
		k.marked()
		return
	}
	chosen := pick(k.rng, ways...)
	if k.rng.IntN(12) == 0 {
		chosen = pick(k.rng, way{"ask", k.ask}, way{"revoke", k.revoke})
	}
	if k.pr.mayBeIdle() && k.rng.IntN(6) == 0 {
		chosen = pick(k.rng, way{"linger", k.linger}, way{"idle", k.idle})
	}
	if strings.HasPrefix(l.title, table) && k.rng.IntN(5) == 0 {
		k.upgradable(all[4])
		return
	}
	k.w.did(chosen.what)
	k.say("%s %s", chosen.what, l.title)
	chosen.do(l)
	k.check(l)
}

func (k *worker) say(format string, args ...any) { k.w.log(k.name, format, args...) }

// check checks that the state of a lock is possible.
func (k *worker) check(l lock) {
	switch phase, n := l.State(); {
	case n < 0, n > 0 && phase != state.Fetching && phase != state.Retained, n == 0 && phase == state.Retained && !k.pr.mayBeIdle():
		k.w.fail("%s of %s is %v/%d", l.title, k.pr.label, phase, n)
	}
}

// result logs the result of an operation, and fails the simulation unless err is
// nil or one of the allowed errors. It reports whether err is nil.
func (k *worker) result(what string, err error, allowed ...error) bool {
	if err == nil {
		k.say("%s: ok", what)
		return true
	}
	allowed = append(allowed, manager.ErrClosed, manager.ErrLost, manager.ErrUnconfirmed)
	if k.w.plan.sequence > 0 {
		allowed = append(allowed, manager.ErrSequenceExhausted)
	}
	for _, a := range allowed {
		if errors.Is(err, a) {
			k.say("%s: %v", what, a)
			return false
		}
	}
	k.w.fail("%s: %s: %v", k.name, what, err)
	return false
}

// lock waits for the lock without a bound.
func (k *worker) lock(l lock) {
	h, err := l.Lock(context.Background())
	if k.result("lock", err) {
		k.visit(l, h, 0)
	}
}

// bounded waits for the lock until a deadline.
func (k *worker) bounded(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(200*time.Millisecond))
	defer cancel()
	h, err := l.Lock(ctx)
	if k.result("bounded lock", err, context.DeadlineExceeded) {
		k.visit(l, h, 0)
	}
}

func (k *worker) try(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h, err := l.TryLock(ctx)
	if k.result("try", err, manager.ErrLocked, context.DeadlineExceeded) {
		k.visit(l, h, 0)
	}
}

// acquire waits for the grant's future.
func (k *worker) acquire(l lock) {
	h := k.seen(l.Acquire(context.Background()))
	k.pause(5 * time.Millisecond)
	if k.result("granted", k.w.leases.await(h)) {
		k.visit(l, h, 0)
	} else {
		h.Release()
	}
}

// ask asks the holder of the lock. A reply must come from a process that held the lock
// at some time since the question was put.
func (k *worker) ask(l lock) {
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*time.Second))
	defer cancel()
	before := k.w.ref.asks(l.Path())
	a, err := l.Ask(ctx, []byte(k.name))
	if k.result("ask", err, manager.ErrNoAnswer, context.DeadlineExceeded) && a.Reply != nil {
		k.w.ref.answered(before, a)
	}
}

// revoke queues for the lock and asks the processes in the way to give it up.
func (k *worker) revoke(l lock) {
	h := k.seen(l.Acquire(context.Background()))
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*time.Second))
	defer cancel()
	way := k.w.ref.inTheWay(k.pr.label, l)
	err := l.Revoke(ctx, k.name)
	k.result("revoke", err, manager.ErrNoAnswer, context.DeadlineExceeded)
	k.w.ref.revoked(l, way, err)
	if k.result("granted", k.w.leases.await(h)) {
		k.visit(l, h, 0)
	} else {
		h.Release()
	}
}

// newcomer acquires a lock whose hold h is revoked. It must not enter beside h while the
// process that revokes waits: while its letter is there.
func (k *worker) newcomer(l lock, h manager.Hold) {
	r, revoked := h.Revocation()
	if !revoked {
		return
	}
	k.w.did("newcomer after a revocation")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := k.seen(l.Acquire(ctx))
	mine, err := h.Grant()
	theirs, err2 := n.Grant()
	if err == nil && err2 == nil && mine == theirs && r.From.Path != "" && k.w.srv.Exists(r.From.Path) {
		k.w.fail("%s: a newcomer shares the grant %d, which is revoked", k.name, mine.Token)
	}
	n.Release()
}

// seen makes the simulation check in the end that h's futures have settled.
func (k *worker) seen(h manager.Hold) manager.Hold {
	k.w.futures.add("the grant that "+k.name+" waited for", h.Granted().Done())
	k.w.futures.add("the end of a round of "+k.name, h.Released().Done())
	return h
}

// drop releases a hold without waiting for its grant.
func (k *worker) drop(l lock) {
	h := k.seen(l.Acquire(context.Background()))
	k.pause(3 * time.Millisecond)
	h.Release()
	if err := h.Err(); !errors.Is(err, manager.ErrReleased) {
		k.w.fail("%s: a hold that was released says %v", k.name, err)
	}
}

// cancel cancels the context at about the time of the grant.
func (k *worker) cancel(l lock) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := k.seen(l.Acquire(ctx))
	if k.rng.IntN(2) == 0 {
		k.pause(10 * time.Millisecond)
	} else {
		select {
		case <-h.Granted().Done():
		case <-after(k.upTo(500 * time.Millisecond)):
		}
	}
	cancel()
	// The hold is either withdrawn or granted. Once it says that it is granted, it
	// stays so.
	for {
		err := h.Err()
		switch {
		case err == nil:
			k.say("cancelled: granted before")
			k.visit(l, h, 0)
			return
		case errors.Is(err, manager.ErrNotGranted):
			<-after(time.Millisecond)
		default:
			k.result("cancelled", err, manager.ErrReleased)
			h.Release()
			return
		}
	}
}

// do visits the lock in a function, which may panic.
func (k *worker) do(l lock) {
	defer func() {
		if p := recover(); p != nil && p != k {
			panic(p)
		}
	}()
	panics := k.rng.IntN(5) == 0
	ctx, cancel := context.WithTimeout(context.Background(), k.upTo(10*time.Second))
	defer cancel()
	err := l.Do(ctx, func(ctx context.Context, h manager.Hold) error {
		again, err := l.Lock(ctx)
		if !k.result("reenter", err, manager.ErrReleased, context.DeadlineExceeded) {
			return nil
		}
		k.visit(l, again, 1)
		if panics {
			panic(k)
		}
		return nil
	})
	k.result("do", err, context.DeadlineExceeded)
}

// visit makes use of a grant, and releases it.
func (k *worker) visit(l lock, h manager.Hold, depth int) {
	k.seen(h)
	v := k.w.ref.enter(k.pr.label, h, l.write)
	if v == nil {
		k.say("too late")
		h.Release()
		return
	}
	k.say("inside %s, token %d", l.title, v.grant.Token)
	left := make(chan struct{})
	var told sync.WaitGroup
	told.Go(func() {
		select {
		case <-h.Lost():
			k.w.ref.lostAt(v)
		case <-left:
		}
	})
	if k.rng.IntN(k.w.plan.long) == 0 {
		k.stay(h)
	} else {
		for range k.rng.IntN(3) {
			k.busy(l, h, depth)
		}
	}
	k.newcomer(l, h)
	close(left)
	told.Wait()
	k.w.ref.left(v)
	switch k.rng.IntN(3) {
	case 0:
		h.Release()
		k.say("released %s", l.title)
	case 1:
		h.Release()
		if err := h.Unlock(context.Background()); !errors.Is(err, manager.ErrReleased) {
			k.w.fail("%s: a second release says %v", k.name, err)
		}
	default:
		k.result("unlock", h.Unlock(context.Background()))
	}
}

// stay holds the lock for long. It checks from time to time whether the lock is
// still held, or else leaves without a check, about when the lease ends if the
// process has been cut off.
func (k *worker) stay(h manager.Hold) {
	timeout := k.w.plan.timeout
	looks := k.rng.IntN(3) == 0
	late := timeout/3 + k.upTo(timeout/4)
	for began := time.Now(); time.Since(began) < 3*timeout/2; {
		<-after(5*time.Millisecond + k.upTo(timeout/40))
		if looks && (h.Err() != nil || k.rng.IntN(20) == 0) {
			return
		}
		if _, revoked := h.Revocation(); looks && revoked {
			k.w.did("leave when revoked")
			return
		}
		if silence := k.w.silence.Load(); !looks && silence != nil && time.Since(*silence) >= late {
			return
		}
	}
}

// busy does something while the lock is held.
func (k *worker) busy(l lock, h manager.Hold, depth int) {
	if l.other != nil && depth == 0 && k.rng.IntN(k.w.plan.down) == 0 {
		k.downgrade(l, h)
		return
	}
	switch k.rng.IntN(6) {
	case 0:
		again, err := h.Reenter()
		if k.result("reenter", err, manager.ErrReleased) {
			k.pause(5 * time.Millisecond)
			again.Release()
		}
	case 1:
		other, err := h.Share()
		if !k.result("share", err, manager.ErrReleased) {
			return
		}
		d := k.upTo(20 * time.Millisecond)
		k.shared.Go(func() {
			if inside := k.w.ref.enter(k.pr.label, other, l.write); inside != nil {
				<-after(d)
				k.w.ref.left(inside)
			}
			other.Release()
		})
	case 2:
		<-after(k.upTo(300 * time.Millisecond))
	case 3:
		<-after(k.upTo(50 * time.Millisecond))
	default:
		k.pause(20 * time.Millisecond)
	}
}

// downgrade acquires the read lock while the write lock is held, and keeps it for
// longer.
func (k *worker) downgrade(l lock, h manager.Hold) {
	k.w.did("downgrade")
	k.say("downgrade")
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if k.rng.IntN(2) == 0 {
		ctx, cancel = h.Context(ctx)
	}
	read := k.seen(l.other.Acquire(ctx))
	stays := k.upTo(pick(k.rng, 20*time.Millisecond, 500*time.Millisecond))
	early := k.rng.IntN(2) == 0
	if early {
		k.pause(2 * time.Millisecond)
	} else {
		// If the write lock is lost, so is its context.
		_, err := read.Granted().Wait(context.Background())
		k.result("downgraded", err, manager.ErrNotGranted)
	}
	k.shared.Go(func() {
		defer cancel()
		if _, err := read.Granted().Wait(context.Background()); err != nil {
			read.Release()
			return
		}
		inside := k.w.ref.enter(k.pr.label, read, false)
		if inside != nil {
			<-after(stays)
			k.w.ref.left(inside)
		}
		read.Release()
	})
}

// restart replaces the process's manager by a new one.
func (k *worker) restart() {
	pr := k.pr
	select {
	case pr.replacing <- struct{}{}:
		defer func() { <-pr.replacing }()
	default:
		k.w.did("close, too late")
		return // another worker is replacing it
	}
	var err error
	if k.rng.IntN(2) == 0 {
		k.w.did("close")
		k.say("close")
		err = pr.m.Close()
	} else {
		k.w.did("shutdown")
		k.say("shutdown")
		ctx, cancel := context.WithTimeout(context.Background(), k.upTo(2*time.Second))
		k.w.bench.shuts(pr.ownMutex())
		err = pr.m.Shutdown(ctx)
		cancel()
	}
	k.say("closed: %v", err != nil)
	k.pause(time.Second)
	for {
		if err = pr.open(); err == nil {
			k.say("open")
			return
		}
		k.say("open failed")
		<-after(time.Second)
	}
}
