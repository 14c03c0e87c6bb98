// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// signals are what a round tells its holders beside the grant and the release. Few
// rounds have a holder that listens, so they are made on first use.
type signals struct {
	lost      futures.Promise[struct{}] // the round was ended by force; settles with an error only
	losses    callbacks                 // to be called then: see onLoss
	readies   callbacks                 // to be called when the grant has settled: see ready
	contended futures.Promise[struct{}] // another process waits for the lock

	revoked futures.Promise[Revocation] // another process asks for the lock: see revoke.go
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

// lostErr returns why the round was ended by force, and nil if it was not. The
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

// onLoss has fn called when the round is ended by force, or at once if it has
// been; in a race perhaps twice. forget takes fn back.
func (t *roundIO) onLoss(fn func(error)) (forget func()) {
	forget, _ = t.signals().losses.add(fn)
	if err := t.lostErr(); err != nil { // also if the list was taken: lost settles before
		fn(err)
	}
	return forget
}

// notifyLost calls the functions given to onLoss on a goroutine of the manager's:
// it ends contexts, which may call user code. The goroutine that ended the round
// by force calls it once, after lost has settled.
func (t *roundIO) notifyLost(err error) {
	if fns := t.signals().losses.take(); len(fns) > 0 {
		t.round.lock.m.spawn(func() {
			for fn := range fns {
				(*fn)(err)
			}
		})
	}
}

// ready returns a future of what becomes of the wait of the handle of generation
// gen, which is pending or dead. It must not lead to the handle's slot, or a
// dropped Hold would never be noticed.
func (t *roundIO) ready(h *handle, gen uint64) *futures.Future[Grant] {
	p := new(futures.Promise[Grant])
	tell := func(error) {
		g, err, _ := t.granted.Future().Poll()
		// If the ctx of the hold has ended just now, granted decides which came
		// first. A hold that was withdrawn or released has called the other function.
		if err != nil || h.granted(gen) {
			p.Settle(g, err)
		}
	}
	forget, _ := t.signals().readies.add(tell)
	h.onRelease(gen, func() {
		forget()
		p.Settle(Grant{}, endedError(opAcquire, t.round.lock, h.ended(gen)))
	})
	// settleWait settles the grant before it takes the functions.
	if t.granted.Settled() {
		forget()
		tell(nil)
	}
	return p.Future()
}

// notifyReady calls the functions of ready. They settle promises, which runs no
// user code on this goroutine. It is called once the grant has settled.
func (t *roundIO) notifyReady() {
	if s := t.signalled.Load(); s != nil {
		for tell := range s.readies.take() {
			(*tell)(nil)
		}
	}
}

// contention returns the channel that closes when another process is seen to wait
// for the lock, and has the process look for one.
func (t *roundIO) contention() <-chan struct{} {
	done := t.signals().contended.Future().Done()
	if !t.events.Load().Has(state.ContentionAsked) && t.events.Raise(state.ContentionAsked) &&
		t.round.word.Load().Phase() == state.Retained {
		// A round that is granted from now on finds ContentionAsked: see grant.
		t.lookForContention()
	}
	// seeContention raises Contended before it looks for the signals, and this is
	// the other way round: at least one sees the other.
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
}

// wantsContention reports whether a holder has asked whether other processes wait,
// and none was seen yet.
func (t *roundIO) wantsContention() bool {
	return t.events.Load()&(state.ContentionAsked|state.Contended) == state.ContentionAsked
}
