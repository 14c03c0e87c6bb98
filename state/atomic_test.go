// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	. "github.com/holdfast-go/holdfast/state"
)

func arrive(w Word) (Word, Effect) { return w.Arrive(false) }

// The life of a round, step by step.
func TestApply(t *testing.T) {
	var a Atomic
	steps := []struct {
		name string
		do   func(Word) (Word, Effect)
		want string // old word, effect, new word
	}{
		{"the first arrival", arrive, "free/0 started fetching/1"},
		{"a second one", arrive, "fetching/1 joined fetching/2"},
		{"the grant", Word.Grant, "fetching/2 granted retained/2"},
		{"a third", arrive, "retained/2 entered retained/3"},
		{"the gate closes", func(w Word) (Word, Effect) { return w.Arrive(true) }, "retained/3 next retained/3"},
		{"which a pin passes", Word.Pin, "retained/3 entered retained/4"},
		{"one leaves", Word.Leave, "retained/4 left retained/3"},
		{"another", Word.Leave, "retained/3 left retained/2"},
		{"and another", Word.Leave, "retained/2 left retained/1"},
		{"the last", Word.Leave, "retained/1 ended releasing/0"},
		{"somebody with a dead handle", Word.Leave, "releasing/0 dead releasing/0"},
		{"the end of the clean-up", Word.Finish, "releasing/0 finished released/0"},
		{"a late arrival", arrive, "released/0 next released/0"},
	}
	for _, s := range steps {
		old, e, lost := a.Apply(s.do)
		if got := old.String() + " " + e.String() + " " + a.Load().String(); got != s.want || lost != 0 {
			t.Errorf("%s: got %q with %d races lost, want %q with none", s.name, got, lost, s.want)
		}
	}
}

// A goroutine that loses a race looks again, and acts on what it finds then.
func TestF074_ApplyLosesRaces(t *testing.T) {
	const races = 7 // more than any fixed number of tries
	var a Atomic
	a.Apply(arrive)
	a.Apply(Word.Grant)
	calls := 0
	old, e, lost := a.Apply(func(w Word) (Word, Effect) {
		// Each time that we have looked, and before we swap, somebody else comes
		// between; the last time it is somebody who ends the round.
		switch calls++; {
		case calls < races:
			a.Apply(arrive)
		case calls == races:
			a.Apply(Word.End)
		}
		return w.Leave()
	})
	if old != Pack(Releasing, 0) || e != Dead || lost != races || calls != races+1 {
		t.Errorf("got %v of %v after %d calls and %d races lost, want dead of releasing/0 after %d and %d",
			e, old, calls, lost, races+1, races)
	}
	if w := a.Load(); w != Pack(Releasing, 0) {
		t.Errorf("the word is %v, want releasing/0", w)
	}
}

// A transition that leaves the word as it is does not write: so a goroutine
// that came between, even one that made the word something else, has not lost
// its change, and the answer holds for the word that was seen.
func TestApplyUnchangedDoesNotSwap(t *testing.T) {
	var a Atomic
	old, e, lost := a.Apply(func(w Word) (Word, Effect) {
		a.Apply(arrive)
		return w.End()
	})
	if old != Pack(Free, 0) || e != Nothing || lost != 0 {
		t.Errorf("got %v of %v with %d races lost, want nothing of free/0 with none", e, old, lost)
	}
	if w := a.Load(); w != Pack(Fetching, 1) {
		t.Errorf("the word is %v, want fetching/1", w)
	}
}

func TestApplyDoesNotAllocate(t *testing.T) {
	a := retained(t)
	gate := new(atomic.Bool)
	tests := []struct {
		name string
		do   func()
	}{
		{"a method expression", func() { a.Apply(Word.Pin); a.Apply(Word.Leave) }},
		{"a closure", func() {
			a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) })
			a.Apply(Word.Leave)
		}},
		{"an answer", func() { a.Apply(func(w Word) (Word, Effect) { return w.Arrive(true) }) }},
		{"Load", func() { _ = a.Load() }},
	}
	for _, tt := range tests {
		if n := testing.AllocsPerRun(100, tt.do); n != 0 {
			t.Errorf("%s: %v allocations, want none", tt.name, n)
		}
	}
}

func TestSize(t *testing.T) {
	// The word itself has 4 bytes; go.uber.org/atomic pads to a pointer's size.
	if got := unsafe.Sizeof(Atomic{}); got > 8 {
		t.Errorf("an Atomic has %d bytes, want at most 8", got)
	}
}

// A tally of effects, by who got them.
type tally [Finished + 1]atomic.Int64

func (c *tally) add(e Effect)   { c[e].Add(1) }
func (c *tally) n(e Effect) int { return int(c[e].Load()) }
func (c *tally) sum() (n int) {
	for e := range c {
		n += c.n(Effect(e))
	}
	return n
}

