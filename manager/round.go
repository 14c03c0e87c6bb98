// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/state"
)

// A round is the life of a lock from FREE to RELEASED: the process asks for the
// lock, holds it and gives it up. A round owns the lock's word while it is the
// present one: it is the word of its share. It is never reused,
// so a compare-and-swap on its word affects that round only, and a hold of a dead
// round cannot touch another round's count.
//
// The rounds of a lock form a chain, linked by next, and Lock.cur is the present
// one. A newcomer that finds a round closed to newcomers goes on to the next, and
// makes it if need be; once counted there, it is in line. A model checker has
// gone through the rules of the chain:
//
//   - next is set by CAS(nil -> new), and stays, with one exception: a round that is held
//     may take the next one out of the chain, and goes on to the one after it: see
//     admitNext. When the round is RELEASED, its releaser sets next if it is still nil,
//     stores it in Lock.cur, and only then replaces it by passed. So cur only moves
//     forward, the chain never leads back, and an old Hold that keeps this round alive
//     keeps no later one alive.
//   - Only cur is ever fetched. The fetch is due when the round is wanted (its
//     word has left FREE) and its predecessor is RELEASED: its turn has come. Both are flags of one
//     atomic word, and the goroutine that sets the second one submits the fetch.
//     Nothing else wakes the round's I/O before that, though the predecessor may
//     create the round's node in the request that deletes its own.
//   - A round that is ended by force before its predecessor is RELEASED waits for
//     it: rounds become RELEASED in the order of the chain.
//
// An idle lock has a round that no caller has entered yet, so a round is small.
// What it needs for its first caller and for ZooKeeper is in its roundIO, made before that
// caller is counted.
type round struct {
	share
	next atomic.Pointer[round] // nil, then the next round, then passed
}

// newRound returns a round of l that no caller has come to.
func newRound(l *Lock) *round {
	r := new(round)
	r.lock = l
	return r
}

// passed is the next of a round that is RELEASED and not, or no longer, Lock.cur, or that was
// never in the chain. A caller that finds it starts again at Lock.cur.
var passed = new(round)

// io returns the round's roundIO. It makes it for the first caller.
func (r *round) io() *roundIO {
	if p := r.promises(); p != nil {
		return p.io
	}
	return r.makeIO()
}

func (r *round) makeIO() *roundIO {
	t := &roundIO{round: r}
	t.promises.io = t
	if r.made.CompareAndSwap(nil, &t.promises) {
		return t
	}
	return r.promises().io // another goroutine was first
}

// following returns the round after r, or passed.
func (r *round) following() *round {
	if n := r.next.Load(); n != nil {
		return n
	}
	n := newRound(r.lock)
	if r.next.CompareAndSwap(nil, n) {
		return n
	}
	return r.next.Load()
}

// arrive counts the caller in this round, or in the first after it that takes
// newcomers. If pass is true the caller passes a closed gate. arrive returns the
// round, what the caller is there (Started, Joined or Entered; or Full: not
// counted), and the number of CAS races lost on the way.
//
// It takes no lock and does no I/O. It reads the clock only if it enters a round that
// may linger. After Started it submits the fetch if that is due.
func (r *round) arrive(pass bool) (_ *round, e state.Effect, lost int) {
	for {
		if r.word.Load().Phase() == state.Free {
			r.io() // before the word says that a caller is counted
		}
		var n int
		var w state.Word
		w, e, n = r.word.Apply(func(w state.Word) (state.Word, state.Effect) {
			// The gate is read between the load of the word and its swap. If it
			// closes right after, one more holder slips in, which is harmless.
			return w.Arrive(!pass && r.flags.Load().Has(state.GateClosed))
		})
		lost += n
		switch e {
		case state.Next:
			//holdfast:reached-if !pass && r.word.Load().Phase() == state.Retained: gate: a newcomer goes to the next round
			if next := r.following(); next != passed {
				r = next
			} else {
				//holdfast:reached arrival: the round is passed, starts again at the present one
				r = r.lock.cur.Load()
			}
		case state.Started:
			// Only now, after the CAS: a fetch that began earlier would find the
			// round FREE.
			if f := r.lock.m.feed; f.hears(r.lock) {
				f.began(r.io())
			}
			r.want()
			return r, e, lost
		default:
			if e == state.Entered && r.flags.Load().Has(state.Lingers) && !r.confirm(w) {
				continue
			}
			//holdfast:reached-if e == state.Entered && !pass && r.flags.Load().Has(state.GateClosed): gate: a newcomer slipped past it as it closed
			//holdfast:reached-if lost > 0: arrival: lost a race
			return r, e, lost
		}
	}
}

