// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// Upgradable returns the upgradable read lock. It is for work that begins by reading and
// may turn out to have to write what it has read: [Hold.Upgrade] makes its holder the
// only process inside, in place, so that nothing that it has read can have changed. One
// process can hold it at a time, beside any number of readers; it excludes writers as a
// reader does.
//
//	lock.Upgradable().Do(ctx, func(ctx context.Context, h manager.Hold) error {
//		if !stale() {
//			return nil
//		}
//		if err := h.Upgrade(ctx); err != nil {
//			return err
//		}
//		return rebuild()
//	})
//
// As with every [Lock], the goroutines of one process share it, and are inside together
// even when one of them has upgraded. A caller that has a Hold of it in its context can
// read: [RWLock.Reader] then reenters that Hold. It cannot ask for the write lock, nor
// can a caller that reads or writes ask for this one: each would wait for itself, and
// gets [ErrUpgrade].
//
// Other clients of the queue, and older versions of this package, take its holder for a
// reader, and for a writer as well while it upgrades.
//
// Upgradable makes the lock when it is called for the first time. It does not block, and
// may be called concurrently.
func (rw *RWLock) Upgradable() *Lock {
	if l := rw.third.Load(); l != nil {
		return l
	}
	l := newLock(rw.reader.m, rw.reader.path, queue.Upgradable)
	l.rw = rw
	if !rw.third.CompareAndSwap(nil, l) {
		return rw.third.Load()
	}
	// What the other locks of the pair know of, this one must know, too. Those that make
	// it known put it into the reader first and look for us then, and we do the reverse:
	// at least one sees the other. See noteContext and observers.ofLocked.
	if rw.reader.noted.Load().Has(state.InContexts) {
		l.noted.Raise(state.InContexts)
	}
	if o := rw.reader.observer.Load(); o != nil {
		l.observer.Store(o)
	}
	return l
}

// upgraded returns the tenure of an upgradable of this process that is exclusive; nil if there
// is none.
func (rw *RWLock) upgraded() *tenure {
	l := rw.third.Load()
	if l == nil {
		return nil
	}
	r := l.cur.Load()
	if r.word.Load().Phase() != state.Retained {
		return nil
	}
	t := r.io()
	if u := t.raised(); u == nil || u.exclusive.Load() == nil {
		return nil
	}
	return t.tenure
}

// upgrading reports whether this process holds l, an upgradable read lock, and waits to
// be exclusive.
func (l *own) upgrading() bool {
	r := l.cur.Load()
	if r.word.Load().Phase() != state.Retained {
		return false
	}
	u := r.io().raised()
	return u != nil && u.pending()
}