// Goroutines arrive at a round, pin it, leave it, grant it, cancel it and end
// it by force, all at the same moment. Every count adds up: nobody is counted
// twice or forgotten, every step has exactly one author, and the handles of
// those who were inside when the round was ended by force are dead.
func TestHammer(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var total tally // over all rounds: the test is worth nothing if some effect never came
	for i := range rounds {
		hammerRound(t, &total, rng.IntN(4), i%3 == 0)
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
	}
	for e := Started; e <= Finished; e++ {
		t.Logf("%-10v %d", e, total.n(e))
	}
	for _, e := range []Effect{Started, Joined, Next, Left, Ended, Granted, Finished} {
		if total.n(e) == 0 {
			t.Errorf("no %v in %d rounds: the hammer has missed", e, rounds)
		}
	}
}

func hammerRound(t *testing.T, total *tally, enders int, closeGate bool) {
	var (
		a     Atomic
		gate  atomic.Bool
		token int   // written by the granter before its swap, read by those who are inside
		cause int32 // written by whoever ended the round, read by the finisher

		arrivals, pins, leaves, grants, cancels, ends, finishes tally

		killed atomic.Int64 // holders at the moment when the round was ended by force
		wg     sync.WaitGroup
		start  = make(chan struct{})
	)
	// over does what Ended and Abandoned ask for, and must be done once.
	over := func() {
		cause++ // the race detector sees it if two goroutines come here
		_, e, _ := a.Apply(Word.Finish)
		finishes.add(e)
	}
	leave := func() {
		_, e, _ := a.Apply(Word.Leave)
		leaves.add(e)
		switch e {
		case Ended:
			over()
		case Withdrawn:
			_, e, _ := a.Apply(Word.Cancel)
			cancels.add(e)
			if e == Abandoned {
				over()
			}
		}
	}
	grant := func() {
		token = 42
		_, e, _ := a.Apply(Word.Grant)
		grants.add(e)
		if e == Abandoned {
			over()
		}
	}
	for range 4 {
		wg.Go(func() {
			<-start
			for range 8 {
				_, e, _ := a.Apply(func(w Word) (Word, Effect) { return w.Arrive(gate.Load()) })
				arrivals.add(e)
				switch e {
				case Next:
					return
				case Started:
					wg.Go(grant)
				case Entered:
					// We saw the granter's swap, so we see what it wrote before.
					if token != 42 {
						t.Error("inside, and the grant is not there")
					}
				}
				runtime.Gosched()
				_, e, _ = a.Apply(Word.Pin)
				pins.add(e)
				if e != Dead {
					leave()
				}
				leave()
			}
		})
	}
	for range enders {
		wg.Go(func() {
			<-start
			runtime.Gosched()
			old, e, _ := a.Apply(Word.End)
			ends.add(e)
			if e == Ended {
				killed.Add(int64(old.Holders()))
				over()
			}
		})
	}
	if closeGate {
		wg.Go(func() {
			<-start
			gate.Store(true)
		})
	}
	close(start)
	wg.Wait()

	equal := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %d, want %d", what, got, want)
		}
	}
	in := arrivals.n(Started) + arrivals.n(Joined) + arrivals.n(Entered) + pins.n(Joined) + pins.n(Entered)
	out := leaves.n(Left) + leaves.n(Withdrawn) + leaves.n(Ended)
	byForce := ends.n(Ended)
	ended := leaves.n(Ended) + byForce + grants.n(Abandoned) + cancels.n(Abandoned)

	equal("starts", arrivals.n(Started), 1)
	equal("grants that were carried out or refused", grants.sum(), 1)
	equal("ends", ended, 1)
	equal("ends that were carried out", int(cause), 1)
	equal("finishes", finishes.n(Finished), 1)
	equal("those who came in and went out, or were inside when the round ended", out+int(killed.Load()), in)
	equal("dead handles", leaves.n(Dead), int(killed.Load()))
	equal("withdrawals that were looked at", cancels.sum(), leaves.n(Withdrawn))
	if w := a.Load(); w != Pack(Released, 0) {
		t.Errorf("the word is %v, want released/0", w)
	}

	for _, c := range []*tally{&arrivals, &pins, &leaves, &grants, &cancels, &ends, &finishes} {
		for e := range c {
			total[e].Add(int64(c.n(Effect(e))))
		}
	}
}

// Goroutines enter and leave a lock that stays held: the path that has to be
// fast. Nobody's step is lost.
func TestHammerRetained(t *testing.T) {
	a := retained(t)
	const goroutines, pairs = 8, 5000
	var wg sync.WaitGroup
	var lost atomic.Int64
	for range goroutines {
		wg.Go(func() {
			for range pairs {
				_, e, n := a.Apply(arrive)
				if e != Entered {
					t.Errorf("arrive: %v", e)
				}
				_, e, m := a.Apply(Word.Leave)
				if e != Left {
					t.Errorf("leave: %v", e)
				}
				lost.Add(int64(n + m))
			}
		})
	}
	wg.Wait()
	if w := a.Load(); w != Pack(Retained, 1) {
		t.Errorf("the word is %v, want retained/1", w)
	}
	t.Logf("%d races lost in %d swaps", lost.Load(), 2*goroutines*pairs)
}
