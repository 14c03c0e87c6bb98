// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"
	"sync"
	"weak"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// home returns the share that counts the holders of s: s, or that of the round that it was
// merged into. Of all shares, only that of a round that was merged is RELEASED before its turn
// has come.
func (s *share) home() *share {
	if s.word.Load().Phase() == state.Released && !s.flags.Load().Has(state.PrevReleased) {
		return s.promises().signals().merged.Load().into
	}
	return s
}

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
	s.merged.Load().add(&n.round.share)
	t.round.lock.m.feed.merged(n)
	t.settleGrant()
	if err := t.lostErr(); err != nil { // at that moment, or admitNext would have seen it
		n.settleWait(Grant{}, err)
	}
	n.settleWait(t.tenure.grant(), nil)
	if n.round.wantsContention() {
		t.round.contention()
	}
	if t.round.flags.Load().Has(state.Contended) {
		n.round.seeContention()
	}
	if r := t.revokedBy(); r != nil {
		n.signals().revoked.Settle(r, nil)
	}
	if err := t.lostErr(); err != nil {
		n.round.lostWith(err)
	}
	if !t.round.flags.Load().Has(state.GrantTold) {
		t.incumbent().entered()
		t.round.flags.Set(state.GrantTold)
	}
}

// lostWith tells the holders of a round that the round that it was merged into is lost.
func (s *share) lostWith(err error) {
	s.promises().signals().lost.Settle(struct{}{}, err)
	s.notifyLost(err)
}

// releasedFuture returns the future of the release of s, or of the share that s was merged
// into. A caller of s may keep the future's channel and nothing else. That does not keep s
// alive, so it says so before it looks where its share is: see mergers.add.
func (s *share) releasedFuture() *futures.Future[struct{}] {
	if s.word.Load().Phase() == state.Fetching {
		s.flags.Set(state.ReleaseAsked)
	}
	return s.home().promises().released.Future()
}

// A mergers is what a round knows of mergers: of a round that was merged into another one,
// which that is, or is to be; of one that others were merged into, those of them whose
// callers still have something from the time before.
type mergers struct {
	into *share // never changes; nil if the round was not merged

	mu    sync.Mutex // protects what follows; held for a few instructions
	all   []weak.Pointer[share]
	asked []*share // those of all with ReleaseAsked: their callers may keep a channel only
}

func (m *mergers) add(s *share) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(slices.DeleteFunc(m.all, func(p weak.Pointer[share]) bool { return p.Value() == nil }), weak.Make(s))
	if s.flags.Load().Has(state.ReleaseAsked) { // after the merge: see releasedFuture
		m.asked = append(m.asked, s)
	}
}

func (m *mergers) list() []weak.Pointer[share] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

// tellMerged calls tell for each round that was merged into this one.
func (p *promises) tellMerged(tell func(*share)) {
	s := p.signalled.Load()
	if s == nil || s.merged.Load() == nil {
		return
	}
	for _, w := range s.merged.Load().list() {
		if n := w.Value(); n != nil {
			tell(n)
		}
	}
}
