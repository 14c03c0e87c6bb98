// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/holdfast-go/holdfast/state"
)

// A goroutine that loses a race looks again, and acts on what it finds then.
func TestF074_ApplyLosesRaces(t *testing.T) {
	const races = 7 // more than any fixed number of tries
	a := retained(t)
	calls := 0
	old, e, lost := a.Apply(func(w Word) (Word, Effect) {
		// Another goroutine comes between each of our loads and the swap; the
		// last one ends the round.
		switch calls++; {
		case calls < races:
			a.Apply(arrive)
		case calls == races:
			a.Apply(Word.End)
		}
		return w.Leave()
	})
	if old != Pack(Releasing, 0) || e != Dead || lost != races || calls != races+1 || a.Load() != old {
		t.Errorf("got %v of %v after %d calls and %d lost races, and the word is %v; want dead of releasing/0 after %d and %d",
			e, old, calls, lost, a.Load(), races+1, races)
	}
}

// A transition that leaves the word unchanged does not write, so a change that
// comes between is kept, and the answer is for the word that was seen.
func TestApplyUnchangedDoesNotSwap(t *testing.T) {
	var a Atomic
	old, e, lost := a.Apply(func(w Word) (Word, Effect) {
		a.Apply(arrive)
		return w.End()
	})
	if old != Pack(Free, 0) || e != Nothing || lost != 0 || a.Load() != Pack(Fetching, 1) {
		t.Errorf("got %v of %v with %d lost races, and the word is %v; want nothing of free/0 with none, and fetching/1",
			e, old, lost, a.Load())
	}
}

// Enter does what an arrival at an open gate does where that enters, and nothing in
// any other case, nor to a word that has changed.
func TestEnterIsArrive(t *testing.T) {
	for p := range Released + 1 {
		for _, n := range []int{0, 1, 2, MaxHolders - 1, MaxHolders} {
			w := Pack(p, n)
			if corrupt(w) {
				continue
			}
			var a Atomic
			a.Apply(func(Word) (Word, Effect) { return w, Nothing })
			next, e := w.Arrive(false)
			if e != Entered {
				next = w
			}
			if got := a.Enter(w); got != (e == Entered) || got != w.Admits() || a.Load() != next {
				t.Errorf("%v: got %v and %v, admits: %v; an arrival %v and makes it %v", w, got, a.Load(), w.Admits(), e, next)
			}
			if stale := Pack(Retained, 77); a.Enter(stale) || a.Load() != next {
				t.Errorf("%v: it entered %v", next, stale)
			}
		}
	}
}

// LeaveOthers does what a departure does where others stay inside, and nothing in any
// other case, nor to a word that has changed.
func TestLeaveOthersIsLeave(t *testing.T) {
	for p := range Released + 1 {
		for _, n := range []int{0, 1, 2, MaxHolders - 1, MaxHolders} {
			w := Pack(p, n)
			if corrupt(w) {
				continue
			}
			var a Atomic
			set(&a, w)
			want, shared := w, p == Retained && n > 1
			if shared {
				want, _ = w.Leave()
			}
			if got := a.LeaveOthers(w); got != shared || got != w.Shared() || a.Load() != want {
				t.Errorf("%v: got %v and %v, want %v and %v", w, got, a.Load(), shared, want)
			}
			if stale := Pack(Retained, 77); a.LeaveOthers(stale) || a.Load() != want {
				t.Errorf("%v: it left %v", want, stale)
			}
		}
	}
}

// A counted round counts, by transition, the effects that its goroutines got.
type counted struct {
	word   Atomic
	gate   atomic.Bool
	token  int          // written by the granter before its swap, read by those inside
	ends   int          // written by the goroutine that ends the round
	killed atomic.Int64 // counted when the round was ended by force

	arrive, pin, leave, grant, cancel, end, finish tally
}

type tally [Merged + 1]atomic.Int64

// of returns how often one of the effects came, or any effect if none is given.
func (c *tally) of(effects ...Effect) (n int) {
	for e := range c {
		if len(effects) == 0 || slices.Contains(effects, Effect(e)) {
			n += int(c[e].Load())
		}
	}
	return n
}

