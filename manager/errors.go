// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The conditions that the package reports. Each is wrapped in an [*Error] that
// says what was attempted on which lock; test for it with [errors.Is].
var (
	// ErrLocked is returned by [Lock.TryLock] and [Lock.TryDo] when another process is
	// ahead. The fields of the [*Error] say which. The methods of a [Mutex] return it also
	// if another goroutine of this process is in the way; then the text says so.
	ErrLocked = errors.New("locked by another process")
	// ErrYielding says that this process holds the lock, but its newcomers must let
	// other contenders go first, because these have waited for Config.Tenure or because
	// the lock was revoked (see [Hold.Revoked]). TryLock returns it, and the error of a
	// Lock whose ctx ended meanwhile wraps it. It wraps ErrLocked. Newcomers enter again
	// once the contender, or the process that revoked the lock, has given up. To enter at once,
	// share the grant: use [Hold.Share], or acquire with a context from [Hold.Context].
	// Otherwise wait with Lock, or try again later.
	ErrYielding error = &yielding{}
	// ErrLost says that this process no longer owns the lock, although it has not
	// released it. Stop the work that the lock protects.
	ErrLost = errors.New("lock was lost")
	// ErrReleased says that a Hold has been released, or was withdrawn because the
	// ctx of Acquire ended before the grant; then the error wraps ctx's, too. It is
	// also the cause with which the Hold's contexts end.
	ErrReleased = errors.New("hold was released")
	// ErrNotGranted says that the lock has not been granted to this process yet,
	// or that all callers gave up before it was.
	ErrNotGranted = errors.New("lock is not granted")
	// ErrUnconfirmed is returned by [Hold.Unlock], [Lock.Do] and [Lock.TryDo] when
	// ZooKeeper did not confirm in time that the lock's node is gone. There is nothing
	// to roll back: this process held the lock until its last holder left. Other
	// processes may have to wait until the manager has deleted the node, which it goes
	// on trying, or until the session ends. The future of [Hold.Release] and
	// [Hold.Released] settles then.
	ErrUnconfirmed = errors.New("released, and the work was protected, but ZooKeeper has not confirmed yet that the lock is free")
	// ErrUnknownOutcome is returned by [Hold.Guard] when there is no telling
	// whether the operations were carried out.
	ErrUnknownOutcome = errors.New("outcome unknown: the operations may have been carried out")
	// ErrUpgrade says that a caller that holds one lock of a read/write pair asked for
	// another which it would have to wait for itself: a caller that reads for the write
	// lock, for example. Release the first lock before, or use [RWLock.Upgradable] in its
	// place.
	ErrUpgrade = errors.New("the caller holds another lock of the pair, and would wait for itself")
	// ErrKind says that this process uses the name for a lock of another kind.
	ErrKind = errors.New("name is in use as another kind of lock")
	// ErrNotShared is returned by [Hold.Share] for a Hold of a [Mutex], which one goroutine
	// holds at a time.
	ErrNotShared = errors.New("a mutex has one holder at a time: its hold cannot be shared")
	// ErrBadGroup is returned by [Manager.LockAll] for locks that it cannot acquire
	// together. The text says why.
	ErrBadGroup = errors.New("these locks cannot be acquired together")
	// ErrPartlyHeld is returned by [Manager.LockAll] if its ctx carries Holds of some of
	// the locks, but not of all: it would wait for its own caller. Release those first,
	// or acquire all of them by one call to begin with.
	ErrPartlyHeld = errors.New("the caller holds some of the locks")
	// ErrTooManyHolders says that a lock has as many holders in this process as
	// it can count, or a holder as many handles. The program is not releasing its
	// holds.
	ErrTooManyHolders = errors.New("too many holders")
	// ErrSequenceExhausted says that the sequence numbers of the lock's directory
	// have run out, or nearly, so that ZooKeeper no longer orders the queue by
	// them. A read lock cannot be had beside a write lock then, and the queue
	// cannot be shared with other clients. Delete the directory when it is empty:
	// ZooKeeper then counts from zero again.
	ErrSequenceExhausted = errors.New("sequence numbers of the lock's directory are exhausted")
	// ErrNoAnswer is returned by [Lock.Ask] and [Lock.Revoke] when the process that
	// holds the lock cannot answer, or has not answered before ctx ended. The text says
	// which process that is, and why it cannot. If ctx ended, the error wraps
	// ctx.Err(), too.
	ErrNoAnswer = errors.New("no answer")
	// ErrTooLarge is returned by [Lock.Ask] for a question, and by [Lock.Revoke] for a
	// reason, of more than 64 KiB.
	ErrTooLarge = errors.New("too large")
	// ErrClosed says that the manager is shutting down or closed.
	ErrClosed = errors.New("manager is closed")
	// ErrBadName says that a lock cannot have this name. [Escape] makes a legal
	// segment of any string.
	ErrBadName = errors.New("bad lock name")
	// ErrNoChroot is returned by [Open] if Config.Chroot does not exist.
	ErrNoChroot = errors.New("no such chroot")
	// ErrBadConfig says that a Config, or a setting of a lock, cannot work; its text
	// names every fault.
	ErrBadConfig = errors.New("bad configuration")
)

