// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ctxerr"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// LockAll acquires several locks at once: all of them or none. It blocks until all are
// held or ctx ends. Exclusive locks, and the locks of read/write pairs, can be mixed. The
// locks' order is of no importance: calls that name them in different orders, or sets that
// overlap, do not deadlock.
//
// The result has one [Hold] for each argument, in their order. A lock that is named twice
// is acquired once, and the second Hold is another handle of the first one's holder. If
// both locks of a pair are named, LockAll acquires the write lock, and both Holds are of
// that.
//
// If this process holds all the locks, and none of them has to let other processes go first,
// LockAll enters them without any request. Otherwise the call gets a place of its own in each
// queue, by one transaction, and waits until it is first in all of them. A place in which it
// is first already is reserved: no goroutine of this process may use it, and other processes
// see it as the holder's. If LockAll keeps another contender waiting in such a queue, but is
// not first everywhere, it gives way after a while: it goes to the end of that one queue. So
// it does not deadlock with callers that hold one of the locks and wait for another, either.
// The while is Config.Tenure at first (100 ms if that is off), and is doubled each time, up to
// 16 times as long, so that it gets its turn. It is a fifth of Config.Tenure, and no longer,
// if the contender that it keeps waiting is a call of LockAll that began earlier, or a process
// that is ahead of it in another of the queues. Under heavy contention LockAll can wait much longer
// than a caller that needs one lock.
//
// Calls of LockAll never share a grant, not even calls with the same locks in one process.
// While one holds its locks, other callers of the process wait for them as other processes
// do. They can enter by the contexts of these Holds, or by [Hold.Share].
//
// If ctx comes from [Hold.Context] or [Holds.Context] and carries live Holds of all the locks,
// LockAll reenters. If it carries Holds of some, LockAll would wait for its own caller, and
// refuses with [ErrPartlyHeld]. A Hold of a write lock counts for the read lock of the pair,
// too. A caller that holds one of the locks and does not pass such a ctx may wait for itself
// for ever. One that holds locks which LockAll is not asked for may deadlock with others, as
// in any nesting; name all locks in one call.
//
// Before anything else, LockAll refuses with [ErrBadGroup] no locks at all, a nil lock,
// and locks of another Manager. Other errors are those of [Lock.Lock], with the name of
// the lock that was in the way. If ctx ends first, LockAll leaves no nodes behind.
//
// An upgradable read lock, and one that reports abandonment ([Lock.ReportAbandoned]), can
// only be acquired alone: they are refused with ErrBadGroup, too. A [Mutex] has no Lock to
// give.
func (m *Manager) LockAll(ctx context.Context, locks ...*Lock) (Holds, error) {
	const op = "lockall"
	unique, at, err := m.together(locks)
	if err != nil {
		return nil, &Error{Op: op, Name: lockNames(locks), Err: err}
	}
	all, err := heldAlready(ctx, op, unique)
	switch {
	case err != nil:
		return nil, err
	case all != nil:
	case m.closing():
		return nil, &Error{Op: op, Name: lockNames(unique), Err: ErrClosed}
	case ctx.Err() != nil:
		return nil, &Error{Op: op, Name: lockNames(unique), Err: ctxerr.Of(ctx)}
	default:
		if all = enterAll(unique); all == nil {
			all, err = m.newGroup(unique).await(ctx, op)
		}
	}
	if err != nil {
		return nil, err
	}
	return all.arrange(op, at)
}

// together returns the different locks that are to be acquired for locks, and at which of
// them each of locks stands.
func (m *Manager) together(locks []*Lock) (unique []*Lock, at []int, err error) {
	if len(locks) == 0 {
		return nil, nil, fmt.Errorf("%w: none is given", ErrBadGroup)
	}
	for i, l := range locks {
		switch {
		case l == nil:
			return nil, nil, fmt.Errorf("%w: lock %d of %d is nil", ErrBadGroup, i+1, len(locks))
		case l.m != m:
			return nil, nil, fmt.Errorf("%w: lock %d of %d, %q, belongs to another Manager", ErrBadGroup, i+1, len(locks), l.Name())
		}
		why := abilities[l.kind].unbundled
		if l.noted.Load().Has(state.Marking) {
			why = "reports abandonment, and can only be acquired alone"
		}
		if why != "" {
			return nil, nil, fmt.Errorf("%w: lock %d of %d, %q, %s", ErrBadGroup, i+1, len(locks), l.Name(), why)
		}
	}
	for _, l := range locks {
		if l.kind == queue.Read && slices.Contains(locks, l.rw.writer) {
			l = l.rw.writer
		}
		j := slices.Index(unique, l)
		if j < 0 {
			j = len(unique)
			unique = append(unique, l)
		}
		at = append(at, j)
	}
	return unique, at, nil
}

// heldAlready reenters the holds in ctx if it has one of each lock; it returns nil if it
// has none of any.
func heldAlready(ctx context.Context, op string, locks []*Lock) (all Holds, err error) {
	var held, missing []*Lock
	for _, l := range locks {
		outer, ok := l.heldIn(ctx)
		if !ok && l.rw != nil {
			outer, ok = l.rw.heldBeside(ctx, l)
			if ok && l.kind == queue.Write {
				all.Release()
				return nil, upgradeError(l, op, outer.share.lock.kind)
			}
		}
		if ok {
			// If the hold was released just now, the caller is a newcomer.
			if h, err := outer.reenter(op); err == nil {
				all, held = append(all, h), append(held, l)
				continue
			}
		}
		missing = append(missing, l)
	}
	if len(missing) == 0 || len(held) == 0 {
		return all, nil
	}
	all.Release()
	return nil, &Error{Op: op, Name: lockNames(locks), Err: fmt.Errorf("%w: release %s first", ErrPartlyHeld, lockNames(held))}
}

// heldBeside returns a live hold in ctx of another lock of the pair than l.
func (rw *RWLock) heldBeside(ctx context.Context, l *Lock) (h Hold, ok bool) {
	for other := range rw.locks() {
		if other != l && !ok {
			h, ok = other.heldIn(ctx)
		}
	}
	return h, ok
}

// enterAll enters the locks if this process holds all of them and admits newcomers to
// each. Otherwise it returns nil, and has changed nothing. It does no I/O.
func enterAll(locks []*Lock) Holds {
	var all Holds
	for _, l := range locks {
		h, ok := l.enterHeld()
		if ok {
			all = append(all, h)
		}
		if !ok || h.Err() != nil {
			//holdfast:reached-if len(all) > 0: lock all: entered some, not all
			all.Release()
			return nil
		}
	}
	return all
}

// enterHeld makes a new holder if this process holds the lock and admits newcomers.
func (l *Lock) enterHeld() (Hold, bool) {
	r := l.cur.Load()
	for {
		w := r.word.Load()
		if !w.Admits() || r.flags.Load().Has(state.GateClosed) { // the gate after the word: see round.arrive
			return Hold{}, false
		}
		if r.word.Enter(w) {
			if r.flags.Load().Has(state.Lingers) && !r.confirm(w) {
				return Hold{}, false
			}
			return l.entered(r), true
		}
	}
}
