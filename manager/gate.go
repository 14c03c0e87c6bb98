// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	"github.com/holdfast-go/holdfast/state"
	"github.com/holdfast-go/holdfast/zkio"
)

// The gate of a granted round is open to newcomers until there is a reason to close it:
//
//   - a contender of another process has waited for Config.Tenure: see tenure. The round
//     then watches the node of that contender;
//   - another lock of the pair, in this process, waits for this one: see RWLock.closeGate;
//   - a process has revoked the lock, and still waits: see revoke.
//
// When the last reason is gone and the round goes on, the gate opens again. Otherwise one
// contender that gave up would shut the process's own newcomers out for as long as its
// holders hold the lock. It does not matter that other contenders wait by then: each
// closes the gate in its turn, when looks have seen it wait for a tenure. One that stays
// is the first of them sooner or later, and then the gate stays closed until it has had
// the lock.
//
// Steps open the gate, and nothing else does. Another goroutine that closes it makes its
// reason known first, and a step that is about to open it then does not: see
// [state.GateOpening]. So no reason is overlooked, and no newcomer enters once a reason is
// known.
//
// Behind a closed gate, newcomers wait in the next round, and would wait there until this
// one is over. So a step that finds the gate open merges the next round into this one:
// see admitNext. There are two sides again. The first that waits in the next round makes
// its word FETCHING and then looks at the gate; a step opens the gate and then looks at
// that word. At least one sees the other.

// closeGate keeps newcomers out of a round that was granted: they go to the next one. The
// round ends if it is idle: its last holder may have left when the caller's reason was
// over, and before the gate was closed.
func (r *round) closeGate() {
	r.flags.Clear(state.GateOpening)
	if old := r.flags.Set(state.GateClosed); !old.Has(state.GateClosed) {
		if f := r.lock.m.feed; f.hears(r.lock) {
			f.once(r.io(), EventYielded)
		}
	}
	r.endIdle()
}

// gateClosed reports whether the gate keeps newcomers out.
func (r *round) gateClosed() bool { return r.flags.Load().Has(state.GateClosed) }

// closeFor closes the gate for the contender called name.
func (t *incumbent) closeFor(s *zkio.Session, name string) next {
	a := &ahead{io: t.io, path: t.round.lock.pathOf(name)}
	t.round.lock.m.client.Watch(a.path, a)
	t.io.meet().closedFor = a
	if !a.arm(s) {
		t.unwatchClosedFor()
		return retry
	}
	if a.isGone() {
		t.unwatchClosedFor()
		t.lookSoon() // another one may wait
		return goOn
	}
	//holdfast:reached gate: closed by the tenure
	t.round.closeGate()
	return goOn
}

// unwatchClosedFor forgets the contender that the gate was closed for.
func (t *incumbent) unwatchClosedFor() {
	if a := t.io.near().closedFor; a != nil {
		t.neighbours.closedFor = nil
		t.round.lock.unwatch(&watching{ahead: [maxWatched]*ahead{a}})
	}
}

// seeToGate opens the gate of a round that is held if there is no reason left to keep it
// closed, and lets in those who wait behind an open gate. If look is set, it makes sure
// that the contender that the gate is closed for is there, whatever the watch has told.
func (t *incumbent) seeToGate(s *zkio.Session, look bool) next {
	r := t.round
	if r.gateClosed() {
		if a := t.io.near().closedFor; a != nil {
			if (look || a.changed.Load()) && !a.isGone() && !a.arm(s) {
				return retry
			}
			if !a.isGone() {
				return goOn
			}
			t.unwatchClosedFor()
		}
		if t.keepsOut() || !t.openGate() {
			return goOn
		}
	}
	r.admitNext()
	return goOn
}

// recheckGate has a step make sure that the contender that the gate is closed for is there,
// in case a watch event was lost, and reports whether it did.
func (t *incumbent) recheckGate() bool {
	m := t.round.lock.m
	if !t.round.gateClosed() || m.now()-t.tenure.lookedAt.Load() < int64(rotationTimeout) {
		return false
	}
	t.tenure.lookedAt.Store(m.now())
	t.io.raiseLater(state.QueueDue)
	return true
}

// keepsOut reports whether other goroutines have a reason to keep the gate closed.
func (t *incumbent) keepsOut() bool {
	if s := t.signalled.Load(); s != nil && s.revokers.Load() > 0 {
		return true
	}
	return slices.ContainsFunc(t.io.traits(), func(tr trait) bool { return tr.keepsOut(t.io) })
}

