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

// turns is the name of a mutex.
const turns = "turns"

// usesMutex reports whether the workers of a seed use a mutex, besides the locks. The
// other seeds are as they would be without this file.
func usesMutex(seed uint64) bool { return rand.New(rand.NewPCG(seed, 40)).IntN(3) == 0 }

// A bench judges the turns of the mutex in all processes. Beside what the referee checks of
// any lock, it checks that
//
//   - one goroutine of a process is inside at a time, be it that it has lost the lock;
//   - the pairs of token and turn rise over all processes;
//   - goroutines of a process get their turns in the order of their calls.
type bench struct {
	w *world

	mu     sync.Mutex // protects what follows
	clock  int
	inside map[*manager.Mutex]string // the name of the worker inside, one for each process
	queued map[*arrival]bool         // those that wait by Acquire
	shut   map[*manager.Mutex]bool   // Shutdown takes those that wait out of the line one after the other
	last   manager.Grant
}

// An arrival is a call that asks for the mutex.
type arrival struct {
	of              *manager.Mutex
	who             string
	began, returned int // on the bench's clock; returned is 0 if the call waits itself
}

func newBench(w *world) *bench {
	return &bench{w: w, inside: make(map[*manager.Mutex]string), queued: make(map[*arrival]bool), shut: make(map[*manager.Mutex]bool)}
}

// shuts notes that Shutdown is about to be called: x has no order of turns any more. A call that
// has been taken out of the line is told so a moment later.
func (b *bench) shuts(x *manager.Mutex) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut[x] = true
}

// arrives notes that a call begins.
func (b *bench) arrives(x *manager.Mutex, who string) *arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	return &arrival{of: x, who: who, began: b.clock}
}

// waits notes that the call has returned: it has its place in the line.
func (b *bench) waits(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock++
	a.returned = b.clock
	b.queued[a] = true
}

// leaves notes that the hold of the call is about to be given up.
func (b *bench) leaves(a *arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queued, a)
}

// enter judges a turn, and returns a function to be called before its release. v is what
// the referee has found: nil if the lock is lost.
func (b *bench) enter(a *arrival, h manager.Hold, v *visit) (leave func()) {
	valid := false
	if v != nil {
		b.w.ref.mu.Lock()
		valid = !b.w.ref.excused(v)
		b.w.ref.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queued, a)
	if other := b.inside[a.of]; other != "" {
		b.w.fail("%s is inside %s together with %s", a.who, turns, other)
	}
	b.inside[a.of] = a.who
	for other := range b.queued {
		if other.of == a.of && other.returned < a.began && !b.shut[a.of] {
			b.w.fail("%s got its turn before %s, which came earlier", a.who, other.who)
		}
	}
	// If it is held now, and not only believed to be, no later grant has been judged.
	if valid && h.Err() == nil {
		if v.grant.Compare(b.last) <= 0 {
			b.w.fail("%s was granted %d.%d after %d.%d", a.who, v.grant.Token, v.grant.Turn, b.last.Token, b.last.Turn)
		}
		b.last = v.grant
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inside[a.of] = ""
	}
}

// left returns whether turns are left in the process's mutex.
func (pr *process) left() (what []string) {
	if x := pr.ownMutex(); x != nil {
		if phase, n := x.State(); phase != state.Free || n != 0 {
			what = append(what, fmt.Sprintf("%s of %s is %v/%d", x.Path(), pr.label, phase, n))
		}
	}
	return what
}

// ownMutex returns the mutex of the process's present manager; nil if the seed uses none.
func (pr *process) ownMutex() *manager.Mutex {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	return pr.mutex
}

// takeTurn performs an operation on the mutex. It reports false if the worker is to do
// something else.
func (k *worker) takeTurn() bool {
	if !k.w.plan.mutex || k.rng.IntN(2) == 0 {
		return false
	}
	x := k.pr.ownMutex()
	what := pick(k.rng, "lock", "lock", "bounded lock", "try", "acquire", "acquire", "cancel", "cancel", "do", "drop")
	k.w.did("mutex: " + what)
	k.say("%s %s", what, turns)
	a := k.w.bench.arrives(x, k.name)
	switch what {
	case "lock":
		h, err := x.Lock(context.Background())
		k.turn(a, h, what, err)
	case "bounded lock":
		ctx, cancel := context.WithTimeout(context.Background(), k.upTo(200*time.Millisecond))
		defer cancel()
		h, err := x.Lock(ctx)
		k.turn(a, h, what, err, context.DeadlineExceeded)
	case "try":
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		h, err := x.TryLock(ctx)
		k.turn(a, h, what, err, manager.ErrLocked, context.DeadlineExceeded)
	case "do":
		k.doTurn(a, x)
	default:
		k.acquireTurn(a, x, what)
	}
	return true
}

// acquireTurn acquires the mutex by Acquire. It may give up.
func (k *worker) acquireTurn(a *arrival, x *manager.Mutex, what string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := k.seen(x.Acquire(ctx))
	k.w.bench.waits(a)
	ready := h.Ready()
	switch what {
	case "drop":
		k.pause(3 * time.Millisecond)
		k.w.bench.leaves(a)
		h.Release()
		return
	case "cancel":
		select {
		case <-ready.Done():
		case <-after(k.upTo(300 * time.Millisecond)):
		}
		k.w.bench.leaves(a)
		cancel()
	}
	_, err := ready.Wait(context.Background())
	k.turn(a, h, what, err, manager.ErrReleased)
}

// doTurn visits the mutex in a function, which may panic.
func (k *worker) doTurn(a *arrival, x *manager.Mutex) {
	defer func() {
		if p := recover(); p != nil && p != k {
			panic(p)
		}
	}()
	panics := k.rng.IntN(5) == 0
	err := x.Do(context.Background(), func(ctx context.Context, h manager.Hold) error {
		again, err := x.Lock(ctx)
		if !k.result("reenter", err, manager.ErrReleased) {
			return nil
		}
		k.turn(a, again, "do", nil)
		if panics {
			panic(k)
		}
		return nil
	})
	k.result("do", err)
}

// turn uses a turn that was granted, unless err is not nil, and releases it.
func (k *worker) turn(a *arrival, h manager.Hold, what string, err error, allowed ...error) {
	if !k.result(what, err, allowed...) {
		k.w.bench.leaves(a)
		h.Release()
		return
	}
	k.seen(h)
	v := k.w.ref.enter(k.pr.label, h, true)
	leave := k.w.bench.enter(a, h, v)
	if v == nil {
		k.say("too late")
	} else {
		k.say("inside %s, token %d, turn %d", turns, v.grant.Token, v.grant.Turn)
	}
	if _, err := h.Share(); !errors.Is(err, manager.ErrNotShared) && !errors.Is(err, manager.ErrLost) && !errors.Is(err, manager.ErrClosed) {
		k.w.fail("%s: the hold of a mutex was shared: %v", k.name, err)
	}
	switch act := k.rng.IntN(6); {
	case k.rng.IntN(k.w.plan.long) == 0:
		k.stay(h)
	case act == 1:
		if again, err := h.Reenter(); k.result("reenter", err, manager.ErrReleased) {
			k.pause(5 * time.Millisecond)
			again.Release()
		}
	case act == 2:
		<-after(k.upTo(300 * time.Millisecond))
	default:
		k.pause(20 * time.Millisecond)
	}
	leave()
	if v != nil {
		k.w.ref.left(v)
	}
	if k.rng.IntN(2) == 0 {
		k.result("unlock", h.Unlock(context.Background()))
		return
	}
	h.Release()
}

// dirOf returns the directory of a node.
func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }
