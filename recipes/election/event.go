// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/manager"
	"github.com/holdfast-go/holdfast/recipes/internal/bell"
)

// An EventType says what happened to this process in an election. The types, and their
// names, are those of ZooKeeper's LeaderElectionSupport.
type EventType uint8

// The types of events. See [Election.OnEvent] for their order.
const (
	EventStart             EventType = iota + 1 // the process stands
	EventOfferStart                             // it queues; anew, if there is a Cause
	EventOfferComplete                          // it has its place
	EventDetermineStart                         // it finds out whether it is first
	EventDetermineComplete                      // it knows
	EventElectedStart                           // it is first, and has the Token
	EventElectedComplete                        // its record is there: it leads
	EventReadyStart                             // it is not first
	EventReadyComplete                          // it watches the candidate ahead
	EventFailed                                 // it has lost the leadership or cannot have it; Cause says why
	EventStopStart                              // it resigns, or withdraws
	EventStopComplete                           // another process can be elected
)

// String returns the name that ZooKeeper gives the type: OFFER_START, …
func (t EventType) String() string {
	names := [...]string{
		"invalid", "START", "OFFER_START", "OFFER_COMPLETE", "DETERMINE_START", "DETERMINE_COMPLETE",
		"ELECTED_START", "ELECTED_COMPLETE", "READY_START", "READY_COMPLETE", "FAILED", "STOP_START", "STOP_COMPLETE",
	}
	return names[min(int(t), len(names))%len(names)]
}

// A State is what a process is in an election: the event before says which.
type State uint8

// The states.
const (
	StateStart     State = iota + 1 // it has just begun to stand
	StateOffer                      // it queues
	StateDetermine                  // it finds out whether it is first
	StateElected                    // it leads, or is about to
	StateReady                      // it waits
	StateFailed                     // it stands no longer, by no decision of its own
	StateStop                       // it stands no longer
)

// String returns the name that ZooKeeper gives the state: START, OFFER, …
func (s State) String() string {
	names := [...]string{"invalid", "START", "OFFER", "DETERMINE", "ELECTED", "READY", "FAILED", "STOP"}
	return names[min(int(s), len(names))%len(names)]
}

// An Event is something that happened to this process in an election.
type Event struct {
	Type  EventType
	State State  // which the event leads to, or confirms
	Token uint64 // from EventElectedStart to the end of the term; else 0
	Cause error  // of EventFailed, and of an EventOfferStart that is not the first
}

// errPlaceGone is why a process queues anew.
var errPlaceGone = errors.New("its place in the queue is gone: the ZooKeeper session ended, or another client deleted its node")

// OnEvent has fn called with each phase of this process's candidacies, one after the other
// and in order, until stop is called or the Manager is closed. The process stands once,
// however many of its goroutines do. If it leads when OnEvent is called, the events begin
// with those of its election. OnEvent does not block.
//
// A candidacy is told as
//
//	START
//	OFFER_START OFFER_COMPLETE             again, with a Cause, if its place is lost
//	  DETERMINE_START DETERMINE_COMPLETE   again, if a candidate ahead has left
//	    READY_START READY_COMPLETE         if it is not first; else
//	    ELECTED_START ELECTED_COMPLETE
//	STOP_START STOP_COMPLETE               if it resigned or withdrew; else
//	FAILED                                 with a Cause that wraps ErrLost, or says what else happened
//
// and the end can come at any point. START is told when the process has its place or an
// error, and not before ZooKeeper can be reached. A candidacy that was withdrawn before is
// not told. ELECTED_COMPLETE comes before Campaign returns or soon after.
//
// The calls come from goroutines of the Manager's, a moment later than what they tell of, and
// one happens before the next. A leader that must stop in time uses [Leadership.Lost]. If fn
// is slow, candidacies that are over are left out, each as a whole: see [manager.Lock.Listen].
// If fn panics, the panic is logged, and fn has missed that event only. Fn must not call stop,
// which waits for a call that is under way; nothing is called after stop has returned. Close
// of the Manager waits until all is told, so fn must not call that, either.
func (e *Election) OnEvent(fn func(Event)) (stop func()) {
	t := &teller{access: e.access, name: e.name, fn: fn, woken: bell.New()}
	e.mu.Lock()
	t.recorded = append(t.recorded, e.recorded)
	e.tellers = append(e.tellers, t)
	e.mu.Unlock()
	stopListening := e.lock.Listen(manager.Listener{
		Queued: t.queued, Acquired: t.acquired, Lost: t.failed, Released: t.released, Failed: t.notElected,
	})
	return func() {
		t.stopped.Store(true)
		stopListening()
		t.awaitNoRecord()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.tellers = slices.DeleteFunc(e.tellers, func(other *teller) bool { return other == t })
	}
}

