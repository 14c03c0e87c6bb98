// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"github.com/holdfast-go/holdfast/manager/internal/queue"
	"github.com/holdfast-go/holdfast/state"
)

// An RWLock is a pair of locks in one queue: any number of processes can hold
// the read lock together, and one process the write lock alone. A reader waits
// for the writers ahead of it, a writer for everybody ahead of it; so neither
// starves the other. Get one with [Manager.ReadWrite].
//
// As with a [Lock], it is processes that are excluded. The goroutines of one
// process may be inside together, its readers beside its writer: while a process
// holds the write lock, its own readers enter at once (a downgrade, if the write
// lock is then released). The other way round, a goroutine that holds the read
// lock and asks for the write lock would wait for itself: if its context says so
// (see [Hold.Context]) it gets [ErrUpgrade].
type RWLock struct{ reader, writer *Lock }

// Reader returns the read lock.
func (rw *RWLock) Reader() *Lock { return rw.reader }

// Writer returns the write lock.
func (rw *RWLock) Writer() *Lock { return rw.writer }

func newRWLock(m *Manager, path string) *RWLock {
	rw := &RWLock{reader: newLock(m, path, queue.Read), writer: newLock(m, path, queue.Write)}
	rw.reader.rw, rw.writer.rw = rw, rw
	return rw
}

// held returns the grant of the round in which this process owns the write lock
// now, or did until its node is deleted.
func (rw *RWLock) held() (Grant, bool) {
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

// granted is told that a round of l was granted.
//
// If it is the writer's, readers of this process that are queued behind it
// enter now. A reader's step looks for the writer's grant after its round is
// FETCHING; we settle the grant first and look for the reader's round then: one
// of us sees the other.
//
// If it is the reader's, and our own writer is queued behind it, it takes
// newcomers for a tenure only. A writer that begins to queue sees that for
// itself if the reader's round is RETAINED by then; its own is FETCHING before it
// looks, and ours is RETAINED before we do: one of us sees the other.
func (rw *RWLock) granted(l *Lock) {
	if l == rw.writer {
		r := rw.reader.cur.Load()
		if r.word.Load().Phase() == state.Fetching && r.flags.Load().Has(state.PrevReleased|state.Wanted) {
			r.io().wake()
		}
	} else if rw.writer.cur.Load().word.Load().Phase() == state.Fetching {
		rw.closeReader()
	}
}

// fetching is told that a round of l queues. Our own readers would
// keep our writer out for as long as new ones arrive; so they queue behind it
// when their round has lasted a tenure.
func (rw *RWLock) fetching(l *Lock) {
	if l == rw.writer {
		rw.closeReader()
	}
}

// closeReader closes the gate of the reader's round if this process has it: now
// if the round has lasted a tenure, else then, if our writer is still waiting.
// At once would be too early: every write would end a read round, a TryLock
// that passes by, too, and where some write now and then, hardly any readers
// would share a round.
func (rw *RWLock) closeReader() {
	r := rw.reader.cur.Load()
	m := r.lock.m
	if m.cfg.Tenure < 0 || r.word.Load().Phase() != state.Retained {
		return
	}
	t := r.io()
	if rest := m.cfg.Tenure - time.Duration(m.now()-t.tenure.since); rest <= 0 {
		//holdfast:reached gate: closed as our own writer queued
		r.flags.Set(state.GateClosed)
	} else {
		t.wakeAfter(rest, state.WriterTimer, state.WriterDue)
	}
}

// writerDue closes the gate of the read round r if this process's own writer has
// waited for it until now. It is called by r's step, when the timer that
// closeReader started has been lowered: a writer whose round is FETCHING after
// that finds that the tenure is over, and one that found the timer is seen here.
func (rw *RWLock) writerDue(r *round) {
	if r.word.Load().Phase() == state.Retained && rw.writer.cur.Load().word.Load().Phase() == state.Fetching {
		//holdfast:reached gate: closed when our own writer had waited for the tenure
		r.flags.Set(state.GateClosed)
	}
}
