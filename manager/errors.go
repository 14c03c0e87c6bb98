// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strings"
)

// The conditions that the package reports. Each comes wrapped in an [*Error]
// that says which lock and what was attempted; test with [errors.Is].
var (
	// ErrLocked is returned by TryLock when another process is ahead.
	ErrLocked = errors.New("locked by another process")
	// ErrLost says that this process no longer owns the lock, although it had
	// not released it: stop the work that the lock protects.
	ErrLost = errors.New("lock was lost")
	// ErrReleased is the answer of a handle that has been released, and the
	// cause with which its contexts end.
	ErrReleased = errors.New("hold was released")
	// ErrNotGranted is the answer of a hold whose round has not been granted
	// yet, or was given up before it was.
	ErrNotGranted = errors.New("lock is not granted")
	// ErrUnknownOutcome is the answer of [Hold.Guard] when nobody can say whether
	// the operations were carried out.
	ErrUnknownOutcome = errors.New("outcome unknown: the operations may have been carried out")
	// ErrUpgrade says that a caller who holds the read lock asked for the write
	// lock: it would wait for itself. Release the read lock first.
	ErrUpgrade = errors.New("cannot go from read to write while holding the read lock")
	// ErrKind says that this process uses the name for a lock of another kind.
	ErrKind = errors.New("name is in use as another kind of lock")
	// ErrTooManyHolders says that one lock has as many holders in this process
	// as its word can count, or one holder as many handles: holds are not released.
	ErrTooManyHolders = errors.New("too many holders")
	// ErrSequenceExhausted says that the sequence numbers of the lock's
	// directory are about to run out or have run out, so that ZooKeeper no
	// longer orders the queue; no read lock can be had beside a write lock then,
	// and no queue be shared with other clients. Delete the directory when it is
	// empty: ZooKeeper then counts from zero again.
	ErrSequenceExhausted = errors.New("sequence numbers of the lock's directory are exhausted")
	// ErrClosed says that the manager is shutting down or closed.
	ErrClosed = errors.New("manager is closed")
	// ErrBadName says that a name cannot be that of a lock. [Escape] makes a
	// legal segment of any string.
	ErrBadName = errors.New("bad lock name")
	// ErrBadConfig says that a Config cannot work; its text names every fault.
	ErrBadConfig = errors.New("bad configuration")
)

// An Error is what the package's operations return: what was attempted, on
// which lock, who is in the way as far as that is known, and why it failed.
type Error struct {
	Op       string     // what was attempted: "lock", "trylock", "release", …
	Name     string     // the lock's name; empty for an operation of the manager
	Position int        // how many contenders were ahead when last looked; 0 if that is unknown or does not matter
	Ahead    *Contender // the contender that is waited for; nil if unknown
	Err      error      // what happened
}

// Error reads, for instance:
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
