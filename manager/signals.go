// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// signals are what a share tells its holders apart from the grant and the release, and
// what only few shares have. They are made on first use.
type signals struct {
	lost      futures.Promise[struct{}] // the share was ended by force; settles with an error only
	losses    callbacks                 // called when lost settles: see onLoss
	readies   callbacks                 // called when the grant has settled: see ready
	contended futures.Promise[struct{}] // this process has seen another one wait: see Contended

	revoked futures.Promise[*Revocation] // a process asks for the lock: see Revoked
	latest  atomic.Pointer[revoking]     // the latest revocation: see blamed; nil: none

	position atomic.Pointer[positionPromise] // settles when the position is known: see whereabouts.known

	upgrade  atomic.Pointer[upgrade] // of an upgradable read lock: made by the first call of Hold.Upgrade
	host     atomic.Pointer[turns]   // of a round of a Mutex's private lock: those of that Mutex
	revokers atomic.Int32            // processes that have revoked the round and still wait
	merged   atomic.Pointer[mergers] // the rounds that were merged into this one, or what this one was merged into: see admitNext; nil: none

	// Set when the share is made, and nil for most.
	group *place // of a round that belongs to a LockAll: its place there

	trace *trace // what the feed knows; its mu protects it. Nil if nothing is told
}

// signals returns the signals, and makes them on first use.
func (p *promises) signals() *signals {
	for {
		if s := p.signalled.Load(); s != nil {
			return s
		}
		p.signalled.CompareAndSwap(nil, new(signals))
	}
}

// lostErr returns why the share was ended by force, or nil if it was not. The
// promise settles before the loss shows anywhere else, so a goroutine that
// noticed the loss finds the error here.
func (p *promises) lostErr() error {
	if s := p.signalled.Load(); s != nil {
		if _, err, ok := s.lost.Future().Poll(); ok {
			return err
		}
	}
	return nil
}

// onLoss registers cb to be called when the share is ended by force; if it has been, cb
// is called at once. If the share ends during the call, cb may be called twice. cb.forget
// takes cb back.
func (p *promises) onLoss(cb *callback) {
	p.signals().losses.add(cb)
	if err := p.lostErr(); err != nil { // also if the list was taken: lost settles before
		cb.ended(err)
	}
}

// notifyLost calls the callbacks given to onLoss. They end contexts, which may call user
// code, so it does so on a goroutine of the manager's. The goroutine that ended the share
// by force calls notifyLost once, after lost has settled.
func (s *share) notifyLost(err error) {
	if all := s.promises().signals().losses.take(); !all.none() {
		s.lock.m.spawn(func() { all.call(err) })
	}
}

// ready returns the future of Hold.Ready for the handle of generation gen, which is
// pending or dead. Nothing that it registers may keep the handle's slot reachable:
// otherwise the garbage collector would never report a Hold that was dropped.
func (s *share) ready(h *handle, gen uint64) *futures.Future[Grant] {
	made, p := s.promises(), new(futures.Promise[Grant])
	tell := func(error) {
		g, err, _ := made.granted.Future().Poll()
		// If the ctx of the hold ends at this moment, granted decides which came
		// first. For a hold that was withdrawn or released, the function given to
		// onRelease settles p.
		if err != nil || h.granted(gen) {
			p.Settle(g, err)
		}
	}
	cb := &callback{ender: enderFunc(tell)}
	made.signals().readies.add(cb)
	h.onReleaseDo(gen, func() {
		cb.forget()
		p.Settle(Grant{}, endedError(opAcquire, s.lock.Name(), h.ended(gen)))
	})
	// settleWait settles the grant before it takes the callbacks, so either it takes tell
	// or the grant shows here.
	if made.granted.Settled() {
		cb.forget()
		tell(nil)
	}
	return p.Future()
}

// notifyReady calls the callbacks that ready registered. They only settle promises, so
// no user code runs on this goroutine. It is called once the grant has settled.
func (p *promises) notifyReady() {
	if s := p.signalled.Load(); s != nil {
		s.readies.take().call(nil)
	}
}

// contention returns the channel of Hold.Contended, and has its owner see to it that the
// queue is looked at.
func (s *share) contention() <-chan struct{} {
	signals := s.promises().signals()
	if !s.flags.Load().Has(state.ContentionAsked) && !s.flags.Set(state.ContentionAsked).Has(state.ContentionAsked) &&
		s.word.Load().Phase() == state.Retained {
		// A share that is granted later is found to have ContentionAsked then: see grant.
		s.owner().contentionAsked()
	}
	if home := s.home(); home != s { // merged as the caller came: see merged
		home.contention()
	}
	// seeContention sets Contended and then looks for the signals; we have made the
	// signals and now look for Contended. At least one of us sees the other.
	if s.flags.Load().Has(state.Contended) {
		signals.contended.Settle(struct{}{}, nil)
	}
	return signals.contended.Future().Done()
}

// seeContention notes that another process waits for the lock.
func (s *share) seeContention() {
	if !s.flags.Load().Has(state.Contended) {
		s.flags.Set(state.Contended)
	}
	p := s.promises()
	if signals := p.signalled.Load(); signals != nil {
		signals.contended.Settle(struct{}{}, nil)
	}
	p.tellMerged((*share).seeContention)
	p.tellMutex()
}

// wantsContention reports whether a holder has called Contended, and no waiter was seen yet.
func (s *share) wantsContention() bool {
	return s.flags.Load()&(state.ContentionAsked|state.Contended) == state.ContentionAsked
}

// place returns the round's place in a group; nil if it belongs to none.
func (p *promises) place() *place {
	if s := p.signalled.Load(); s != nil {
		return s.group
	}
	return nil
}

// raised returns the upgrade of the round; nil if there is none.
func (p *promises) raised() *upgrade {
	if s := p.signalled.Load(); s != nil {
		return s.upgrade.Load()
	}
	return nil
}
