// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/zkio"
)

// An EventKind says what happened: see [Event].
type EventKind uint8

// The kinds of events. A round of a lock begins with EventQueued, EventPlaced and EventGranted, as
// far as it comes, and ends with one EventReleased, EventLost or EventFailed. It has no event after
// that.
const (
	// EventQueued: this process has an entry in the lock's queue.
	EventQueued EventKind = iota + 1
	// EventPlaced: this process waits. Position and Ahead say behind what. It comes
	// again when that changes.
	EventPlaced
	// EventGranted: this process has the lock.
	EventGranted
	// EventEntered: a caller entered the lock, which this process owned already. Only
	// the first such caller of a grant makes an event.
	EventEntered
	// EventYielded: newcomers of this process wait until other processes have had their
	// turn, or this process gives an idle lock up.
	EventYielded
	// EventRevoked: another process asked for the lock. From and Reason say which, and
	// why.
	EventRevoked
	// EventReleased: this process has given the lock up. Err says why ZooKeeper has not
	// confirmed that, or how the lock was lost while it was idle; else it is nil.
	EventReleased
	// EventLost: this process owned the lock for its holders, and does not any more,
	// although it has not given it up. Err says why.
	EventLost
	// EventFailed: the wait ended without a grant. Err says why.
	EventFailed

	// EventSessionBegan: there is a new session.
	EventSessionBegan
	// EventConnectionLost: the session has no connection. Err says why. Its locks are
	// kept while their lease lasts.
	EventConnectionLost
	// EventConnectionResumed: the session has a connection again. Waited is how long
	// it had none.
	EventConnectionResumed
	// EventSessionOver: the session has ended, and its locks with it. Err says why.
	EventSessionOver
	// EventPaused: this process did not run, for as long as Paused says: it was stopped or
	// suspended, or got no processor. Pauses of less than a second make no event, or of
	// less than a third of Config.SessionTimeout if that is shorter.
	EventPaused
)

// eventKinds has what else there is to know of each kind.
var eventKinds = [...]struct {
	name   string
	urgent bool // it is no part of the usual course of a round, and told at once: see feed
}{
	EventQueued:            {name: "queued"},
	EventPlaced:            {name: "placed"},
	EventGranted:           {name: "granted"},
	EventEntered:           {name: "entered"},
	EventYielded:           {name: "yielded"},
	EventRevoked:           {name: "revoked", urgent: true},
	EventReleased:          {name: "released"},
	EventLost:              {name: "lost", urgent: true},
	EventFailed:            {name: "failed", urgent: true},
	EventSessionBegan:      {name: "session began", urgent: true},
	EventConnectionLost:    {name: "connection lost", urgent: true},
	EventConnectionResumed: {name: "connection resumed", urgent: true},
	EventSessionOver:       {name: "session over", urgent: true},
	EventPaused:            {name: "paused", urgent: true},
}

// String returns the kind in words: "queued", "session began", …
func (k EventKind) String() string {
	if k < EventQueued || int(k) >= len(eventKinds) {
		return "invalid event"
	}
	return eventKinds[k].name
}

// An Event is something that happened to a lock of this process or to its session:
// see Config.Observer.
//
// The events of a lock belong to rounds. A round begins when a caller asks for a lock
// that this process neither holds nor waits for, and it ends when the process has given
// the lock up, has lost it, or stops waiting. All callers of the process in between
// share it. A call of LockAll has rounds of its own. The goroutines of a process that get
// a Mutex one after the other share a round, too.
//
// Events of different locks, and those of the session, are in no order among each other.
type Event struct {
	Kind EventKind
	Time time.Time

	// The events of a lock have what follows. In the events of the session it is zero.

	Lock     string        // its name
	LockKind Kind          // what this process asks for
	Round    uint64        // of this event; no other round of the Manager has the number
	Waited   time.Duration // from the first caller's request to the grant, or until now; also of EventConnectionResumed
	Held     time.Duration // from the grant until now; 0 before it
	Position int           // EventPlaced: how many contenders are ahead
	Ahead    *Contender    // EventPlaced: the nearest of them; nil if it is not known
	Token    uint64        // the fencing token, from the grant on
	From     *Contender    // EventRevoked: the process that asked; nil if it did not say
	Reason   string        // EventRevoked: its words, which nothing proves; quote them

	// Err is an [*Error] or what it wraps. It is nil if the Kind does not mention it.
	Err error

	// Paused is for how long this process did not run, in EventPaused, and in what came of
	// that: the loss of a lock, the end of the session. Else it is 0.
	Paused time.Duration

	// Session is the id of the ZooKeeper session, in the events of the session, and in
	// those of a lock from the grant on.
	Session int64
}

// Cause returns one short word for Err, for use as the label of a metric. It returns ""
// if Err is nil. The words are
//
//	paused       this process did not run for so long that the lease or the session ended
//	lease        ZooKeeper has not proved in time that the lock is still held
//	session      the session expired or was replaced
//	deleted      another client has deleted the lock's node
//	closed       the Manager was closed or shut down
//	context      the callers gave up waiting
//	refused      ZooKeeper refused: credentials, permissions, a quota, bad arguments
//	unconfirmed  there was no answer, so it is not known what became of the request
//	other        none of these
func (e Event) Cause() string {
	if e.Err != nil && e.Paused > 0 {
		return "paused"
	}
	return causeOf(e.Err)
}

func causeOf(err error) string {
	e, _ := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return ""
	case e != nil && e.Paused > 0:
		return "paused"
	case errors.Is(err, ErrClosed), errors.Is(err, zkio.ErrClosed):
		return "closed"
	case errors.Is(err, errLeaseEnded):
		return "lease"
	case errors.Is(err, errNodeDeleted):
		return "deleted"
	case errors.Is(err, errSessionEnded), errors.Is(err, zkio.ErrSessionOver):
		return "session"
	case errors.Is(err, ErrNotGranted):
		return "context"
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, zkio.ErrUnknown):
		return "unconfirmed"
	case zkio.ClassOf(err) == zkio.Definite:
		return "refused"
	}
	return "other"
}