// want notes that a caller's CAS has started the round. If the predecessor is
// RELEASED already, the fetch is due; otherwise its releaser submits it.
func (r *round) want() {
	switch old := r.flags.Set(state.Wanted); {
	case !old.Has(state.PrevReleased):
		r.askIn()
	case !old.Has(state.Over):
		r.io().wake()
	}
}

// left carries out effect e of a departure.
func (t *roundIO) left(e state.Effect) {
	r := t.round
	switch e {
	case state.Idled:
		t.incumbent().idled()
	case state.Ended:
		t.settleGrant() // ending a round settles what is pending in it
		// This is the one look at the clock in a Release, by the round's last
		// holder: later there is no telling whether the lock was still ours now.
		if t.tenure.lease.InForce() {
			t.end(releasedHeld)
		} else {
			//holdfast:reached release: the last holder left when the lease was over
			t.end(releasedLate)
		}
	case state.Withdrawn:
		// The round stays joinable: a new arrival may undo the withdrawal. If the
		// fetch is not due yet there is nothing to cancel, and the fetch will
		// find out. It looks at the word after both flags are set, and we look at
		// the flags after changing the word: at least one sees the other.
		due := r.due()
		//holdfast:reached-if !due: withdrawal: of a round whose turn has not come
		if due {
			// A caller that joins now must not see a position that is no longer
			// kept up to date. The wake makes the step list the queue again.
			t.whereabouts().clear()
			t.raise(state.QueueDue)
		}
	}
}

// due reports whether the round's I/O may be woken: its predecessor is RELEASED,
// and the round is wanted or has been ended by force.
func (r *round) due() bool {
	f := r.flags.Load()
	return f.Has(state.PrevReleased|state.Wanted) || f.Has(state.PrevReleased|state.Over)
}

// waits reports whether callers wait in the round.
func (r *round) waits() bool {
	w := r.word.Load()
	return w.Phase() == state.Fetching && w.Holders() > 0
}

// urgent reports whether the round's next step removes something from ZooKeeper: the
// round is over, or every caller has left it. An idle round is as urgent, since other
// processes may wait for its look.
func (r *round) urgent() bool {
	w := r.word.Load()
	return w.Phase() >= state.Releasing || w.Phase() == state.Fetching && w.Holders() == 0 || w.Idle()
}

// ended carries out the end by force of a round; w was the word before.
func (t *roundIO) ended(w state.Word, err *Error) {
	r := t.round
	if w.Idle() {
		//holdfast:reached linger: lost while idle
		r.lock.m.feed.lostIdle(t, err)
		t.endedIdle()
		return
	}
	if w.Phase() == state.Retained {
		t.teller().lost(err)
	} else {
		t.teller().failed(err)
	}
	r.tellEnded(err)
	t.tellMutex()
	for _, tr := range t.traits() {
		tr.ended(t, err)
	}
	// If the predecessor is not RELEASED yet, its releaser wakes this round.
	due := r.flags.Set(state.Over).Has(state.PrevReleased)
	//holdfast:reached-if !due: forced end: of a round whose turn has not come
	if due {
		t.wake()
	}
}

// finish makes the round RELEASED and hands the lock on to the next one, in this
// order; see the rules above. It is called once, by the round's last step.
func (r *round) finish(h *handed) {
	r.word.Apply(state.Word.Finish)
	if r.next.Load() == passed {
		return // it is in no chain
	}
	n := r.following()
	r.lock.cur.Store(n)
	r.next.Store(passed)
	if h != nil {
		r.lock.handed.Store(h)
	}
	old := n.flags.Set(state.PrevReleased)
	if old.Has(state.Over) || old.Has(state.Wanted) {
		n.io().wake()
	}
}