// noteRecord notes that the record of the term is there.
func (e *Election) noteRecord(token uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recorded = token
	for _, t := range e.tellers {
		t.noteRecord(token)
	}
}

// A teller makes events of what its Listener is told. The lock does not know of the record,
// so from the grant to the end of the term a goroutine waits for it, and the Listener's, which
// owns it, waits for that one before it tells the end.
type teller struct {
	access  manager.Access
	name    string // of the election
	fn      func(Event)
	stopped atomic.Bool // by stop: fn is not called again
	woken   bell.Bell   // rung when a record was noted

	// These belong to the Listener's goroutine, and to stop when that has ended.
	node  string         // its place in the queue; "" before START
	token uint64         // of its term
	over  chan struct{}  // ends the wait for the record; nil: there is none
	waits sync.WaitGroup // the goroutine that waits for the record

	mu       sync.Mutex // protects what follows; held for a few instructions
	recorded []uint64   // the terms whose record is there, in order, from the last that was told
}

func (t *teller) noteRecord(token uint64) {
	t.mu.Lock()
	t.recorded = append(t.recorded, token)
	t.mu.Unlock()
	t.woken.Ring()
}

// hasRecord reports whether the record of the term is there. If it is, the terms before are
// forgotten. They need not have lower tokens: those of a ZooKeeper that was restored from a
// backup begin anew.
func (t *teller) hasRecord(token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.recorded, token)
	t.recorded = t.recorded[max(i, 0):]
	return i >= 0
}

// tell tells events of a state.
func (t *teller) tell(s State, types ...EventType) {
	for _, typ := range types {
		t.tellOf(nil, s, typ)
	}
}

// tellOf tells an event that has a cause.
func (t *teller) tellOf(cause error, s State, typ EventType) {
	if !t.stopped.Load() {
		t.access.Protect("OnEvent of election "+t.name, func() {
			t.fn(Event{Type: typ, State: s, Token: t.token, Cause: cause})
		})
	}
}

// queued is called when the process waits at p.
func (t *teller) queued(p manager.Place) {
	t.offered(p.Path)
	t.tell(StateReady, EventReadyStart, EventReadyComplete)
}

// offered tells how the process came to its place, and that it looks where that is.
func (t *teller) offered(node string) {
	switch t.node {
	case node:
	case "":
		t.tell(StateStart, EventStart)
		t.tell(StateOffer, EventOfferStart, EventOfferComplete)
	default:
		t.tellOf(errPlaceGone, StateOffer, EventOfferStart)
		t.tell(StateOffer, EventOfferComplete)
	}
	t.node = node
	t.tell(StateDetermine, EventDetermineStart, EventDetermineComplete)
}

// acquired is called when the process has the lock.
func (t *teller) acquired(g manager.Grant) {
	t.offered(g.Path)
	t.token = g.Token
	t.tell(StateElected, EventElectedStart)
	t.over = make(chan struct{})
	t.waits.Go(t.awaitRecord)
}

// awaitRecord tells when the record is there, until the term is over.
func (t *teller) awaitRecord() {
	for over := false; !t.hasRecord(t.token); {
		if over {
			return
		}
		select {
		case <-t.woken:
		case <-t.over:
			over = true // and look once more: the record was noted before the end
		}
	}
	t.tell(StateElected, EventElectedComplete)
}

// awaitNoRecord ends awaitRecord.
func (t *teller) awaitNoRecord() {
	if t.over != nil {
		close(t.over)
		t.waits.Wait()
		t.over = nil
	}
}

// released is called when the process has given the lock up.
func (t *teller) released(err error) {
	if err != nil {
		t.failed(err)
		return
	}
	t.awaitNoRecord()
	t.tell(StateStop, EventStopStart, EventStopComplete)
	t.node, t.token = "", 0
}

// failed is called when the process has lost the lock.
func (t *teller) failed(err error) {
	t.awaitNoRecord()
	t.tellOf(err, StateFailed, EventFailed)
	t.node, t.token = "", 0
}

// notElected is called when the process has stopped waiting.
func (t *teller) notElected(err error) {
	switch {
	case t.over != nil:
		// Shutdown has refused goroutines that were to wait for a later term: this one goes on.
	case !errors.Is(err, ErrNotElected):
		if t.node == "" {
			t.tell(StateStart, EventStart)
			t.tell(StateOffer, EventOfferStart)
		}
		t.failed(err)
	case t.node != "": // all callers have withdrawn
		t.released(nil)
	}
}
