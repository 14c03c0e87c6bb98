// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast/state"
)

// The turns of a Mutex are those of the goroutines of this process: one of them may be inside,
// and the others wait in line. They get the lock by the private lock of the Mutex, for which the
// process queues in ZooKeeper. Which goroutine is to be let in, and whether the process asks for
// the private lock or gives it up, decide says: whatever changes calls advance.
type turns struct {
	lock *Lock // the private lock; its holds never leave this type

	// mu protects what follows. It is held for a few instructions, never across I/O, a
	// call of a method of lock, or the settling of a future.
	mu          sync.Mutex
	first, last *turn // those that wait, in order
	waiting     int   // how many they are
	inside      *turn // the one that has the lock, or has lost it and not left yet; nil: none

	// hold is the process's own hold of lock, pending, granted or lost; zero if there is
	// none. While inside is set it is the one by which that turn was granted. While busy
	// is set, one goroutine is about to replace it, and no other touches it.
	hold Hold
	busy bool

	token, turn uint64 // of the last grant
	entries     uint64 // grants that needed no other process: all but the first of each round
}

// inProcess says that a goroutine of this process is in the way. It wraps ErrLocked.
type inProcess string

func (e inProcess) Error() string { return string(e) }
func (inProcess) Unwrap() error   { return ErrLocked }

var (
	errHeldHere   error = inProcess("a goroutine of this process holds the lock")
	errLostHere   error = inProcess("a goroutine of this process has lost the lock and has not released its Hold yet")
	errWantedHere error = inProcess("other goroutines of this process wait for the lock")
)

// inTheWay returns which goroutine of this process is in the way of a newcomer; nil if
// none is. The caller holds mu.
func (x *turns) inTheWay() error {
	switch {
	case x.inside != nil && x.inside.share.word.Load().Phase() == state.Retained:
		return errHeldHere
	case x.inside != nil:
		return errLostHere
	}
	return nil
}

// push puts t at the end of the line; the caller then calls advance. If try is set, it
// refuses if t would have to wait for another goroutine of this process. Otherwise it sets
// busy: the caller asks for the private lock.
func (x *turns) push(t *turn, try bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	// Close and Shutdown set the stage before they take mu to look for turns; we have mu
	// when we look at the stage. At least one sees the other.
	if x.lock.m.closing() {
		return ErrClosed
	}
	if try {
		if err := x.inTheWay(); err != nil {
			return err
		}
		if x.first != nil || x.busy || x.hold != (Hold{}) {
			return errWantedHere
		}
		x.busy = true
	}
	t.prev = x.last
	if x.last == nil {
		x.first = t
	} else {
		x.last.next = t
	}
	x.last = t
	x.waiting++
	return nil
}

// remove takes t out of the line and reports whether it was there. The caller holds mu.
func (x *turns) remove(t *turn) bool {
	if t.prev == nil && x.first != t {
		return false
	}
	if t.prev == nil {
		x.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		x.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	x.waiting--
	return true
}

// removeAll empties the line and returns the turns that were there.
func (x *turns) removeAll() (all []*turn) {
	for t := x.first; t != nil; t = x.first {
		x.remove(t)
		all = append(all, t)
	}
	return all
}

// leave notes that the holder of t has left: t is no longer in the line, nor inside. It
// reports whether it was inside.
func (x *turns) leave(t *turn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(t)
	if x.inside != t {
		return false
	}
	x.inside = nil
	return true
}

// host returns the share by which the process holds the private lock or waits for it; nil
// if there is none.
func (x *turns) host() *share {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.hold.share
}

// waiters returns how many goroutines wait.
func (x *turns) waiters() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.waiting
}

// shares returns those of the turns that wait, and of the one inside.
func (x *turns) shares() (all []*share) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.inside != nil {
		all = append(all, &x.inside.share)
	}
	for t := x.first; t != nil; t = t.next {
		all = append(all, &t.share)
	}
	return all
}

// heard is called when there is news of a round of the private lock: see promises.tellMutex. It
// does not block.
func (x *turns) heard(host *roundIO) {
	x.mu.Lock()
	t := x.inside
	if x.hold.share != &host.round.share {
		t = nil
	}
	x.mu.Unlock()
	if t != nil {
		t.learn(host)
	}
	x.advance(nil)
}

