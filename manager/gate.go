// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/holdfast-go/holdfast/futures"
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
			f.yielded(r.io())
		}
	}
	r.endIdle()
}

// gateClosed reports whether the gate keeps newcomers out.
func (r *round) gateClosed() bool { return r.flags.Load().Has(state.GateClosed) }

// closeFor closes the gate for the contender called name. It reports false if the request
// failed and is to be repeated.
func (t *roundIO) closeFor(s *zkio.Session, name string) (ok bool) {
	a := &ahead{io: t, path: t.round.lock.path + "/" + name}
	t.round.lock.m.client.Watch(a.path, a)
	t.meet().closedFor = a
	if !a.arm(s) {
		t.unwatchClosedFor()
		return false
	}
	if a.gone.Load() {
		t.unwatchClosedFor()
		t.lookSoon() // another one may wait
		return true
	}
	//holdfast:reached gate: closed by the tenure
	t.round.closeGate()
	return true
}

// unwatchClosedFor forgets the contender that the gate was closed for.
func (t *roundIO) unwatchClosedFor() {
	if a := t.near().closedFor; a != nil {
		t.neighbours.closedFor = nil
		t.unwatch(&watching{ahead: [maxWatched]*ahead{a}})
	}
}

// arm sets the watch of a contender, which is registered, and notes whether it has gone. It
// reports false if that is not known.
func (a *ahead) arm(s *zkio.Session) (ok bool) {
	a.changed.Store(false)
	_, _, err := s.Get(a.path)
	if errors.Is(err, zkio.ErrNoAuth) {
		_, err = a.watchUnreadable(s)
	}
	if errors.Is(err, zkio.ErrNoNode) {
		a.gone.Store(true)
		err = nil
	}
	if err != nil {
		a.changed.Store(true)
	}
	return err == nil
}

// seeToGate opens the gate of a round that is held if there is no reason left to keep it
// closed, and lets in those who wait behind an open gate. If look is set, it makes sure
// that the contender that the gate is closed for is there, whatever the watch has told. It
// reports false if a request failed and is to be repeated.
func (t *roundIO) seeToGate(s *zkio.Session, look bool) (ok bool) {
	r := t.round
	if t.place() != nil {
		return true // its gate is no newcomer's
	}
	if r.gateClosed() {
		if a := t.near().closedFor; a != nil {
			if (look || a.changed.Load()) && !a.gone.Load() && !a.arm(s) {
				return false
			}
			if !a.gone.Load() {
				return true
			}
			t.unwatchClosedFor()
		}
		if t.keepsOut() || !t.openGate() {
			return true
		}
	}
	r.admitNext()
	return true
}

// recheckGate has a step make sure that the contender that the gate is closed for is there,
// in case a watch event was lost, and reports whether it did.
func (t *roundIO) recheckGate() bool {
	m := t.round.lock.m
	if !t.round.gateClosed() || m.now()-t.tenure.lookedAt.Load() < int64(rotationTimeout) {
		return false
	}
	t.tenure.lookedAt.Store(m.now())
	t.raiseLater(state.QueueDue)
	return true
}

// keepsOut reports whether other goroutines have a reason to keep the gate closed.
func (t *roundIO) keepsOut() bool {
	if s := t.signalled.Load(); s != nil && s.revokers.Load() > 0 {
		return true
	}
	l := t.round.lock
	return l.rw != nil && l.m.cfg.Tenure >= 0 && l.rw.awaited(l)
}

// openGate opens the gate unless there is a reason by now to leave it closed, and reports
// whether it did.
func (t *roundIO) openGate() bool {
	r := t.round
	r.flags.Set(state.GateOpening)
	if t.keepsOut() || !r.flags.ClearIf(state.GateClosed|state.GateOpening) {
		//holdfast:reached gate: wanted closed again as it opened
		return false // the next step that opens it begins anew
	}
	//holdfast:reached gate: opened again
	t.suspected(noSuspect, false)
	if t.mayClose() || t.wantsContention() {
		t.lookSoon() // while it was closed, no look saw which contenders wait
	}
	return true
}

// revokerLeft notes that a process that has revoked the round does not wait any longer.
func (t *roundIO) revokerLeft() {
	t.signals().revokers.Add(-1)
	t.wake()
}

