// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strings"
)

// The conditions that the package reports. Each is wrapped in an [*Error] that
// says what was attempted on which lock; test for it with [errors.Is].
var (
	// ErrLocked is returned by TryLock when another process is ahead.
	ErrLocked = errors.New("locked by another process")
	// ErrLost says that this process no longer owns the lock, although it has not
	// released it. Stop the work that the lock protects.
	ErrLost = errors.New("lock was lost")
	// ErrReleased says that a Hold has been released. It is also the cause with
	// which the Hold's contexts end.
	ErrReleased = errors.New("hold was released")
	// ErrNotGranted says that the lock has not been granted to this process yet,
	// or that all callers gave up before it was.
	ErrNotGranted = errors.New("lock is not granted")
	// ErrUnknownOutcome is returned by [Hold.Guard] when there is no telling
	// whether the operations were carried out.
	ErrUnknownOutcome = errors.New("outcome unknown: the operations may have been carried out")
	// ErrUpgrade says that a caller that holds the read lock asked for the write
	// lock: it would wait for itself. Release the read lock first.
	ErrUpgrade = errors.New("cannot go from read to write while holding the read lock")
	// ErrKind says that this process uses the name for a lock of another kind.
	ErrKind = errors.New("name is in use as another kind of lock")
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
	// holds the lock has not answered, or cannot.
	ErrNoAnswer = errors.New("no answer")
	// ErrTooLarge says that a question, or the reason of a revocation, has more than
	// 64 KiB.
	ErrTooLarge = errors.New("too large")
	// ErrClosed says that the manager is shutting down or closed.
	ErrClosed = errors.New("manager is closed")
	// ErrBadName says that a lock cannot have this name. [Escape] makes a legal
	// segment of any string.
	ErrBadName = errors.New("bad lock name")
	// ErrBadConfig says that a Config cannot work; its text names every fault.
	ErrBadConfig = errors.New("bad configuration")
)

// An Error is what the package's operations return. It says what was attempted,
// on which lock, why it failed, and which contender is in the way, if that is
// known.
type Error struct {
	Op       string     // what was attempted: "lock", "trylock", "release", …
	Name     string     // the lock's name; empty for an operation of the manager
	Position int        // the number of contenders ahead when last listed; 0 if unknown or irrelevant
	Ahead    *Contender // the contender that this process waits for; nil if unknown
	Err      error      // what happened
}

// Error returns a text such as
//
//	holdfast: lock "jobs/nightly": context deadline exceeded (2 ahead; waiting for billing@db7, pid 4711, since 2026-01-02T15:04:05Z)
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("holdfast: ")
	b.WriteString(e.Op)
	if e.Name != "" {
		fmt.Fprintf(&b, " %q", e.Name)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Ahead != nil {
		fmt.Fprintf(&b, " (%d ahead; waiting for %s)", e.Position, e.Ahead)
	} else if e.Position > 0 {
		fmt.Fprintf(&b, " (%d ahead)", e.Position)
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