// advance does what there is to do, until it has to wait for news. left is a turn whose
// holder has released the lock; nil: none. That turn leaves here, in the step that decides
// what comes next, because that is also how its release settles.
//
// It looks at the state as it is, whatever the caller has changed. So a goroutine that
// finds busy set may leave: the one that has set it looks again afterwards.
func (x *turns) advance(left *turn) {
	for {
		x.mu.Lock()
		if left != nil {
			x.inside = nil // while it was set no other goroutine could touch hold
		}
		do, h, t := x.decide()
		x.mu.Unlock()
		switch do {
		case stay:
			left.follow(h, false)
			return
		case queueUp:
			x.exchange(x.ask())
		case giveBack:
			// The process may keep the lock: for another goroutine, whose hold has come
			// meanwhile, or idle. An idle round may end much later, or be entered again.
			_, e, _ := h.giveUp()
			left.follow(h, e == state.Left || e == state.Idled)
			return
		case passOn:
			//holdfast:reached mutex: the gate closed with goroutines in the line
			// In this order: then the request that deletes the one node makes the other.
			next := x.ask()
			_, e, _ := h.giveUp()
			left.follow(h, e == state.Left) // the gate may have opened, and let next in
			x.exchange(next)
		case letIn:
			left.follow(h, true)
			t.admitted(h.share.promises().io)
			return
		case startOver:
			h.giveUp() // it is dead
			left.follow(h, false)
		case turnAway:
			h.giveUp()
			x.failAll(h)
		}
		left = nil
	}
}

// A move is what the turns do next.
type move uint8

const (
	stay      move = iota // wait for news
	queueUp               // queue in ZooKeeper
	giveBack              // give the private lock up, or stop waiting for it
	passOn                // give it up and queue again, behind other processes
	letIn                 // let a turn in
	startOver             // the process has lost the lock: look what is to do now
	turnAway              // the process cannot get the lock: fail those who wait
)

// decide decides what to do next. h is the hold to do it with, and t the turn that it has
// granted the lock. The caller holds mu, and releases it before it does what decide says.
func (x *turns) decide() (do move, h Hold, t *turn) {
	if h = x.hold; h.share != nil {
		h.share = h.home()
		x.hold = h
	}
	switch {
	case x.busy, x.inside != nil:
		return stay, h, nil
	case h == Hold{} && x.first == nil:
		return stay, h, nil
	case h == Hold{}:
		x.busy = true
		return queueUp, h, nil
	}
	host := h.share.promises().io
	switch h.share.word.Load().Phase() {
	case state.Fetching:
		if x.first != nil {
			return stay, h, nil
		}
	case state.Retained:
		// The gate is for those who come after the first turn: without that one the
		// process would pass on the lock, time and again, and do no work.
		if served := x.token == host.tenure.token; served && x.first != nil && h.share.flags.Load().Has(state.GateClosed) {
			x.hold, x.busy = Hold{}, true
			return passOn, h, nil
		}
		if t = x.grant(host); t != nil {
			return letIn, h, t
		}
	default: // over
		_, err, settled := host.granted.Future().Poll()
		if !settled {
			return stay, h, nil // the goroutine that ended it is about to settle it, and to tell
		}
		x.hold = Hold{}
		if err != nil && !errors.Is(err, ErrLost) {
			return turnAway, h, nil
		}
		return startOver, h, nil // also if it was lost before its grant was told
	}
	x.hold = Hold{} // no goroutine wants it
	return giveBack, h, nil
}

// grant grants the lock to the first of the line that has not given up, and returns its
// turn; nil if there is none. host is the round of the process. The caller holds mu.
func (x *turns) grant(host *roundIO) *turn {
	n := host.tenure
	for t := x.first; t != nil; t = x.first {
		x.remove(t)
		number := uint64(1)
		if n.token == x.token {
			number = x.turn + 1
		}
		// Before the word says that it holds the lock: see tenure.
		t.tenure.token, t.tenure.turn, t.tenure.path = n.token, number, n.path
		t.tenure.since, t.tenure.lease, t.tenure.session = n.since, n.lease, n.session
		t.tenure.abandoned = leavesAbandoned(host)
		t.own.tenure = &t.tenure
		_, e, lost := t.share.word.Apply(state.Word.Grant)
		x.lock.noteRaces(lost)
		if e == state.Granted {
			if number > 1 {
				x.entries++
			}
			x.inside, x.token, x.turn = t, n.token, number
			return t
		}
		//holdfast:reached mutex: the first in the line gave up as its turn came
		// The goroutine whose CAS was first settles what is pending in it.
	}
	return nil
}

// exchange ends what the caller, which has set busy, is about.
func (x *turns) exchange(h Hold) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hold, x.busy = h, false
}

// ask queues for the private lock. It never blocks.
func (x *turns) ask() Hold {
	h := x.lock.arrive(opAcquire, false)
	h.share.promises().signals().host.Store(x)
	return h
}

// failAll fails those who wait with the error of h, which the process could not get.
func (x *turns) failAll(h Hold) {
	_, cause, _ := h.Granted().Poll()
	err, ok := errors.AsType[*Error](cause)
	if !ok {
		err = &Error{Op: opAcquire, Name: x.lock.Name(), Err: cause}
	}
	x.mu.Lock()
	all := x.removeAll()
	x.mu.Unlock()
	for _, t := range all {
		t.share.fail(err)
	}
}

// leavesAbandoned reports whether the next turn of a Mutex, of which t is the host, is to be
// told that the lock was abandoned.
func leavesAbandoned(t *roundIO) bool {
	flags := t.round.flags.Load()
	return t.tenure.abandoned && !flags.Has(state.Recovered) ||
		flags.Has(state.Interrupted) && t.round.lock.noted.Load().Has(state.Marking)
}
