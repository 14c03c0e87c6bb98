// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// signals are what a round tells its holders apart from the grant and the release, and
// what only few rounds have. They are made on first use.
type signals struct {
	lost      futures.Promise[struct{}] // the round was ended by force; settles with an error only
	losses    callbacks                 // called when lost settles: see onLoss
	readies   callbacks                 // called when the grant has settled: see ready
	contended futures.Promise[struct{}] // this process has seen another one wait: see Contended

	revoked futures.Promise[*Revocation] // a process asks for the lock: see Revoked

	position atomic.Pointer[positionPromise] // settles when the position is known: see positionKnown

	upgrade  atomic.Pointer[upgrade]    // of an upgradable read lock: made by the first call of Hold.Upgrade
	member   atomic.Pointer[membership] // of a Mutex; nil for the rounds of other locks
	revokers atomic.Int32               // processes that have revoked the round and still wait
	merged   atomic.Pointer[mergers]    // the rounds that were merged into this one: see admitNext; nil: none

	mergedInto atomic.Pointer[round] // the round that this one was, or is to be, merged into: see home

	group *place // of a round that belongs to a LockAll: its place there; set when the round is made. Else nil
	trace *trace // what the feed knows; its mu protects it. Nil if nothing is told
}

// signals returns the round's signals, and makes them on first use.
func (t *roundIO) signals() *signals {
	for {
		if s := t.signalled.Load(); s != nil {
			return s
		}
		t.signalled.CompareAndSwap(nil, new(signals))
	}
}

// lostErr returns why the round was ended by force, or nil if it was not. The
// promise settles before the loss shows anywhere else, so a goroutine that
// noticed the loss finds the error here.
func (t *roundIO) lostErr() error {
	if s := t.signalled.Load(); s != nil {
		if _, err, ok := s.lost.Future().Poll(); ok {
			return err
		}
	}
	return nil
}

// onLoss registers fn to be called when the round is ended by force; if it has been, fn
// is called at once. If the round ends during the call, fn may be called twice. forget
// takes fn back.
func (t *roundIO) onLoss(fn func(error)) (forget func()) {
	forget, _ = t.signals().losses.add(fn)
	if err := t.lostErr(); err != nil { // also if the list was taken: lost settles before
		fn(err)
	}
	return forget
}

// notifyLost calls the functions given to onLoss. They end contexts, which may call user
// code, so it does so on a goroutine of the manager's. The goroutine that ended the round
// by force calls notifyLost once, after lost has settled.
func (t *roundIO) notifyLost(err error) {
	if fns := t.signals().losses.take(); len(fns) > 0 {
		t.round.lock.m.spawn(func() {
			for fn := range fns {
				(*fn)(err)
			}
		})
	}
}

// ready returns the future of Hold.Ready for the handle of generation gen, which is
// pending or dead. Nothing that it registers may keep the handle's slot reachable:
// otherwise the garbage collector would never report a Hold that was dropped.
func (t *roundIO) ready(h *handle, gen uint64) *futures.Future[Grant] {
	p := new(futures.Promise[Grant])
	tell := func(error) {
		g, err, _ := t.granted.Future().Poll()
		// If the ctx of the hold ends at this moment, granted decides which came
		// first. For a hold that was withdrawn or released, the function given to
		// onRelease settles p.
		if err != nil || h.granted(gen) {
			p.Settle(g, err)
		}
	}
	forget, _ := t.signals().readies.add(tell)
	h.onRelease(gen, func() {
		forget()
		p.Settle(Grant{}, endedError(opAcquire, t.round.lock, h.ended(gen)))
	})
	// settleWait settles the grant before it takes the functions, so either it takes tell
	// or the grant shows here.
	if t.granted.Settled() {
		forget()
		tell(nil)
	}
	return p.Future()
}

// notifyReady calls the functions that ready registered. They only settle promises, so
// no user code runs on this goroutine. It is called once the grant has settled.
func (t *roundIO) notifyReady() {
	if s := t.signalled.Load(); s != nil {
		for tell := range s.readies.take() {
			(*tell)(nil)
		}
	}
}

// contention returns the channel of Hold.Contended, and has steps look at the queue if
// they would not otherwise.
func (t *roundIO) contention() <-chan struct{} {
	done := t.signals().contended.Future().Done()
	if !t.events.Load().Has(state.ContentionAsked) && t.events.Raise(state.ContentionAsked) &&
		t.round.word.Load().Phase() == state.Retained {
		// A round that is granted later finds ContentionAsked by itself: see grant.
		t.lookForContention()
	}
	if home := t.round.home(); home != t.round { // merged as the caller came: see merged
		home.io().contention()
	}
	// seeContention raises Contended and then looks for the signals; we have made the
	// signals and now look for Contended. At least one of us sees the other.
	if t.events.Load().Has(state.Contended) {
		t.signals().contended.Settle(struct{}{}, nil)
	}
	return done
}

// seeContention notes that another process waits for the lock.
func (t *roundIO) seeContention() {
	if !t.events.Load().Has(state.Contended) {
		t.events.Raise(state.Contended)
	}
	if s := t.signalled.Load(); s != nil {
		s.contended.Settle(struct{}{}, nil)
	}
	t.tellMerged((*roundIO).seeContention)
	t.tellMutex()
}

// wantsContention reports whether a holder has called Contended, and steps have seen no
// waiter yet.
func (t *roundIO) wantsContention() bool {
	return t.events.Load()&(state.ContentionAsked|state.Contended) == state.ContentionAsked
}