// do applies a transition, counts its effect in c, and carries the effect out.
func (r *counted) do(c *tally, t func(Word) (Word, Effect)) Effect {
	old, e, _ := r.word.Apply(t)
	c[e].Add(1)
	switch {
	case c == &r.end && e == Ended:
		r.killed.Add(int64(old.Holders()))
		fallthrough
	case e == Ended, e == Abandoned:
		r.ends++ // a data race if two goroutines end the round
		r.do(&r.finish, Word.Finish)
	case e == Withdrawn:
		r.do(&r.cancel, Word.Cancel)
	}
	return e
}

// Goroutines arrive at a round, pin it, leave it, grant it, cancel it and end
// it by force, all at the same moment. Every count adds up: each goroutine is
// counted once, each step is taken by one goroutine, and the handles of those
// inside when the round was ended by force are dead.
func TestHammer(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var seen tally // over all rounds
	missed := func() bool {
		return slices.ContainsFunc([]Effect{Started, Joined, Next, Left, Ended, Granted, Finished}, func(e Effect) bool { return seen.of(e) == 0 })
	}
	// On a busy machine goroutines may not meet for a while.
	for i := 0; i < rounds || i < 100*rounds && missed(); i++ {
		r := new(counted)
		r.hammer(t, rng.IntN(4), i%3 == 0)
		r.check(t)
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
		for _, c := range []*tally{&r.arrive, &r.pin, &r.leave, &r.grant, &r.cancel, &r.end, &r.finish} {
			for e := range c {
				seen[e].Add(c[e].Load())
			}
		}
	}
	for e := Started; e <= Finished; e++ {
		t.Logf("%-10v %d", e, seen.of(e))
	}
	if missed() {
		t.Errorf("an effect has not come in %d rounds: the hammer has missed", 100*rounds)
	}
}

func (r *counted) hammer(t *testing.T, enders int, closeGate bool) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	spawn := func(fn func()) { wg.Go(func() { <-start; fn() }) }
	for range 4 {
		spawn(func() {
			for range 8 {
				switch r.do(&r.arrive, func(w Word) (Word, Effect) { return w.Arrive(r.gate.Load()) }) {
				case Next:
					return
				case Started:
					spawn(func() {
						r.token = 42
						r.do(&r.grant, Word.Grant)
					})
				case Entered:
					// The granter's swap synchronizes before ours.
					if r.token != 42 {
						t.Error("inside, and the grant is not there")
					}
				}
				runtime.Gosched()
				if r.do(&r.pin, Word.Pin) != Dead {
					r.do(&r.leave, Word.Leave)
				}
				r.do(&r.leave, Word.Leave)
			}
		})
	}
	for range enders {
		spawn(func() { runtime.Gosched(); r.do(&r.end, Word.End) })
	}
	if closeGate {
		spawn(func() { r.gate.Store(true) })
	}
	close(start)
	wg.Wait()
}

func (r *counted) check(t *testing.T) {
	killed := int(r.killed.Load())
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"starts", r.arrive.of(Started), 1},
		{"grants, carried out or refused", r.grant.of(), 1},
		{"ends", r.leave.of(Ended) + r.end.of(Ended) + r.grant.of(Abandoned) + r.cancel.of(Abandoned), 1},
		{"ends that were carried out", r.ends, 1},
		{"finishes", r.finish.of(Finished), 1},
		{"entries, and exits or killed", r.arrive.of(Started, Joined, Entered) + r.pin.of(Joined, Entered),
			r.leave.of(Left, Withdrawn, Ended) + killed},
		{"dead handles, and killed", r.leave.of(Dead), killed},
		{"cancels, and withdrawals", r.cancel.of(), r.leave.of(Withdrawn)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, c.got, c.want)
		}
	}
	if w := r.word.Load(); w != Pack(Released, 0) {
		t.Errorf("the word is %v, want released/0", w)
	}
}

// Goroutines enter and leave a lock that stays held: the path that must be fast.
// No step is lost.
func TestHammerRetained(t *testing.T) {
	a := retained(t)
	var wg sync.WaitGroup
	var lost atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 5000 {
				_, in, n := a.Apply(arrive)
				_, out, m := a.Apply(Word.Leave)
				if in != Entered || out != Left {
					t.Errorf("arrive: %v; leave: %v", in, out)
				}
				lost.Add(int64(n + m))
			}
		})
	}
	wg.Wait()
	if w := a.Load(); w != Pack(Retained, 1) {
		t.Errorf("the word is %v, want retained/1", w)
	}
	t.Logf("%d races lost in 80,000 swaps", lost.Load())
}