// revokerLeavesAfter is for a revoker that does not say how long it waits.
func (t *roundIO) revokerLeavesAfter(d time.Duration) {
	t.round.lock.m.client.SubmitAfter(d, zkio.Fetches, task(func(*zkio.Session) { t.revokerLeft() }))
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
	n.io().signals().mergedInto.Store(r) // it counts only once n is merged
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
		closed := false
		switch _, e, _ := n.word.Apply(func(now state.Word) (state.Word, state.Effect) {
			// The gate is read between the load of the word and its swap, as in arrive: if it
			// is open, all that are counted came before it closed.
			if closed = r.gateClosed(); closed || now != w { // counted has to follow
				return now, state.Nothing
			}
			return now.Merge()
		}); e {
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
		if closed {
			//holdfast:reached gate: closed again as those who waited were to be let in
			return
		}
	}
}

// letIn counts n more holders of the round, which the caller answers for. It reports false
// if there are none to be had: the round is over, or full.
func (r *round) letIn(n int) bool {
	_, e, lost := r.word.Apply(func(w state.Word) (state.Word, state.Effect) { return w.LetIn(n) })
	r.lock.noteRaces(lost)
	return e == state.Entered
}

// home returns the round that counts the holders of r: r, or the round that it was merged
// into. Of all rounds, only one that was merged is RELEASED before its turn has come.
func (r *round) home() *round {
	if r.word.Load().Phase() == state.Released && !r.flags.Load().Has(state.PrevReleased) {
		return r.io().signals().mergedInto.Load()
	}
	return r
}

// io returns the roundIO of the round that counts the holder.
func (h Hold) io() *roundIO { return h.round.home().io() }

// merged settles what the waiters of n have been waiting for, whose round was merged into
// that of t. If waited is not set, all had given up.
func (t *roundIO) merged(n *roundIO, waited bool) {
	if !waited {
		//holdfast:reached gate: opened when the last that waited behind it had given up
		n.round.flags.Set(state.PrevReleased) // its turn came and went: see home
		n.abandoned()
		n.released.Settle(struct{}{}, n.endReason.Load().err)
		return
	}
	//holdfast:reached gate: let in those who waited behind it
	// What holders have got from n while they waited (channels, futures, contexts) is told
	// from now on what t is told. The list first and the look then; t is changed before
	// its list is read.
	s := t.signals()
	s.merged.CompareAndSwap(nil, new(mergers))
	s.merged.Load().add(n)
	t.round.lock.m.feed.merged(n)
	t.settleGrant()
	n.settleWait(t.tenure.grant(), nil)
	if n.wantsContention() {
		t.contention()
	}
	if t.events.Load().Has(state.Contended) {
		n.seeContention()
	}
	if r := t.revokedBy(); r != nil {
		n.signals().revoked.Settle(r, nil)
	}
	if err := t.lostErr(); err != nil {
		n.lostWith(err)
	}
	if !t.round.flags.Load().Has(state.GrantTold) {
		t.entered()
		t.round.flags.Set(state.GrantTold)
	}
}

// lostWith tells the holders of a round that the round that it was merged into is lost.
func (t *roundIO) lostWith(err error) {
	t.signals().lost.Settle(struct{}{}, err)
	t.notifyLost(err)
}

// releasedFuture returns the future of the release of r, or of the round that r was merged
// into. A caller of r may keep the future's channel and nothing else. That does not keep r
// alive, so it says so before it looks where its round is: see mergers.add.
func (r *round) releasedFuture() *futures.Future[struct{}] {
	if r.word.Load().Phase() == state.Fetching {
		r.flags.Set(state.ReleaseAsked)
	}
	return r.home().io().released.Future()
}

// A mergers is a list of rounds that were merged into one, as far as their callers still
// have something from the time before.
type mergers struct {
	mu    sync.Mutex // protects what follows; held for a few instructions
	all   []weak.Pointer[roundIO]
	asked []*roundIO // those of all with ReleaseAsked: their callers may keep a channel only
}

func (m *mergers) add(t *roundIO) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(slices.DeleteFunc(m.all, func(p weak.Pointer[roundIO]) bool { return p.Value() == nil }), weak.Make(t))
	if t.round.flags.Load().Has(state.ReleaseAsked) { // after the merge: see releasedFuture
		m.asked = append(m.asked, t)
	}
}

func (m *mergers) list() []weak.Pointer[roundIO] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

// tellMerged calls tell for each round that was merged into that of t.
func (t *roundIO) tellMerged(tell func(*roundIO)) {
	s := t.signalled.Load()
	if s == nil || s.merged.Load() == nil {
		return
	}
	for _, p := range s.merged.Load().list() {
		if n := p.Value(); n != nil {
			tell(n)
		}
	}
}

// settleReleased settles the release that all holders of the round share.
func (t *roundIO) settleReleased(err error) {
	t.released.Settle(struct{}{}, err)
	t.tellMerged(func(n *roundIO) { n.released.Settle(struct{}{}, err) })
}