// openGate opens the gate unless there is a reason by now to leave it closed, and reports
// whether it did.
func (t *incumbent) openGate() bool {
	r := t.round
	r.flags.Set(state.GateOpening)
	if t.keepsOut() || !r.flags.ClearIf(state.GateClosed|state.GateOpening) {
		//holdfast:reached gate: wanted closed again as it opened
		return false // the next step that opens it begins anew
	}
	//holdfast:reached gate: opened again
	t.io.suspected(noSuspect, false)
	if t.mayClose() || t.round.wantsContention() {
		t.lookSoon() // while it was closed, no look saw which contenders wait
	}
	return true
}

// stirGates wakes the other locks of the pair whose gates are closed: l may have been the
// reason, and does not wait any longer.
func (rw *RWLock) stirGates(l *Lock) {
	for other := range rw.locks() {
		if r := other.cur.Load(); other != l && r.gateClosed() && r.word.Load().Phase() == state.Retained {
			r.io().wake()
		}
	}
}

// askIn is called when the first caller has begun to wait in r, whose turn has not come. If
// the gate that sent it there has opened since, a step of the present round lets it in.
func (r *round) askIn() {
	if cur := r.lock.cur.Load(); cur != r && !cur.gateClosed() && cur.word.Load().Phase() == state.Retained {
		//holdfast:reached gate: opened as a newcomer went to the next round
		cur.io().wake()
	}
}

// admitNext makes holders of this round of those who wait in the next one, which ends by
// that. The round's step calls it, of a round whose gate is open. If the gate closes meanwhile,
// those who came to the next round because of that stay there. Until its turn comes the next
// round has no node and no steps, so its word says all.
//
// Their Holds still point to the next round. A method of Hold that finds it RELEASED, and
// that its turn never came, goes on to this one: see home. So whatever a holder does, it
// does to the round that counts it.
//
// The chain leads forward all the while, for those that range over it: the round that
// comes after the next one is there before the next one is taken out.
func (r *round) admitNext() {
	n := r.next.Load()
	if n == nil || n == passed || n.word.Load().Phase() != state.Fetching {
		return
	}
	// Count them here before they can leave here, and first of all ourselves: then the
	// round is not over before we are done, unless it is ended by force.
	counted := n.word.Load().Holders()
	if !r.letIn(counted + 1) {
		return
	}
	defer func() {
		for range counted + 1 {
			r.leave()
		}
	}()
	n.io().signals().merged.Store(&mergers{into: &r.share}) // it counts only once n is merged
	after := n.following()
	for {
		w := n.word.Load()
		for ; counted > w.Holders(); counted-- {
			r.leave()
		}
		if more := w.Holders() - counted; more > 0 && w.Phase() == state.Fetching {
			if !r.letIn(more) {
				return
			}
			counted = w.Holders()
		}
		e, shut := r.mergeNext(n, w)
		switch e {
		case state.Merged:
			// Callers that came to n meanwhile have gone on to the one after it, and ask to
			// be let in: see askIn. Those that still come start again at this one.
			r.next.Store(after)
			n.next.Store(passed)
			r.io().merged(n.io(), counted > 0)
			counted = 0 // they are holders
			return
		case state.Dead:
			// Ended by force as we came. It keeps its place.
			//holdfast:reached gate: the next round failed as it was to be let in
			return
		}
		if shut {
			//holdfast:reached gate: closed again as those who waited were to be let in
			return
		}
	}
}

// mergeNext makes the next round one with this one if its word is w still, for which holders are
// counted. It does nothing, and reports shut, if this round takes no newcomers any more.
func (r *round) mergeNext(n *round, w state.Word) (e state.Effect, shut bool) {
	_, e, _ = n.word.Apply(func(now state.Word) (state.Word, state.Effect) {
		// The gate is read between the load of the word and its swap, as in arrive: if it
		// is open, all that are counted came before it closed. If this round has been lost
		// meanwhile, they stay where they are, and queue again.
		shut = r.gateClosed() || r.word.Load().Phase() != state.Retained
		if shut || now != w {
			return now, state.Nothing
		}
		return now.Merge()
	})
	return e, shut
}

// letIn counts n more holders of the round, which the caller answers for. It reports false
// if there are none to be had: the round is over, or full.
func (r *round) letIn(n int) bool {
	_, e, lost := r.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.LetIn(n) })
	r.lock.noteRaces(lost)
	return e == state.Entered
}
