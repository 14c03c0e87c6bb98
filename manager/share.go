// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/state"
)

// A share is what the holders of a round have in common, or what the one holder of a
// Mutex's turn has: the word that counts them, and the promises that tell them of the
// grant, the release and the loss. A Hold points to the share that counts its holder.
//
// What a share belongs to, its owner, does the rest. A round takes it to ZooKeeper and
// back. A turn gets it from a round of the Mutex's private lock.
type share struct {
	lock *Lock

	// made is set before the word leaves FREE, and stays. So a goroutine that finds a caller
	// counted finds the promises, too.
	made  atomic.Pointer[promises]
	word  state.Atomic
	flags state.AtomicFlags
}

// promises are what a share needs as soon as a caller is counted there.
type promises struct {
	io *roundIO // of the round that the share belongs to; nil: it belongs to a turn

	granted   futures.Promise[Grant]    // this process has the lock
	released  futures.Promise[struct{}] // the node is gone
	signalled atomic.Pointer[signals]   // nil: no holder listens, and the share was not ended by force

	endReason atomic.Pointer[endReason] // set after the CAS that ended the share, before the wake

	// tenure is what a held share needs. The granter writes it before its CAS to
	// RETAINED. A goroutine that has seen the word RETAINED may read it, and so may
	// one that knows that the share was granted.
	tenure *tenure
}

// endReason is why a share is over.
type endReason struct {
	err  error // nil: its last holder left
	late bool  // it did when the lease was over
	idle bool  // it had left before, when the lock was held: see linger.go

	// The node must not be deleted before this moment on the manager's clock.
	notBefore int64
}

var (
	releasedHeld = &endReason{}
	releasedLate = &endReason{late: true}
	releasedIdle = &endReason{idle: true}
)

// A shareOwner is what a share belongs to: the roundIO of its round, or its turn. It is told of
// what changes the word, by the goroutine whose CAS has done that, and does not block.
type shareOwner interface {
	// left: a departure had effect e. It is not called for Left, which changes the count only.
	left(e state.Effect)
	// ended: the share was ended by force, and w was the word before.
	ended(w state.Word, err *Error)
	// contentionAsked: a holder has asked whether other processes wait, for the first time.
	contentionAsked()
}

// promises returns the share's promises; nil if no caller has come to it yet.
func (s *share) promises() *promises { return s.made.Load() }

// owner returns what the share belongs to, which is not FREE.
func (s *share) owner() shareOwner {
	p := s.promises()
	if p.io != nil {
		return p.io
	}
	return p.turn()
}

// leave takes one holder's count back, and starts the share's end if it was the
// last one. It returns the word as it was before.
//
// On a share that is over it does nothing: the CAS that ended the share took all
// counts with it.
func (s *share) leave() (state.Word, state.Effect) {
	if s.flags.Load().Has(state.Lingers) {
		return s.leaveLingering()
	}
	w, e, lost := s.word.Apply(state.Word.Leave)
	if e == state.Dead {
		if home := s.home(); home != s {
			return home.leave()
		}
	}
	s.left(e, lost)
	return w, e
}

// left carries out effect e of a Leave that lost that many CAS races.
func (s *share) left(e state.Effect, lost int) {
	s.lock.noteRaces(lost)
	if e != state.Left {
		s.owner().left(e)
	}
}

// fail ends the share by force: one CAS to RELEASING/0, whatever its count. Its
// handles are dead from then on; everything that is pending in it settles with
// err, Lost closes, and its contexts end. On a share that is over already it does
// nothing. An idle one ends quietly: it has no holder to be told.
func (s *share) fail(err *Error) { s.endBy(state.Word.End, err) }

// failPending is fail for a share that has not been granted.
func (s *share) failPending(err *Error) {
	s.endBy(func(w state.Word) (state.Word, state.Effect) {
		if w.Phase() != state.Fetching {
			return w, state.Nothing
		}
		return w.End()
	}, err)
}

func (s *share) endBy(end func(state.Word) (state.Word, state.Effect), err *Error) {
	w, e, lost := s.word.Apply(end)
	s.lock.noteRaces(lost)
	if e == state.Ended { // else FREE, or over already
		s.owner().ended(w, err)
	}
}

// tellEnded settles what is pending in a share that was ended by force.
func (s *share) tellEnded(err *Error) {
	p := s.promises()
	p.settleWait(Grant{}, err)
	p.signals().lost.Settle(struct{}{}, err)
	p.endReason.Store(&endReason{err: err, notBefore: s.lock.m.graceEnd(err)})
	s.notifyLost(err)
	p.tellMerged(func(n *share) { n.lostWith(err) })
}

// graceEnd returns the time until which the node of a round that ended with err
// must stay. Lost closes LostMargin before the lease's end so that holders have
// time to stop, and deleting the node earlier would let another process in.
func (m *Manager) graceEnd(err error) int64 {
	if m.cfg.LostMargin == 0 || !errors.Is(err, errLeaseEnded) {
		return 0
	}
	return m.now() + int64(m.cfg.LostMargin)
}

// abandoned settles what is pending in a share that no caller waits for: err is why it
// was not granted.
func (p *promises) abandoned(err *Error) {
	p.settleWait(Grant{}, err)
	p.endReason.Store(&endReason{err: err})
}

// settleGrant settles the grant of a share that was seen RETAINED, or was until
// it ended. The granter does it too, and every goroutine that comes between its
// CAS and its settling; the first one counts, and they all settle it alike. A
// forced end may come before them, and settles it with its error.
func (p *promises) settleGrant() {
	if !p.granted.Settled() {
		p.settleWait(p.tenure.grant(), nil)
	}
}

// settleWait settles the grant, and the futures of Ready with it.
func (p *promises) settleWait(g Grant, err error) {
	if p.granted.Settle(g, err) {
		p.notifyReady()
		p.tellMutex()
	}
}

// settleReleased settles the release that all holders share.
func (p *promises) settleReleased(err error) {
	p.released.Settle(struct{}{}, err)
	p.tellMerged(func(n *share) { n.promises().released.Settle(struct{}{}, err) })
}

// tellMutex tells the Mutex of news, if the share is one of its private lock: it was
// granted, ended or revoked, or has seen that another process waits.
//
// The caller notes the news first. turns.ask stores them here before it looks for
// news: at least one of the two sees the other.
func (p *promises) tellMutex() {
	if s := p.signalled.Load(); s != nil {
		if x := s.host.Load(); x != nil {
			x.heard(p.io)
		}
	}
}

// error wraps err with what is known about the lock.
func (s *share) error(op string, err error) *Error {
	e := &Error{Op: op, Name: s.lock.Name(), Err: err, Outage: s.lock.m.outage()}
	if made := s.promises(); made != nil && made.io != nil {
		if p := made.io.position.Load(); p != nil {
			e.Position, e.Ahead, e.Holder = int(p.ahead), p.contender(), p.holder()
		}
	}
	return e
}
