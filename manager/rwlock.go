// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// An RWLock is a pair of locks in one queue: any number of processes can hold the
// read lock together, and one process the write lock alone. A reader waits for
// the writers ahead of it, and a writer for every contender ahead of it, so
// neither starves the other. Get an RWLock from [Manager.ReadWrite].
//
// As with a [Lock], only processes exclude each other. In one process, readers
// and the writer may hold their locks together: while the process holds the write
// lock, its own readers enter at once, which is a downgrade if the write lock is
// then released. In the other direction, a goroutine that holds the read lock and
// asks for the write lock would wait for itself; it gets [ErrUpgrade] if its
// context comes from [Hold.Context]. For that there is a third lock,
// [RWLock.Upgradable].
type RWLock struct {
	reader Lock // not a pointer: one allocation for the pair and its reader
	writer *Lock
	third  atomic.Pointer[Lock] // made on first use: see Upgradable
}

// Reader returns the read lock.
func (rw *RWLock) Reader() *Lock { return &rw.reader }

// Writer returns the write lock.
func (rw *RWLock) Writer() *Lock { return rw.writer }

func newRWLock(m *Manager, path string) *RWLock {
	rw := &RWLock{writer: newLock(m, path, queue.Write)}
	rw.reader.init(m, path, queue.Read)
	rw.reader.rw, rw.writer.rw = rw, rw
	return rw
}

// locks are the locks of the pair that there are.
func (rw *RWLock) locks() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if !yield(rw.writer) {
			return
		}
		if l := rw.third.Load(); l != nil && !yield(l) {
			return
		}
		yield(&rw.reader)
	}
}

// held returns a grant beside which readers of this process enter: that of the round
// in which it owns the write lock, or owned it until its node is deleted; or that of
// an upgradable that is exclusive.
func (rw *RWLock) held() (Grant, bool) {
	if g, ok := rw.upgraded(); ok {
		return g, true
	}
	r := rw.writer.cur.Load()
	switch r.word.Load().Phase() {
	case state.Retained, state.Releasing:
		// The future says whether a round that is being released was ever
		// granted. It lags behind the word for a moment: see granted.
		g, err, ok := r.io().granted.Future().Poll()
		return g, ok && err == nil
	}
	return Grant{}, false
}

// granted is called when a round of l has been granted.
//
// If another lock of the pair waits for it in this process, the round takes newcomers
// for a tenure only. One that begins to queue makes its round FETCHING before it looks
// for ours; ours is RETAINED before we look for the others. At least one sees the other.
func (rw *RWLock) granted(l *Lock) {
	if l == rw.writer {
		rw.letReadersIn()
	}
	if rw.awaited(l) {
		rw.closeGate(l)
	}
}

// letReadersIn wakes the readers of this process that are queued behind its writer,
// which has just been granted, or behind its upgradable, which is now exclusive: they
// enter beside it.
//
// A reader's step looks for held after its round is FETCHING; what held returns is
// settled before we look for the reader's round. At least one sees the other.
func (rw *RWLock) letReadersIn() {
	r := rw.reader.cur.Load()
	if r.word.Load().Phase() == state.Fetching && r.flags.Load().Has(state.PrevReleased|state.Wanted) {
		r.io().wake()
	}
}

// fetching is called when a round of l queues. The other locks of the pair do not linger
// any longer. Their holders in this process would keep l out for as long as new ones
// arrive, so those queue behind it once their round has lasted a tenure. Readers have no
// need of that: they enter beside our own writer.
func (rw *RWLock) fetching(l *Lock) {
	for other := range rw.locks() {
		if other != l {
			other.cur.Load().endIdle()
		}
	}
	if l.kind == queue.Read {
		return
	}
	for other := range rw.locks() {
		if other != l && queue.Excludes(other.kind, l.kind) {
			rw.closeGate(other)
		}
	}
}

// awaited reports whether a round of another lock of the pair waits in this process
// until a round of l is over.
func (rw *RWLock) awaited(l *Lock) bool {
	for other := range rw.locks() {
		switch {
		case other == l, other.kind == queue.Read: // see fetching
		case !queue.Excludes(other.kind, l.kind):
			if other.upgrading() { // it waits for l, the reader
				return true
			}
		case other.cur.Load().word.Load().Phase() == state.Fetching:
			return true
		}
	}
	return false
}

// closeGate tells the holders of l, if this process holds l, that another lock of the pair
// waits for them, and closes the gate of their round: now if the round has lasted a tenure,
// otherwise then, if it is still awaited. Closing it at once would end a read round for
// every write, and even for a TryLock that passes by; with occasional writes, hardly any
// readers would share a round.
func (rw *RWLock) closeGate(l *Lock) {
	r := l.cur.Load()
	m := l.m
	if r.word.Load().Phase() != state.Retained {
		return
	}
	t := r.io()
	//holdfast:reached hold: told that its own process waits
	t.seeContention()
	if m.cfg.Tenure < 0 {
		return
	}
	if rest := m.cfg.Tenure - time.Duration(m.now()-t.tenure.since); rest <= 0 {
		//holdfast:reached gate: closed as our own writer queued
		r.closeGate()
	} else {
		t.wakeAfter(rest, state.WriterTimer, state.WriterDue)
	}
}

// writerDue closes the gate of the round r if it has been awaited until now. r's step
// calls it after lowering the timer that closeGate started. A round that is FETCHING
// after that finds that the tenure is over; one that found the timer raised is seen
// here.
func (rw *RWLock) writerDue(r *round) {
	if r.word.Load().Phase() == state.Retained && rw.awaited(r.lock) {
		//holdfast:reached gate: closed when our own writer had waited for the tenure
		r.closeGate()
	}
}
