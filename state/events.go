// SPDX-License-Identifier: Apache-2.0

package state

import "sync/atomic"

// Events tell the goroutine that does a round's I/O what there is to see to, and
// everyone else which delayed wake-ups are already on their way. Other goroutines
// raise them and then wake the I/O; the I/O takes them before it acts, so an
// event raised while it acts is seen on its next pass.
//
//	event        raised by                       asks the I/O to
//	OwnTouched   the watch of the own node       read the own node, which also restores the watch
//	OwnDue       a delayed wake, the rotation    read the own node, unless it has a watch
//	QueueDue     the rotation, the last waiter   list the queue, whatever is known about it
//	             to leave a pending round
//	BehindDue    a delayed wake                  look at the contenders behind the holder
//	WriterDue    a delayed wake                  see whether this process's writer waits
//	                                             for its readers
//
// Timers say that a delayed wake is on its way. The goroutine that raises one
// first starts the wake. The wake lowers it again, or, for BehindTimer, the look
// that follows; a wake that finds the round in a later phase leaves it raised. What
// a round or a lock has noted stays, but for BehindWatched, which the watch lowers, and
// Together, which goes with the last such place.
type Events uint32

// The events of a round, its timers, and what a round or a lock has noted.
const (
	OwnTouched Events = 1 << iota
	OwnDue
	QueueDue
	BehindDue
	WriterDue

	FetchTimer   // a failed request for a pending round is to be tried again
	EndTimer     // the same for a round that is ending
	OwnTimer     // OwnDue is to be raised
	BehindTimer  // BehindDue is to be raised
	WriterTimer  // WriterDue is to be raised
	UpgradeTimer // a hold that was upgraded was released: see what the others want
	DelayTimer   // the lock-delay of a round that is first in line will be over

	FirstLookAsked // of a round: its first look at the contenders behind was made due
	BehindWatched  // of a round: the queue was listed, and the watch that the list left has not fired since
	Waited         // of a round: it has had a position in a queue
	WaitsLong      // of a round: it has waited so long that the rotation has come by
	PersistentTold // of a round: a contender that is not ephemeral was reported
	Ending         // of a round: the first step of its end was made
	InContexts     // of a lock: there are contexts with its holds, or those of the other lock of its pair
	OtherKindTold  // of a lock: a contender of another kind was reported
	RecipeTold     // of a lock: a node of another recipe was reported
	Marking        // of a lock: each grant leaves a mark
	OfMutex        // of a lock: it is the private lock of a Mutex
	Listened       // of a lock: it has listeners
	Heir           // of a round: it has waited for a contender whose session another process closes
	Together       // of a lock: LockAll has a place in its queue, or wants one
)

// Has reports whether all events of g are in e.
func (e Events) Has(g Events) bool { return e&g == g }

// AtomicEvents are Events that any number of goroutines may raise and take. The
// zero value has none raised.
type AtomicEvents struct{ w atomic.Uint32 }

// Load returns the events that are raised.
func (a *AtomicEvents) Load() Events { return Events(a.w.Load()) }

// Raise raises e and reports whether none of it was raised before. A Raise
// synchronizes before the Take that takes the event.
func (a *AtomicEvents) Raise(e Events) (first bool) { return Events(a.w.Or(uint32(e)))&e == 0 }

// Take lowers e and returns those events of e that were raised.
func (a *AtomicEvents) Take(e Events) Events {
	if a.Load()&e == 0 {
		return 0 // the usual case; no write
	}
	return Events(a.w.And(^uint32(e))) & e
}