// yielding is the type of ErrYielding.
type yielding struct{}

func (*yielding) Error() string {
	return "this process holds the lock but lets other contenders go first: newcomers wait behind them, unless they enter by Hold.Share or the context of a Hold"
}

func (*yielding) Unwrap() error { return ErrLocked }

// A withdrawnError is the end of a pending Hold by its context.
type withdrawnError struct {
	why    error // that of its context
	outage error // see Error.Outage
}

func (e *withdrawnError) Error() string   { return "withdrawn before the grant: " + e.why.Error() }
func (e *withdrawnError) Unwrap() []error { return []error{ErrReleased, e.why} }

// An Error is what the package's operations return. It says what was attempted,
// on which lock, why it failed, which contender is in the way, if that is known,
// and whether ZooKeeper can be reached.
type Error struct {
	Op       string     // what was attempted: "lock", "trylock", "release", …
	Name     string     // the lock's name; empty for an operation of the manager
	Position int        // the number of contenders ahead when last listed; 0 if unknown or irrelevant
	Ahead    *Contender // the contender that this process watched while it waited; nil if unknown
	Err      error      // what happened

	// Holder is the contender that held the lock when this process last listed the
	// queue, and the first of them if several processes read. It is nil if unknown.
	//
	// TryLock lists the queue anew. For other calls the list can be up to 10 s old if
	// more than two contenders are ahead. Then Holder may have nothing but Path, Kind,
	// Sequence and Holds, if this process has read no node of the holder's process. Its
	// Token may be 0: unknown.
	Holder *Contender

	// Outage says for how long ZooKeeper had not answered, and why, when the error
	// was made. It is nil if the connection was in order.
	Outage error

	// Paused is for how long this process did not run, if the lock was lost because of
	// that: it was stopped or suspended, or got no processor. Else it is 0.
	Paused time.Duration
}

// Error returns a text such as
//
//	holdfast: lock "jobs/nightly": context deadline exceeded (3 ahead; held by billing@db7, pid 4711, since 2026-01-02T15:04:05Z; waiting for …)
//	holdfast: lock "jobs/nightly": context deadline exceeded; no connection for 2s: zk1:2181: connection refused
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("holdfast: ")
	b.WriteString(e.Op)
	if e.Name != "" {
		b.WriteString(" " + quoted(e.Name))
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Outage != nil {
		b.WriteString("; " + e.Outage.Error())
	}
	switch {
	case e.Ahead != nil || e.Position > 0:
		fmt.Fprintf(&b, " (%d ahead", e.Position)
		if e.Holder != nil {
			fmt.Fprintf(&b, "; held by %s%s", e.Holder, e.Holder.which())
		}
		if e.Ahead != nil && (e.Holder == nil || e.Holder.Path != e.Ahead.Path) {
			fmt.Fprintf(&b, "; waiting for %s%s", e.Ahead, e.Ahead.which())
		}
		b.WriteString(")")
	case e.Holder != nil:
		fmt.Fprintf(&b, " (held by %s%s)", e.Holder, e.Holder.which())
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// What a holder is told whose lock has ended with the Manager.
var (
	errClosedHeld   = fmt.Errorf("%w: Manager.Close ended this lock while it was held, so it is lost", ErrClosed)
	errShutdownHeld = fmt.Errorf("%w: Manager.Shutdown did not wait any longer for the holders of this lock, so it is lost", ErrClosed)
)

// The ways in which a lock can be lost. A lossError wraps one of them.
var (
	errNodeDeleted  = fmt.Errorf("%w: another client deleted its node", ErrLost)
	errLeaseEnded   = fmt.Errorf("%w: its lease ended before ZooKeeper's leader confirmed the session again", ErrLost)
	errSessionEnded = fmt.Errorf("%w: the ZooKeeper session is over", ErrLost)
)

// The acquiring operations, as errors name them.
const (
	opAcquire = "acquire"
	opLock    = "lock"
	opTryLock = "trylock"
)

// endedError is the error of the operation op on a handle that ended because of why.
func endedError(op, name string, why error) *Error {
	e := &Error{Op: op, Name: name, Err: why}
	if w, ok := why.(*withdrawnError); ok { //nolint:errorlint // it is made by us and never wrapped
		e.Outage = w.outage
	}
	return e
}
